"""The data contract as a function, for the tests of any datamodule."""

import copy
import inspect
import pickle
from itertools import islice
from typing import get_type_hints

import torch
from torch.utils.data import DataLoader

from vit_lightning.data import ImageDataModule
from vit_lightning.data.datamodule import Batch
from vit_lightning.data.image_set import ImageSet, record_of
from vit_lightning.data.images import load
from vit_lightning.data.loaders import SPLITS, names_at_odds
from vit_lightning.data.sampling import BROKEN, IGNORE
from vit_lightning.data.window import holds_scaled, scaled_set
from vit_lightning.errors import InputError

COMPARED = 32
"""Images of a set that are compared after two set-ups; labels are all."""


def check_datamodule(data: ImageDataModule) -> None:
    """Assert that a datamodule keeps the contract of `ImageDataModule`; every message says what to change.

    Args:
        data: a fresh datamodule over a small set: one that was not set up yet and whose batch size is at most half of
            its training set.

    Raises:
        AssertionError: naming the first point that does not hold.
    """
    assert isinstance(data, ImageDataModule), f"{type(data).__name__} must subclass ImageDataModule"
    _check_constructor(type(data))
    _check_classes(data)
    stage = "predict" if data.num_classes is None else "fit"
    data.prepare_data()
    data.setup(stage)
    said = names_at_odds(data, "train_set", "val_set", "test_set")
    assert said is None, said
    _check_counts(data)
    if data.train_set is not None:
        held = next((name for name in ("val_set", "test_set") if getattr(data, name) is data.train_set), None)
        assert held is None, f"{held} is the train_set itself: scores would be those of images that were trained on"
        _check_training(data)
    for split in ("val", "test"):
        if getattr(data, f"{split}_set") is not None:
            _check_evaluation(data, split)
    _check_set_up_again(data, stage)


def _check_constructor(kind: type[ImageDataModule]) -> None:
    for name, parameter in inspect.signature(kind).parameters.items():
        typed = name in get_type_hints(kind.__init__) or parameter.kind is parameter.VAR_KEYWORD
        assert typed, f"{kind.__name__}({name}) needs a type hint, or --data.{name} does not exist"


def _check_classes(data: ImageDataModule) -> None:
    assert data.train_set is None, "give a datamodule that is not set up yet: class facts must not need setup"
    if data.num_classes is None:
        assert list(data.class_names) == [], "class_names of unlabelled images come from the checkpoint"
        return
    assert isinstance(data.num_classes, int), f"num_classes is {data.num_classes!r}, expected a whole number"
    assert data.num_classes > 0, "num_classes is 0"
    names = data.class_names
    assert len(names) == data.num_classes, f"{len(names)} class_names for {data.num_classes} classes"
    assert all(isinstance(name, str) for name in names), "class_names must be text"
    assert len(set(names)) == len(names), "class_names must differ from each other"


def _check_set_up_again(data: ImageDataModule, stage: str) -> None:
    """Set the data up once more and compare the sets, on which a resumed run and a test rely."""
    before = {name: getattr(data, name) for name in SPLITS}
    data.setup(stage)
    for name, one in before.items():
        other = getattr(data, name)
        sizes = [None if each is None else len(each) for each in (one, other)]
        assert sizes[0] == sizes[1], f"{name} has {sizes[0]} images after one setup and {sizes[1]} after another"
        for number in range(sizes[0] or 0):
            same = _same_record(one, other, number, data)
            assert same, f"{name} has another record {number} after another setup; let no chance decide their order"


def _same_record(one: ImageSet, other: ImageSet, number: int, data: ImageDataModule) -> bool:
    """Whether a record has the same label in two sets, and if it is one of the first, the same image."""
    try:
        (image, label), (other_image, other_label) = record_of(one, number), record_of(other, number)
        if not torch.equal(torch.as_tensor(label), torch.as_tensor(other_label)):
            return False
        pictures = (load(each, name="", form=data.pixel_form) for each in (image, other_image))
        return number >= COMPARED or torch.equal(*pictures)
    except InputError:  # one that cannot be read is said elsewhere
        return True


def _check_counts(data: ImageDataModule) -> None:
    for name, split in SPLITS.items():
        is_scaled = holds_scaled(getattr(data, name) or (), data.pixel_form)
        assert not is_scaled, f"{name}: {scaled_set(data.pixel_form, split)}"


def _check_training(data: ImageDataModule) -> None:
    state = torch.get_rng_state()
    batches = _first_batches(data, "train")
    assert torch.equal(state, torch.get_rng_state()), "loading must leave the caller's random state as it was"
    _check_batches(data, batches)
    again = _first_batches(data, "train")
    assert _same(batches, again), "one seed must give the same batches again: draw from torch's generator alone"
    working = _first_batches(data, "train", num_workers=1)
    assert _same(batches, working), "a worker process must give the same batches as the main process"
    assert not _same(batches, _first_batches(data, "train", epoch=1)), "two epochs must differ in order or augmentation"


def _check_evaluation(data: ImageDataModule, split: str) -> None:
    batches = _first_batches(data, split)
    _check_batches(data, batches)
    assert _same(batches, _first_batches(data, split)), f"{split}_set must come in the same order and form every time"
    size = len(getattr(data, f"{split}_set"))
    seen = sum(len(labels) for _, labels in _loader(data, split))
    assert seen == size, f"{split}_set has {size} images, its loader gave {seen}"


def _check_batches(data: ImageDataModule, batches: list[Batch]) -> None:
    for images, labels in batches:
        assert images.dtype == torch.uint8 or images.is_floating_point(), f"images are {images.dtype}, expected uint8"
        if images.is_floating_point():
            assert ((images >= 0) & (images <= 1)).all(), "float images must lie in [0, 1]: the model normalises"
        assert images.ndim == 4, f"images are {tuple(images.shape)}, expected (b, c, y, x)"
        is_meant = images.shape[1] == data.channels or (data.channels is None and images.shape[1] in (1, 3))
        assert is_meant, (
            f"images have {images.shape[1]} channels, and channels is {data.channels}; an array is (y, x, c), a tensor "
            "(c, y, x)"
        )
        assert images.shape[2:] == data.size, f"images are {tuple(images.shape)}, but image_size is {data.image_size}"
        if labels.is_floating_point():
            assert labels.shape == (len(images), data.num_classes), f"float labels are {tuple(labels.shape)}"
        else:
            assert labels.dtype == torch.int64, f"labels are {labels.dtype}, expected int64 or float"
            assert labels.shape == (len(images),), f"labels are {tuple(labels.shape)} for {len(images)} images"
            inside = (labels >= 0) & (labels < (data.num_classes or 0)) | (labels == IGNORE) | (labels == BROKEN)
            assert inside.all(), f"label {labels[~inside][:1].item()} is outside {data.num_classes} classes"


def _loader(data: ImageDataModule, split: str, num_workers: int = 0, epoch: int = 0) -> DataLoader:
    data = copy.copy(data)
    data.num_workers = num_workers
    data.in_memory = False  # the set itself is what is looked at
    data.further_sets = {}
    loader = getattr(data, f"{split}_dataloader")()
    loader.sampler.set_epoch(epoch)
    return loader


def _first_batches(data: ImageDataModule, split: str, num_workers: int = 0, epoch: int = 0) -> list[Batch]:
    loader = _loader(data, split, num_workers, epoch)
    try:
        pickle.dumps(loader.dataset)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise AssertionError(f"{split}_set and its transform must be picklable for workers: {error}") from error
    return list(islice(loader, 3))


def _same(one: list[Batch], other: list[Batch]) -> bool:
    return all(torch.equal(a, b) for pair in zip(one, other, strict=True) for a, b in zip(*pair, strict=True))
