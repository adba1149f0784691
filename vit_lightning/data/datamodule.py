"""The data contract: what a datamodule must offer, and everything that it then gets for free."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision.transforms.v2 import functional as F

from vit_lightning.augment import Augment
from vit_lightning.augment import per_image as augmenting
from vit_lightning.augment.mixing import targets
from vit_lightning.augment.per_batch import BatchAugment, obstacle
from vit_lightning.augment.per_image import RandomCut, Size, Transform
from vit_lightning.data import gpu_decode, subsets
from vit_lightning.data.gpu_decode import Decoder, Encoded, Undecoded
from vit_lightning.data.in_memory import Held, WholeBatches, as_it_is, hold
from vit_lightning.data.loaders import DeviceLoader, ResumableLoader
from vit_lightning.data.records import ImageSet, OnError, Records
from vit_lightning.data.sampling import EvalSampler, TrainSampler
from vit_lightning.data.workers import shield_worker
from vit_lightning.errors import InputError
from vit_lightning.seeds import run_seed, seeded

LARGEST_SIDE = 10**6
"""Pixels that an image may have on a side."""
MOST_CLASSES = 10**6
"""More are no class numbers but a mistake, and nothing would hold their head."""

Batch = tuple[Tensor, Tensor]


class ImageDataModule(LightningDataModule, ABC):
    """Images with labels.

    A subclass provides `num_classes` and a `setup(stage)` that fills `train_set`, `val_set` and `test_set`; each may
    stay None. `num_classes` and `class_names` are known before `setup` and never download. Downloads belong in
    `prepare_data`, which runs once per machine and keeps no state.

    Args:
        root: folder that holds the data.
        image_size: height and width of the images given to the model, one number for both or [height, width].
        batch_size: images per device and step.
        num_workers: processes that load images, per device; unset: one per core, at most 8, and none where batches are
            taken from memory as they are. 0 loads in the main one, as training sets varied on a GPU always do.
        augment: how training images are varied and evaluation images brought to size.
        in_memory: decode each set once, when its loader is made, and keep it in memory; all its images must have one
            size. Unset: sets whose images have at most 128 pixels per side and 2 GiB together.
        augment_on_device: vary whole training batches on the device that trains, instead of one image after the other
            in the loader; the random numbers are others, from the same distributions. Unset: where it is possible,
            which is for sets in memory and every step but the inception crop and TrivialAugment.
        decode_on_device: decode training JPEGs on the GPU that trains (nvJPEG), and cut, resize and vary them there. It
            pays where a fast GPU with a JPEG engine (A100, H100 and later) has few CPU cores, and the progress line's
            data_wait is more than a few percent. Crops stay the same, pixels nearly so; RandAugment, rotation, shift,
            scale and erasing draw other numbers than on the host, from the same distributions. Other images than plain
            JPEGs are decoded in the loader as ever, and so are those of validation and test. A damaged JPEG whose
            markers are in order is not noticed there, but shown as far as it goes; the verb `doctor` finds such.
        fraction: share of the training images to use, for studies of the data's size: the same ones in every run, and
            those of a smaller share are among those of a larger one.
        per_class: number of training images to use of every class, chosen likewise.
        on_error: what an image does that cannot be read. raise: it ends the run; skip: it is logged, in training the
            next readable one takes its place, and in evaluation it does not count; fix: a JPEG that is damaged inside
            is shown with the parts that the decoder makes up, any other ends the run.
        max_broken: share of a set above which skipped images end the run after all.
        mean: per-channel mean that the model subtracts, for pixels in [0, 1]; unset: the weights' own, else 0.5.
        std: per-channel standard deviation that the model divides by; unset: the weights' own, else 0.5.
    """

    train_set: ImageSet | None = None
    val_set: ImageSet | None = None
    test_set: ImageSet | None = None

    def __init__(
        self,
        root: Path | None = None,
        image_size: int | tuple[int, int] = 224,
        batch_size: int = 128,
        num_workers: int | None = None,
        augment: Augment = Augment(),
        in_memory: bool | None = None,
        augment_on_device: bool | None = None,
        decode_on_device: bool = False,
        fraction: float = 1.0,
        per_class: int | None = None,
        on_error: OnError = "raise",
        max_broken: float = 0.01,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> None:
        super().__init__()
        self.root = root if root is None else Path(root).expanduser()
        self.image_size = image_size
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.augment = augment
        self.in_memory = in_memory
        self.augment_on_device = augment_on_device
        self.decode_on_device = decode_on_device
        self.fraction = fraction
        self.per_class = per_class
        self.on_error = on_error
        self.max_broken = max_broken
        self.mean = mean
        self.std = std
        self.further_sets: dict[str, ImageSet] = {}
        """Sets that `setup` may fill in to be scored beside `val_set` and `test_set`, as val/<name> and test/<name>."""
        self.faults: list[InputError] | None = None
        """Where `report` puts faults; None: the first one ends the run."""
        self._held: dict[tuple[str, bool | None], tuple[ImageSet, Held | None]] = {}
        self._decoder: Decoder | None = None
        for name, least, value in (
            ("image_size", 1, min(self.size)),
            ("batch_size", 1, batch_size),
            ("num_workers", 0, num_workers or 0),
            ("per_class", 1, 1 if per_class is None else per_class),
        ):
            if value < least:
                raise InputError(f"--data.{name} is {value}, expected {least} or more")
        if max(self.size) > LARGEST_SIDE:
            raise InputError(f"--data.image_size is {max(self.size)}, expected at most {LARGEST_SIDE}")
        if std is not None and min(std) <= 0:
            raise InputError(f"--data.std is {tuple(std)}, expected a value above 0 for every channel")
        if not 0 <= max_broken <= 1:
            raise InputError(f"--data.max_broken is {max_broken}, expected a share from 0 to 1")
        if not 0 < fraction <= 1:
            raise InputError(f"--data.fraction is {fraction}, expected a share above 0 and at most 1")
        if fraction < 1 and per_class:
            raise InputError(f"--data.fraction {fraction} and --data.per_class {per_class} cannot both be; give one")

    @property
    @abstractmethod
    def num_classes(self) -> int | None:
        """Number of classes, known before `setup`; None: unlabelled images, whose classes the checkpoint knows."""

    @property
    def class_names(self) -> list[str]:
        """A name per class, in the order of the labels."""
        return [str(label) for label in range(self.num_classes or 0)]

    @abstractmethod
    def setup(self, stage: str) -> None:
        """Fill `train_set`, `val_set` and `test_set`, or those that `stage` (fit, validate, test, predict) needs."""

    def report(self, fault: InputError) -> None:
        """Raise a fault of one file among many, unless all are wanted, as by the verb doctor."""
        if self.faults is None:
            raise fault
        self.faults.append(fault)

    def train_transform(self) -> Transform:
        """Return the training transform, uint8 `(c, y, x)` to uint8, or float in [0, 1], at `image_size`.

        It must draw from torch's generator alone, which is seeded for every record.
        """
        return augmenting.train_transform(self.augment, self.size)

    def eval_transform(self) -> Transform:
        """Return the transform for validation, test and prediction; nothing in it is random."""
        return augmenting.eval_transform(self.augment, self.size)

    def train_dataloader(self) -> DataLoader:
        records = self._training()
        sampler = TrainSampler(records, **self._share, seed=run_seed())
        if len(sampler) < self.batch_size:
            devices = self._share["num_replicas"]
            raise InputError(
                f"{self._of_part}the training set has {_count(len(records))}, too few for one batch of "
                f"{self.batch_size} on each of "
                f"{devices} device{'s' * (devices > 1)}; give --data.batch_size {max(1, len(sampler))} or less"
            )
        return self._loader(records, sampler, drop_last=True)

    def val_dataloader(self) -> DataLoader | list:
        if self.val_set is None and not self._runs("validate"):
            rank_zero_info(f"{type(self).__name__} has no validation set: validation is skipped")
            return []
        return self._scored("val_set")

    def test_dataloader(self) -> DataLoader | list:
        return self._scored("test_set")

    def predict_dataloader(self) -> DataLoader:
        return self._eval_loader("val_set" if self.test_set is None else "test_set")

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Decode a batch if the loader did not, and mix it in training; its labels are then float `(b, classes)`."""
        if self._decoder is not None and isinstance(batch[0], Encoded):
            batch = self._decoder(*batch)
        if self._mixing is None or self.trainer is None or not self.trainer.training:
            return batch
        pixels, goals = F.to_dtype(batch[0], torch.float32, scale=True), self._goals(batch[1])
        if self._mixed_enough:
            return pixels, goals
        step = self.trainer.fit_loop.epoch_loop.batch_progress.current.ready
        with seeded(run_seed(), self.trainer.current_epoch, step, self.trainer.global_rank):
            return self._mixing(pixels, goals)

    def _goals(self, labels: Tensor) -> Tensor:
        """Float targets `(b, classes)`: what is mixed cannot be smoothed by the loss, so labels are smoothed here."""
        goals, smooth = targets(labels, self.num_classes), getattr(self.trainer.lightning_module, "smooth", None)
        return smooth(goals) if smooth and labels.ndim == 1 else goals

    @property
    def _mixed_enough(self) -> bool:
        """Whether the part of the run has begun in which batches are as they are."""
        unmixed = self.augment.unmixed
        return unmixed > 0 and self.trainer.global_step >= (1 - unmixed) * self.trainer.estimated_stepping_batches

    def on_exception(self, exception: BaseException) -> None:
        """Keep a user fault's sentence alone: a loader's worker hands it over at the end of its whole traceback."""
        if isinstance(exception, InputError):
            exception.args = (str(exception).rpartition(f".{type(exception).__name__}: ")[2].rstrip(),)

    @cached_property
    def _mixing(self) -> Callable[[Tensor, Tensor], Batch] | None:
        return augmenting.mixing(self.augment, self.num_classes)

    @property
    def train_part(self) -> ImageSet | None:
        """The training images that `fraction` or `per_class` leave; all without them."""
        if self.train_set is None or (self.fraction == 1 and self.per_class is None):
            return self.train_set
        if self.per_class is None:
            return subsets.share_of(self.train_set, self.fraction)
        return subsets.some_of_each(self.train_set, self.per_class, self.class_names)

    @property
    def _of_part(self) -> str:
        """What left the training set smaller than it is, to begin a message with."""
        if self.per_class is not None:
            return f"with --data.per_class {self.per_class} "
        return f"with --data.fraction {self.fraction} " if self.fraction < 1 else ""

    @property
    def size(self) -> Size:
        """The image size as (height, width)."""
        return (self.image_size, self.image_size) if isinstance(self.image_size, int) else tuple(self.image_size)

    @property
    def workers(self) -> int:
        """Processes that load images for each device and set."""
        if self.num_workers is not None:
            return self.num_workers
        return min(8, self._cores)

    @property
    def _cores(self) -> int:
        """Processor cores for each device."""
        devices = self.trainer.num_devices if self.trainer is not None else 1
        return max(1, _cores() // devices)

    @property
    def _share(self) -> dict[str, int]:
        """Which part of the records this process loads."""
        kwargs = self.trainer.distributed_sampler_kwargs if self.trainer is not None else None
        return kwargs or {"num_replicas": 1, "rank": 0}

    def _batches_seen(self) -> int:
        """Batches that a resumed run has already trained on in its current epoch."""
        if self.trainer is None or not self.trainer.training:
            return 0
        return self.trainer.fit_loop.epoch_loop.batch_progress.current.ready

    def _runs(self, verb: str) -> bool:
        return self.trainer is not None and self.trainer.state.fn == verb

    def _training(self) -> Records:
        """Return the training set as the loader reads it, varied by batches if that is possible and not forbidden."""
        if self.decode_on_device and self.trainer is not None:
            return self._undecoded(self.trainer.strategy.root_device)
        settings = self._settings("train_set", self.train_transform())
        held, source = self._source("train_set", settings)
        why_not = self._why_not_batches(held)
        if self.augment_on_device and why_not:
            raise InputError(f"--data.augment_on_device true is impossible: {why_not}; leave it out to vary one by one")
        if held is None or why_not or self.augment_on_device is False:
            return _checked(Records(source, *settings))
        return _checked(WholeBatches(held, *settings, augment=BatchAugment(self.augment, self.size)))

    def _undecoded(self, device: torch.device) -> Undecoded:
        """Return the training set for `on_after_batch_transfer` to decode, which only a trainer calls."""
        settings = self.augment, self.augment_on_device, self.in_memory
        if why_not := self._own_transform or gpu_decode.obstacle(*settings):
            raise InputError(f"--data.decode_on_device true is impossible: {why_not}; leave it out")
        gpu_decode.check(device)
        settings = self._settings("train_set", RandomCut(self.augment, self.size))
        self._whole("train_set")
        records = _checked(Undecoded(self.train_part, *settings, augment=self.augment))
        self._decoder = Decoder(records)
        return records

    @property
    def _own_transform(self) -> str | None:
        ours = getattr(self.train_transform, "__func__", None) is ImageDataModule.train_transform
        return None if ours else f"{type(self).__name__} has a training transform of its own"

    def _why_not_batches(self, held: Held | None) -> str | None:
        if self._own_transform:
            return self._own_transform
        if why := obstacle(self.augment):
            return f"{why} varies each image alone"
        return "the training set is not in memory; give --data.in_memory true" if held is None else None

    def _scored(self, attribute: str) -> DataLoader | list:
        if not self.further_sets:
            return self._eval_loader(attribute)
        model = getattr(self.trainer, "lightning_module", None)
        if model is not None and "dataloader_idx" not in signature(model.validation_step).parameters:
            raise InputError(f"{type(model).__name__} scores no further sets such as {next(iter(self.further_sets))}")
        return [self._eval_loader(name) for name in (attribute, *self.further_sets)]

    def _eval_loader(self, attribute: str) -> DataLoader:
        settings = self._settings(attribute, self.eval_transform())
        held, source = self._source(attribute, settings)
        ours = getattr(self.eval_transform, "__func__", None) is ImageDataModule.eval_transform
        kind = Records if held is None or not ours else WholeBatches
        records = _checked(kind(source, *settings))
        return self._loader(records, EvalSampler(records, **self._share))

    def _settings(self, attribute: str, transform: Transform) -> tuple[Any, ...]:
        split = _SPLITS.get(attribute, attribute)
        return transform, self.size, self.num_classes, split, self.on_error, self.max_broken

    def _whole(self, attribute: str) -> ImageSet:
        whole = self.further_sets[attribute] if attribute in self.further_sets else getattr(self, attribute)
        if whole is None or len(whole) == 0:
            split = _SPLITS.get(attribute, attribute)
            raise InputError(f"{type(self).__name__} has no {split} images, which this command needs")
        return whole

    def _source(self, attribute: str, settings: tuple[Any, ...]) -> tuple[Held | None, ImageSet]:
        """Return a set in memory, or None, and what is to be loaded from."""
        whole = self._whole(attribute)
        source = self.train_part if attribute == "train_set" else whole
        key = attribute, self.in_memory
        if self._held.get(key, (None,))[0] is not whole:
            self._held[key] = whole, hold(Records(source, *settings), self.in_memory, self._cores)
        held = self._held[key][1]
        return held, held or source

    def _loader(self, records: Records, sampler: TrainSampler | EvalSampler, drop_last: bool = False) -> DataLoader:
        settings = {"batch_size": self.batch_size, "sampler": sampler, "drop_last": drop_last}
        batched = isinstance(records, WholeBatches)
        device = self.trainer.strategy.root_device if self.trainer is not None else torch.device("cpu")
        if batched and records.augment is not None and device.type != "cpu":
            return DeviceLoader(records, self._batches_seen, device, **settings)
        as_they_are = batched and (records.augment is not None or records.source.images.shape[2:] == self.size)
        workers = 0 if as_they_are and self.num_workers is None else self.workers
        return ResumableLoader(
            records,
            self._batches_seen,
            device,
            **settings,
            num_workers=workers,
            collate_fn=as_it_is if hasattr(records, "__getitems__") else None,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=workers > 0,
            worker_init_fn=shield_worker,
            generator=torch.Generator(),  # else starting an epoch would move the caller's random state
        )


_SPLITS = {"train_set": "training", "val_set": "validation", "test_set": "test"}


def _count(images: int) -> str:
    return f"{images} image{'s' * (images != 1)}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked(records: Records) -> Records:
    records.check()
    return records
