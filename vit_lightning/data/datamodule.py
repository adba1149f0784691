"""The data contract: what a datamodule must offer, and everything that it then gets for free."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision.transforms.v2 import functional as F

from vit_lightning.augment import Augment, per_image
from vit_lightning.augment.mixing import to_targets
from vit_lightning.augment.per_image import Size, Transform, check_colours
from vit_lightning.contracts import KnowsPixels, SmoothsTargets
from vit_lightning.data import loaders, subsets
from vit_lightning.data.carried_names import carried_names
from vit_lightning.data.gpu_decode import Decoder, EncodedBatch
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.in_memory import InMemorySet
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.records import OnError
from vit_lightning.data.sampling import Sampling
from vit_lightning.data.window import window_of
from vit_lightning.data.workers import cores
from vit_lightning.errors import InputError
from vit_lightning.seeds import run_seed, seeded
from vit_lightning.terminal import typed

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
        batch_size: images in a batch, per device. An optimiser step sees these times the devices and the accumulated
            batches.
        num_workers: processes that load images, per device (unset: one per core, at most 16). 0 loads in the main
            process. Batches that are taken from memory as they are need none, and training sets varied on a GPU have
            none.
        augment: how training images are varied and evaluation images brought to size.
        in_memory: keep each set decoded in the host's memory (unset: where its images are small). All its images must
            have one size. Small are images of at most 128 pixels per side and 2 GiB together.
        augment_on_device: vary whole training batches on the device that trains, not one image after the other in the
            loader. The random numbers differ; their distributions are the same. It needs a set in memory, and another
            crop than inception and no TrivialAugment. Unset: wherever that holds.
        decode_on_device: decode training JPEGs on the training GPU (nvJPEG), and crop and augment them there. It
            pays where a GPU with a JPEG engine (A100, H100 and later) has few CPU cores, and the progress line is
            waiting for data more than a few percent of the time. Crops stay the same, pixels nearly so. RandAugment,
            rotation, shift, scale and erasing draw other numbers than on the host, from the same distributions. The
            loader decodes all images that are no plain JPEGs, and those of validation and test. A damaged JPEG whose
            markers are in order is shown as far as it goes, without an error; the verb `doctor` finds such files.
        fraction: share of the training images to use, for studies of the data's size. Every run uses the same ones. A
            larger share holds all images of a smaller one.
        per_class: number of training images to use of every class, chosen likewise.
        sampler: which training images an epoch draws. shuffled: each once, in a new order. balanced: as many images, of
            every class equally many, for classes of very different sizes. Images of small classes then come several
            times, with other crops, and of large classes others come in each epoch.
        on_error: what happens when an image cannot be read. raise: the run ends. skip: the image is logged; in training
            the next readable one takes its place, in evaluation it does not count. fix: a JPEG that is damaged inside
            is shown with the parts that the decoder makes up; any other image ends the run.
        max_broken: share of a set above which skipped images end the run after all.
        mean: per-channel mean that the model subtracts, for pixels in [0, 1]. Unset: the weights' own, else 0.5.
        std: per-channel standard deviation that the model divides by. Unset: the weights' own, else 0.5.
        channels: channels of the images, which the net takes from here. 1 keeps grey as it is and makes it of colours,
            3 repeats grey, 4 keeps transparency; other numbers are the bands of a TIFF. Unset: the checkpoint's, else
            3.
        window: values of images of 16 bits or floats that become black and white, as [low,high]; those beyond are
            clipped. Images are then float32 in [0, 1] all the way, and 8-bit ones are divided by 255. auto: between
            which 99.8 % of the values of 128 training images lie, which the checkpoint keeps. Unset: the checkpoint's,
            else 16 bits are scaled to 8, and floats are refused.
    """

    train_set: ImageSet | None = None
    val_set: ImageSet | None = None
    test_set: ImageSet | None = None
    _carried: tuple[list[ImageSet | None], list[str]] = ([None] * 3, [])
    """Sets that were asked for the names of their classes, and these."""
    has_published_splits: bool = False
    """Whether the splits are published ones, whose keys are at hand: a run records which images they hold."""

    @property
    @abstractmethod
    def num_classes(self) -> int | None:
        """Number of classes, known before `setup`; None: unlabelled images, whose classes the checkpoint knows."""

    @property
    def class_names(self) -> list[str]:
        """A name per class, in the order of the labels: what a set carries after `setup`, else the labels as text."""
        classes, sets = self.num_classes or 0, [self.train_set, self.val_set, self.test_set]
        if any(one is not asked for one, asked in zip(sets, self._carried[0], strict=True)):
            self._carried = sets, carried_names(sets, classes)
        return list(self._carried[1]) or [str(label) for label in range(classes)]

    @abstractmethod
    def setup(self, stage: str) -> None:
        """Fill `train_set`, `val_set` and `test_set`, or those that `stage` (fit, validate, test, predict) needs."""

    def train_transform(self) -> Transform:
        """Return the training transform, `(c, y, x)` of uint8 or float in [0, 1] to either, at `image_size`.

        It must draw from torch's generator alone, which is seeded for every record.
        """
        return per_image.train_transform(self.augment, self.size, self.pixel_form.window is not None)

    def eval_transform(self) -> Transform:
        """Return the transform for validation, test and prediction; nothing in it is random."""
        return per_image.eval_transform(self.augment, self.size)

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
        sampler: Sampling = "shuffled",
        on_error: OnError = "raise",
        max_broken: float = 0.01,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
        channels: int | None = None,
        window: tuple[float, float] | Literal["auto"] | None = None,
    ) -> None:
        super().__init__()
        self.root = root if root is None else Path(root).expanduser().absolute()  # so that errors say where it is
        self.image_size = image_size
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.augment = augment
        self.in_memory = in_memory
        self.augment_on_device = augment_on_device
        self.decode_on_device = decode_on_device
        self.fraction = fraction
        self.per_class = per_class
        self.sampler = sampler
        self.on_error = on_error
        self.max_broken = max_broken
        self.mean = mean
        self.std = std
        self.channels = channels
        self.window = None if window is None or isinstance(window, str) else (window[0], window[1])
        self.finds_window = window == "auto"
        """Whether the window is that of the training images, unless a checkpoint knows it."""
        self.further_sets: dict[str, ImageSet] = {}
        """Sets that `setup` may fill in to be scored beside `val_set` and `test_set`, as val/<name> and test/<name>."""
        self.run_folder: Path | None = None
        """Folder of the run that the command line begins or reads from; None: nothing of it is kept."""
        self.ignores_split = False
        """Whether the run's split is of no concern, as --data.split_file null says: what is scored is scored whole."""
        self.scored_alone: tuple[str, ...] = ()
        """Sets, such as test_set, that the verb doctor looks at in place of all, as data to be scored alone."""
        self.faults: list[InputError] | None = None
        """Where `report` puts faults; None: the first one ends the run."""
        self.predict_from = 0
        self.notices: list[str] = []
        """What `notice` has said."""
        self.in_memory_sets: dict[tuple[str, bool | None, PixelForm], tuple[ImageSet, InMemorySet | None]] = {}
        """Each set that was looked at, and its images in memory where they are small, by name and settings."""
        self.jpeg_decoder: Decoder | None = None
        """What decodes training batches on the device, once their loader is made."""
        self._check_flags()

    def _check_flags(self) -> None:
        for name, least, value in (
            ("image_size", 1, min(self.size)),
            ("batch_size", 1, self.batch_size),
            ("num_workers", 0, self.num_workers or 0),
            ("per_class", 1, 1 if self.per_class is None else self.per_class),
            ("channels", 1, 1 if self.channels is None else self.channels),
        ):
            if value < least:
                raise InputError(f"--data.{name} is {value}, expected {least} or more")
        if max(self.size) > LARGEST_SIDE:
            raise InputError(f"--data.image_size is {max(self.size)}, expected at most {LARGEST_SIDE}")
        if self.std is not None and min(self.std) <= 0:
            raise InputError(f"--data.std is {typed(self.std)}, expected a value above 0 for every channel")
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values is not None and self.channels is not None and len(values) != self.channels:
                raise InputError(
                    f"--data.{name} is {typed(values)}, expected one value for each of the {self.channels} channels"
                )
        if self.window is not None and not -math.inf < self.window[0] < self.window[1] < math.inf:
            raise InputError(f"--data.window is {typed(self.window)}, expected [low,high] with low below high")
        check_colours(self.augment, self.channels, is_deep=self.window is not None or self.finds_window)
        if not 0 <= self.max_broken <= 1:
            raise InputError(f"--data.max_broken is {self.max_broken}, expected a share from 0 to 1")
        if not 0 < self.fraction <= 1:
            raise InputError(f"--data.fraction is {self.fraction}, expected a share above 0 and at most 1")
        if self.fraction < 1 and self.per_class:
            raise InputError(
                f"--data.fraction {self.fraction} and --data.per_class {self.per_class} cannot both be; give one"
            )

    def train_dataloader(self) -> DataLoader:
        return loaders.training_loader(self)

    def val_dataloader(self) -> DataLoader | list[DataLoader]:
        if self.val_set is None and not (self.trainer is not None and self.trainer.state.fn == "validate"):
            rank_zero_info(f"{type(self).__name__} has no validation set: validation is skipped")
            return []
        return loaders.scored_loaders(self, "val_set")

    def test_dataloader(self) -> DataLoader | list[DataLoader]:
        return loaders.scored_loaders(self, "test_set")

    def predict_dataloader(self) -> DataLoader:
        attribute = "val_set" if self.test_set is None else "test_set"
        return loaders.evaluation_loader(self, attribute, first=self.predict_from)

    @property
    def predict_set(self) -> ImageSet | None:
        """The set that is predicted: the test set, or without one the validation set."""
        return self.val_set if self.test_set is None else self.test_set

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Decode a batch if the loader did not, and mix it in training; its labels are then float `(b, classes)`."""
        if self.jpeg_decoder is not None and isinstance(batch[0], EncodedBatch):
            batch = self.jpeg_decoder(*batch)
        if self._mixing is None or self.trainer is None or not self.trainer.training:
            return batch
        pixels, targets = F.to_dtype(batch[0], torch.float32, scale=True), self._targets(batch[1])
        if self._mixing_is_over(self.trainer):
            return pixels, targets
        step = self.trainer.fit_loop.epoch_loop.batch_progress.current.ready
        with seeded(run_seed(), self.trainer.current_epoch, step, self.trainer.global_rank):
            return self._mixing(pixels, targets)

    def on_exception(self, exception: BaseException) -> None:
        """Keep a user fault's sentence alone: a loader's worker hands it over at the end of its whole traceback."""
        if isinstance(exception, InputError):
            exception.args = (str(exception).rpartition(f".{type(exception).__name__}: ")[2].rstrip(),)

    @property
    def mending(self) -> str:
        """What to do about records that cannot be read."""
        return "mend or remove them"

    def report(self, fault: InputError) -> None:
        """Raise a fault of one file among many, unless all are wanted, as by the verb doctor."""
        if self.faults is None:
            raise fault
        self.faults.append(fault)

    def notice(self, text: str) -> None:
        """Say once what was left out of the data; the verb doctor lists it as a warning alone."""
        if text not in self.notices:
            self.notices.append(text)
            if self.faults is None:  # else its list is all that is printed
                rank_zero_info(text)

    @property
    def size(self) -> Size:
        """The image size as (height, width)."""
        height, width = (self.image_size,) * 2 if isinstance(self.image_size, int) else self.image_size
        return height, width

    @property
    def pixel_form(self) -> PixelForm:
        """Channels and values of the images: those stated here, else those that the model keeps of its training."""
        model = getattr(self.trainer, "lightning_module", None)  # whoever stands in for a trainer has none
        channels, window = model.pixel_facts if isinstance(model, KnowsPixels) else (None, None)
        asked = f"the net takes {channels}" if self.channels is None and channels is not None else ""
        if self.window is not None or window is None:
            window = self.found_window if self.finds_window else self.window
        return PixelForm(self.channels or channels, window, asked)

    @cached_property
    def found_window(self) -> tuple[float, float]:
        """The window of the training images."""
        images = self.train_subset
        if images is None or not len(images):
            raise InputError(
                "--data.window auto needs training images, or a checkpoint that keeps their window; give [low,high]"
            )
        return window_of(images)

    @property
    def train_subset(self) -> ImageSet | None:
        """The training images that `fraction` or `per_class` leave; all without them."""
        return None if self.train_set is None else self.subset(self.train_set)

    def subset(self, images: ImageSet) -> ImageSet:
        """Return what `fraction` or `per_class` leave of a training set."""
        if self.per_class is not None:
            return subsets.take_per_class(images, self.per_class, self.class_names)
        return images if self.fraction == 1 else subsets.take_fraction(images, self.fraction)

    @property
    def class_counts(self) -> subsets.ClassCounts | None:
        """Training images per class that `fraction` or `per_class` leave, after `setup`; None: there are no classes."""
        images, num_classes = self.train_subset, self.num_classes
        return None if images is None or num_classes is None else subsets.class_counts(images, num_classes)

    @property
    def workers(self) -> int:
        """Processes that load images for each device and set."""
        return min(16, self.cores_per_device) if self.num_workers is None else self.num_workers

    @property
    def cores_per_device(self) -> int:
        """Processor cores for each device."""
        devices = 1 if self.trainer is None else self.trainer.num_devices
        return max(1, cores() // devices)

    @property
    def stated_names(self) -> list[str]:
        """The class names that a subclass states; none where it leaves them to be numbers."""
        return [] if type(self).class_names is ImageDataModule.class_names else list(self.class_names)

    def overrides(self, name: str) -> bool:
        """Tell whether a method is not that of this class."""
        return getattr(getattr(self, name), "__func__", None) is not getattr(ImageDataModule, name)

    def _targets(self, labels: Tensor) -> Tensor:
        """Float targets `(b, classes)`: what is mixed cannot be smoothed by the loss, so labels are smoothed here."""
        targets = to_targets(labels, self.num_classes or 0)
        model = None if self.trainer is None else self.trainer.lightning_module
        return model.smooth(targets) if isinstance(model, SmoothsTargets) and labels.ndim == 1 else targets

    def _mixing_is_over(self, trainer: Trainer) -> bool:
        """Whether the part of the run has begun in which batches are not mixed."""
        unmixed = self.augment.unmixed
        return unmixed > 0 and trainer.global_step >= (1 - unmixed) * trainer.estimated_stepping_batches

    @cached_property
    def _mixing(self) -> Callable[[Tensor, Tensor], Batch] | None:
        return per_image.mixing(self.augment, self.num_classes or 0)
