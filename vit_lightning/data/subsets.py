"""Parts of a set: held out for validation, or chosen for a study of the data's size; the same ones in every run."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_info

from vit_lightning.data import image_set
from vit_lightning.data.image_set import ImageSet, Numbered
from vit_lightning.data.labels import check_counted
from vit_lightning.errors import InputError, at_most
from vit_lightning.seeds import seed_from
from vit_lightning.terminal import counted

STUDY = 1
"""Keeps the order of a data-size study apart from that of a held-out set."""


class Subset:
    """Some records of a set, in the order given, with their labels and keys; a record without a key keeps its number.

    Args:
        source: the whole set, or any other sequence.
        indices: numbers of the records.
    """

    def __init__(self, source: Numbered, indices: np.ndarray) -> None:
        self.source = source
        self.indices = indices
        keys = image_set.keys_of(source)
        self.keys: Numbered = indices if isinstance(keys, range) else Subset(keys, indices)
        labels, blocks = image_set.labels_of(source), image_set.blocks_of(source)
        if labels is not None:
            self.labels = labels[indices]
        if blocks is not None:
            self.blocks = blocks[indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.source[int(self.indices[index])]

    def label_at(self, index: int) -> Any:
        """Return the label of a record."""
        return image_set.label_of(self.source, int(self.indices[index]))

    def announce(self, numbers: np.ndarray) -> None:
        """Tell the source which records come soon."""
        image_set.announce(self.source, self.indices[numbers])


def check_share(fraction: float, name: str = "val_fraction") -> float:
    """Return the share to hold out if it is one."""
    if not 0 <= fraction < 1:
        raise InputError(f"--data.{name} is {fraction}, expected a share of the training images from 0 to below 1")
    return fraction


def hold_out(
    source: ImageSet,
    fraction: float,
    order: np.ndarray | None = None,
    seed: int = 0,
    groups: np.ndarray | None = None,
) -> tuple[ImageSet, Subset | None]:
    """Split off a validation set, the same one on every machine and in every run.

    Args:
        source: the whole training set.
        fraction: share to hold out, at least 0 and below 1; a non-empty set gives at least one record if it is above 0.
        order: order of the records whose end is held out; unset: a permutation made from `seed`.
        seed: seed of the choice, which does not depend on the run's seed.
        groups: a number per record; records of one number stay together, and the share is one of the numbers. Unset:
            each record stands for itself.

    Returns:
        The training set, and the validation set or None if the fraction is 0.
    """
    if check_share(fraction) == 0:
        return source, None
    size = len(source)
    if groups is not None:
        _, first, members = np.unique(groups, return_index=True, return_inverse=True)
        order = np.argsort(first)[_permutation(len(first), seed)]
        held = np.isin(members, order[len(first) - max(1, round(fraction * len(first))) :])
        return Subset(source, np.flatnonzero(~held)), Subset(source, np.flatnonzero(held))
    if order is None:
        order = _permutation(size, seed)
    stay = size - max(1, round(fraction * size))
    return Subset(source, np.sort(order[:stay])), Subset(source, np.sort(order[stay:]))


def take_fraction(source: ImageSet, fraction: float) -> Subset:
    """Return a share (0 to 1) of a set, at least one record; a smaller share is part of every larger one."""
    order = _permutation(len(source), STUDY)
    return Subset(source, np.sort(order[: max(1, round(fraction * len(source)))]))


def take_per_class(source: ImageSet, count: int, class_names: Sequence[str]) -> Subset:
    """Return `count` records of every class; fewer are part of more.

    Raises:
        InputError: if a class has fewer, or records have no class or several.
    """
    labels = classes_of(source, "--data.per_class", "use --data.fraction")
    check_counted(labels, lambda index: _name(source, index), len(class_names))
    numbers = np.bincount(labels[labels >= 0], minlength=len(class_names))
    if (numbers < count).any():
        label = int(numbers.argmin())
        raise InputError(
            f"--data.per_class is {count}, but class {class_names[label]} has "
            + counted(numbers[label], "training image")
            + (f"; give {at_most(numbers[label])}" if numbers[label] else ", so no count would do; use --data.fraction")
        )
    order = _permutation(len(labels), STUDY)
    order = order[np.argsort(labels[order], kind="stable")]
    sorted_labels = labels[order]
    turn = np.arange(len(order)) - np.searchsorted(sorted_labels, sorted_labels)
    return Subset(source, np.sort(order[(turn < count) & (sorted_labels >= 0)]))


class ClassCounts(NamedTuple):
    """How many images a set has, and how many of them show each class `(classes)`."""

    images: int
    per_class: np.ndarray


def class_counts(source: ImageSet, num_classes: int) -> ClassCounts:
    """Count the images of each class; labels are read from the records where the set has no list of them.

    An image counts by the share that its label gives a class.
    """
    listed = image_set.labels_of(source)
    labels = _read_labels(source) if listed is None else listed
    numbers, shares, images = [], np.zeros(num_classes), 0
    if listed is not None and listed.ndim == 1:
        check_counted(listed, lambda index: _name(source, index), num_classes)
        numbers, labels = listed[listed >= 0].astype(np.int64), ()
    for label in labels:
        if label.ndim and (label >= 0).all():
            shares, images = shares + label, images + 1
        elif not label.ndim and label >= 0:
            numbers.append(int(label))
    if images:
        return ClassCounts(images, shares)
    return ClassCounts(len(numbers), np.bincount(numbers, minlength=num_classes).astype(np.float64))


def classes_of(source: ImageSet, flag: str, instead: str) -> np.ndarray:
    """Return the class of every record `(n,)`, from the records themselves where the set has no list of them.

    Args:
        source: the set.
        flag: what needs them, in the message.
        instead: what to give in its place.

    Raises:
        InputError: records have no class or several.
    """
    labels = image_set.labels_of(source)
    if labels is None:
        labels = np.asarray(list(_read_labels(source)))
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(f"{flag} needs one class per image, and these may show several; {instead}")
    return labels


def _read_labels(source: ImageSet) -> Iterator[np.ndarray]:
    """Yield the label of every record."""
    rank_zero_info(
        f"counting the images of each class: reads the label of {counted(len(source), 'image', grouped=True)}"
    )
    for index in range(len(source)):
        yield np.asarray(image_set.record_of(source, index)[1])


def _name(source: ImageSet, index: int) -> str:
    return f"training image {image_set.keys_of(source)[index]}"


def _permutation(size: int, seed: int) -> np.ndarray:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed_from(seed))).numpy()
