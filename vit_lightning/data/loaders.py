"""Which loader a set of a datamodule gets: from memory or not, by batches or one by one, decoded on a GPU or before.

Lightning asks for loaders in any order, several times, and before it restores a run. So a set is decoded into memory
once, and nothing is read for training until the first batch is asked for.
"""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, Protocol

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.utilities import rank_zero_info
from torch.utils.data import DataLoader

from vit_lightning.augment.per_batch import BatchAugment, unsupported
from vit_lightning.augment.per_image import Augment, RandomCut, Size, Transform, check_colours
from vit_lightning.data import gpu_decode
from vit_lightning.data.carried_names import contradiction, named_sets
from vit_lightning.data.continuous_loader import ContinuousLoader
from vit_lightning.data.device_loader import DeviceLoader
from vit_lightning.data.gpu_decode import Decoder, EncodedRecords
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.in_memory import InMemoryBatches, InMemorySet, load_into_memory, no_collate
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.records import OnError, Records
from vit_lightning.data.resumable_loader import ResumableLoader
from vit_lightning.data.run_progress import batches_seen, last_epoch
from vit_lightning.data.sampling import EvalSampler, Sampling, TrainSampler
from vit_lightning.data.subsets import Subset, classes_of
from vit_lightning.data.window import check_counts
from vit_lightning.data.workers import shield_worker
from vit_lightning.errors import InputError, at_most
from vit_lightning.seeds import run_seed

SPLITS = {"train_set": "training", "val_set": "validation", "test_set": "test"}
"""What each set is called in messages; a further set has its own name."""


class LoadsImages(Protocol):
    """What a datamodule tells its loaders: its flags, its sets, its transforms and its trainer."""

    augment: Augment
    augment_on_device: bool | None
    batch_size: int
    decode_on_device: bool
    fraction: float
    further_sets: dict[str, ImageSet]
    in_memory: bool | None
    in_memory_sets: dict[tuple[str, bool | None, PixelForm], tuple[ImageSet, InMemorySet | None]]
    jpeg_decoder: Decoder | None
    max_broken: float
    num_workers: int | None
    on_error: OnError
    per_class: int | None
    sampler: Sampling
    trainer: Trainer | None

    @property
    def num_classes(self) -> int | None: ...

    @property
    def stated_names(self) -> list[str]: ...

    @property
    def pixel_form(self) -> PixelForm: ...

    @property
    def size(self) -> Size: ...

    @property
    def workers(self) -> int: ...

    @property
    def cores_per_device(self) -> int: ...

    def train_transform(self) -> Transform: ...

    def eval_transform(self) -> Transform: ...

    def subset(self, images: ImageSet) -> ImageSet: ...

    def overrides(self, name: str) -> bool: ...


def training_loader(data: LoadsImages) -> DataLoader:
    """Return the loader of the training set.

    Raises:
        InputError: if the set is missing, smaller than a batch, or a flag asks for what cannot be done with it.
    """
    check_names(data, "train_set")
    check_counts(_set(data, "train_set"), data.pixel_form, "training")
    records = _checked(_training_records(data))
    shard = _shard(data)
    classes = None
    if data.sampler == "balanced":
        classes = classes_of(records.source, "--data.sampler balanced", "give --model.class_weights balanced instead")
        records.draw_equally(classes)
    sampler = TrainSampler(records, **shard, seed=run_seed(), classes=classes)
    if len(sampler) < data.batch_size:
        devices = shard["num_replicas"]
        raise InputError(
            f"{_subset_flag(data)}the training set has {_count(len(records))}, too few for one batch of "
            f"{data.batch_size} on each of {devices} device{'s' * (devices > 1)}; "
            f"give {_more_images(data, len(sampler))}--data.batch_size {at_most(len(sampler))}"
        )
    return _loader(data, records, sampler, drop_last=True)


def evaluation_loader(data: LoadsImages, attribute: str, first: int = 0) -> DataLoader:
    """Return the loader of the set in an attribute, or of a further set by its name, from its record `first` on.

    Raises:
        InputError: if the set is missing or has no images.
    """
    transform = data.eval_transform()
    source = _set(data, attribute)
    in_memory = _in_memory(data, attribute, source, transform)
    return _in_order(data, source, in_memory, _settings(data, attribute, transform), first)


def frozen_loader(data: LoadsImages, source: ImageSet, split: str) -> DataLoader:
    """Return the loader of any images, training ones too, as evaluation sees them: in order, and not varied.

    Args:
        data: their datamodule.
        source: the images.
        split: what they are for, in messages.
    """
    records = frozen_records(data, source, split)
    in_memory = load_into_memory(records, data.in_memory, data.cores_per_device)
    return _in_order(data, source, in_memory, _settings(data, split, records.transform), trains=False)


def frozen_records(data: LoadsImages, source: ImageSet, split: str) -> Records:
    """Return records of which no image is varied, nor stands in for another."""
    return Records(source, *_settings(data, split, data.eval_transform()), data.pixel_form, trains=False)


def _in_order(
    data: LoadsImages,
    source: ImageSet,
    in_memory: InMemorySet | None,
    settings: tuple[Any, ...],
    first: int = 0,
    trains: bool | None = None,
) -> DataLoader:
    """Return the loader of a set from its record `first` on, from memory if it is there."""
    check_counts(source, data.pixel_form, settings[3])
    if in_memory is None:
        records = Records(source, *settings, data.pixel_form, trains=trains)
    elif data.overrides("eval_transform"):  # which may take single images alone
        records = Records(in_memory, *settings, None, trains=trains)
    else:
        records = InMemoryBatches(in_memory, *settings, None, trains=trains)
    return _loader(data, _checked(records), EvalSampler(records, **_shard(data), first=first))


def scored_loaders(data: LoadsImages, attribute: str) -> DataLoader | list[DataLoader]:
    """Return the loader of a set, and with it those of the further sets that are scored in the same pass."""
    check_names(data, "train_set", attribute, *data.further_sets)
    if not data.further_sets:
        return evaluation_loader(data, attribute)
    model = None if data.trainer is None else data.trainer.lightning_module
    if model is not None and "dataloader_idx" not in signature(model.validation_step).parameters:
        raise InputError(f"{type(model).__name__} scores no further sets such as {next(iter(data.further_sets))}")
    return [evaluation_loader(data, name) for name in (attribute, *data.further_sets)]


def check_names(data: LoadsImages, *attributes: str) -> None:
    """Refuse sets in which a label means another class than in those before, as far as they carry names.

    Args:
        data: their datamodule.
        attributes: where it has them, or the names of further sets.

    Raises:
        InputError: naming the class, both sets and what each calls it.
    """
    if said := names_at_odds(data, *attributes):
        raise InputError(said)


def names_at_odds(data: LoadsImages, *attributes: str) -> str | None:
    """Return what `check_names` raises."""
    sets = {name: data.further_sets.get(name, getattr(data, name, None)) for name in attributes}
    named = (one for name, images in sets.items() for one in named_sets(images, SPLITS.get(name, name)))
    return contradiction(type(data).__name__, data.stated_names, named)


def _training_records(data: LoadsImages) -> Records:
    """Return the training set as the loader reads it, varied by batches if that is possible and not forbidden."""
    check_colours(data.augment, data.pixel_form.channels, is_deep=data.pixel_form.window is not None)
    if data.decode_on_device and data.trainer is not None and _is_rgb(data):
        return _encoded_records(data, data.trainer.strategy.root_device)
    transform = data.train_transform()
    settings = _settings(data, "train_set", transform)
    source = data.subset(_set(data, "train_set"))
    in_memory = _in_memory(data, "train_set", source, transform)
    reason = _one_by_one(data, in_memory)
    if data.augment_on_device and reason:
        raise InputError(f"--data.augment_on_device true is impossible: {reason}; leave it out to vary one by one")
    if in_memory is None:
        return Records(source, *settings, data.pixel_form)
    if reason or data.augment_on_device is False:
        return Records(in_memory, *settings, None)
    return InMemoryBatches(in_memory, *settings, None, augment=BatchAugment(data.augment, data.size))


def _is_rgb(data: LoadsImages) -> bool:
    """Tell whether a device can decode the images, and say so if not."""
    if not data.pixel_form.is_rgb:
        rank_zero_info(
            "--data.decode_on_device true decodes images to 8 bits and 3 channels; the loader decodes these, which "
            "have a --data.window or other --data.channels"
        )
    return data.pixel_form.is_rgb


def _encoded_records(data: LoadsImages, device: torch.device) -> EncodedRecords:
    """Return the training set for `on_after_batch_transfer` to decode, which only a trainer calls."""
    reason = _own_transform(data) or gpu_decode.conflict(data.augment, data.augment_on_device, data.in_memory)
    if reason:
        raise InputError(f"--data.decode_on_device true is impossible: {reason}; leave it out")
    gpu_decode.check(device)
    settings = _settings(data, "train_set", RandomCut(data.augment, data.size))
    records = EncodedRecords(data.subset(_set(data, "train_set")), *settings, augment=data.augment)
    data.jpeg_decoder = Decoder(records)
    return records


def _one_by_one(data: LoadsImages, in_memory: InMemorySet | None) -> str | None:
    """Say why training images must be varied one by one, in the loader; None if batches can be."""
    if reason := _own_transform(data):
        return reason
    if step := unsupported(data.augment):
        return f"{step} varies each image alone"
    return "the training set is not in memory; give --data.in_memory true" if in_memory is None else None


def _own_transform(data: LoadsImages) -> str | None:
    own = data.overrides("train_transform")
    return f"{type(data).__name__} has a training transform of its own" if own else None


def _set(data: LoadsImages, attribute: str) -> ImageSet:
    images = data.further_sets[attribute] if attribute in data.further_sets else getattr(data, attribute)
    split = SPLITS.get(attribute, attribute)
    if images is not None and not (hasattr(images, "__len__") and hasattr(images, "__getitem__")):
        raise InputError(
            f"the {split} set of {type(data).__name__} is a {type(images).__name__}; a set has a length and gives its "
            "records by number, as a list does, or a class with __len__ and __getitem__"
        )
    if images is None or len(images) == 0:
        whole = len(images.source) if isinstance(images, Subset) else 0
        if whole and attribute == "train_set":
            raise InputError(
                f"{type(data).__name__} has {_count(whole)} for training, held out for validation; give more images, "
                "a set for validation, or --data.val_fraction 0"
            )
        raise InputError(f"{type(data).__name__} has no {split} images, which this command needs")
    return images


def _in_memory(data: LoadsImages, attribute: str, source: ImageSet, transform: Transform) -> InMemorySet | None:
    """Return a set in memory, decoded the first time that it is asked for; None if it is to be read from its files."""
    whole, key = _set(data, attribute), (attribute, data.in_memory, data.pixel_form)
    if data.in_memory_sets.get(key, (None, None))[0] is not whole:
        records = Records(source, *_settings(data, attribute, transform), data.pixel_form)
        records.needs_class = needs_class(data)
        data.in_memory_sets[key] = whole, load_into_memory(records, data.in_memory, data.cores_per_device)
    return data.in_memory_sets[key][1]


def _settings(data: LoadsImages, attribute: str, transform: Transform) -> tuple[Any, ...]:
    """Return what Records takes beside the set and the form of its images."""
    split = SPLITS.get(attribute, attribute)
    return transform, data.size, data.num_classes, split, data.on_error, data.max_broken


def _loader(
    data: LoadsImages, records: Records, sampler: TrainSampler | EvalSampler, drop_last: bool = False
) -> DataLoader:
    records.needs_class = needs_class(data)
    settings = {"batch_size": data.batch_size, "sampler": sampler, "drop_last": drop_last}
    device = torch.device("cpu") if data.trainer is None else data.trainer.strategy.root_device
    seen = partial(batches_seen, data.trainer)
    workers = data.workers
    if isinstance(records, InMemoryBatches):
        if records.augment is not None and device.type != "cpu":
            return DeviceLoader(records, seen, device, **settings)
        only_gathered = records.augment is not None or records.source.images.shape[2:] == data.size
        workers = 0 if only_gathered and data.num_workers is None else workers
    kind: Callable[..., DataLoader] = ResumableLoader
    if workers and isinstance(sampler, TrainSampler):
        kind = partial(ContinuousLoader, last_epoch=partial(last_epoch, data.trainer))
    return kind(
        records,
        seen,
        device,
        **settings,
        num_workers=workers,
        collate_fn=no_collate if isinstance(records, InMemoryBatches | EncodedRecords) else None,
        pin_memory=torch.cuda.is_available(),
        persistent_workers=workers > 0,
        worker_init_fn=shield_worker,
        generator=torch.Generator(),  # else starting an epoch would move the caller's random state
    )


def needs_class(data: LoadsImages) -> bool:
    """Tell whether the model takes one class per image, or shares of classes, and no image without any."""
    model = None if data.trainer is None else getattr(data.trainer, "lightning_module", None)
    return getattr(model, "hparams", {}).get("loss") == "softmax"


def _shard(data: LoadsImages) -> dict[str, int]:
    """Return which part of the records this process loads, as a sampler takes it."""
    kwargs = None if data.trainer is None else data.trainer.distributed_sampler_kwargs
    return kwargs or {"num_replicas": 1, "rank": 0}


def _subset_flag(data: LoadsImages) -> str:
    """Return the flag that left the training set smaller than it is, to begin a message with."""
    if data.per_class is not None:
        return f"with --data.per_class {data.per_class} "
    return f"with --data.fraction {data.fraction} " if data.fraction < 1 else ""


def _more_images(data: LoadsImages, images: int) -> str:
    """Return the flag that would leave enough images for a batch, if one leaves too few."""
    if data.per_class is not None:
        return "more --data.per_class, or "
    if data.fraction == 1:
        return ""
    return f"--data.fraction {min(1.0, 1.1 * data.fraction * data.batch_size / max(images, 1)):.2g} or more, or "


def _count(images: int) -> str:
    return f"{images} image{'s' * (images != 1)}"


def _checked(records: Records) -> Records:
    records.check()
    return records
