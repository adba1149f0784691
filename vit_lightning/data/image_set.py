"""What a set of images offers: pairs by number, and optional members that are read here alone."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from vit_lightning.errors import InputError


class Numbered(Protocol):
    """Anything that has items by number: a set of images, or the names of its records."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class ImageSet(Protocol):
    """What `train_set`, `val_set` and `test_set` hold: pairs of image and label by number.

    A record is a pair, or a dict with `image` and `label`. The image is encoded bytes, a path, a Pillow image, a tensor
    `(c, y, x)` or a numpy array `(y, x, c)`, either of uint8 or of floats in [0, 1]; with a window, of any numbers. The
    label is an int, or a float vector with one entry per class where an image may show several.

    A set may have further members:

    - `keys`, a name per record, for messages and predictions. Without it, a record's name is its number.
    - `labels`, an int array `(n,)`. With it, all labels are checked before the first step.
    - `blocks`, an int array `(n,)` that says in which block each record lies, for a set that is slow to read at random.
      With it, training goes through some blocks at a time.
    - `label_at(index)`, which returns the label of a record without reading its image.
    - `scored_classes`, the classes on which its images are scored, in their order; without it, all.
    - `announce(numbers)`, which is called in the main process with the records that come soon, so that the set may
      fetch them.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


def record_of(source: Numbered, index: int) -> tuple[Any, Any]:
    """Return image and label of a record.

    Raises:
        InputError: the set yields something else than a pair.
    """
    record = source[index]
    if isinstance(record, dict) and {"image", "label"} <= record.keys():
        return record["image"], record["label"]
    if not isinstance(record, tuple | list) or len(record) != 2:
        raise InputError(
            f"record {index} of the {type(source).__name__} has the type {type(record).__name__}; "
            "expected a pair of an image and its label, or a dict with image and label"
        )
    image, label = record
    return image, label


def label_of(source: Numbered, index: int) -> Any:
    """Return the label of a record, without its image where the set can do without."""
    label_at = getattr(source, "label_at", None)
    return record_of(source, index)[1] if label_at is None else label_at(index)


def keys_of(images: Any) -> Sequence[Any]:
    """Return a name per record: the set's own, else its number.

    Raises:
        InputError: the set has something else as its `keys`.
    """
    keys = getattr(images, "keys", None)
    if keys is None:
        return range(len(images))
    _check_member(images, "keys", keys, "name")
    return keys


def labels_of(images: Any) -> np.ndarray | None:
    """Return the label of every record, None where the set has no list of them.

    Raises:
        InputError: the set has something else as its `labels`.
    """
    labels = getattr(images, "labels", None)
    if labels is None or _turns_labels(images):
        return None
    _check_member(images, "labels", labels, "number")
    if len(labels) > len(images):
        raise InputError(
            f"labels of the {type(images).__name__} has {len(labels)} numbers for {len(images)} records, expected one "
            "for each, in their order"
        )
    try:
        found = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError):  # rows of different lengths
        found = np.empty(len(labels), object)
    if found.ndim != 1 or found.dtype.kind in "iubf":
        return found
    example = next((label for label in labels if not isinstance(label, int | np.integer)), labels[0])
    raise InputError(
        f"the {type(images).__name__} has the label {example!r:.60} in its attribute labels, expected an int per "
        "record; call the attribute otherwise, or make them numbers"
    )


def listed_otherwise(images: Any, index: int, label: Any) -> Any:
    """Return what a set's list of labels has for a record if that is not the record's own label; None: it is.

    Args:
        images: the set.
        index: number of the record.
        label: the record's own label, an int, or a vector, which may agree with the number of its greatest entry.
    """
    labels = getattr(images, "labels", None)
    if not hasattr(labels, "__len__") or len(labels) != len(images) or _turns_labels(images):
        return None  # labels_of refuses what is no list of them
    listed, own = np.asarray(labels[index]), np.asarray(label)
    if own.ndim > listed.ndim and own.size:
        own = own.argmax()
    return None if np.array_equal(listed, own) else labels[index]


def _turns_labels(images: Any) -> bool:
    """Tell whether a set, such as torchvision's, changes the labels of its list before it yields them."""
    return getattr(images, "target_transform", None) is not None


def _check_member(images: Any, member: str, found: Any, what: str) -> None:
    """Refuse a member that is no sequence with an entry per record."""
    if callable(found) or not (hasattr(found, "__len__") and hasattr(found, "__getitem__")):
        is_a = "a method" if callable(found) else f"a {type(found).__name__}"
    elif len(found) < len(images):
        is_a = f"a sequence of {len(found)} for {len(images)} records"
    else:
        return
    raise InputError(
        f"{member} of the {type(images).__name__} is {is_a}, expected an attribute with a {what} per record, "
        "or none of that name"
    )


def blocks_of(images: Any) -> np.ndarray | None:
    """Return the block that each record lies in, None for a set without blocks."""
    return getattr(images, "blocks", None)


def scored_classes_of(images: Any) -> np.ndarray | None:
    """Return the classes on which a set's images are scored, None where these are all."""
    return getattr(images, "scored_classes", None)


def announce(images: Any, numbers: np.ndarray) -> None:
    """Tell a set which records come soon, if it asks for that."""
    if hasattr(images, "announce"):
        images.announce(numbers)
