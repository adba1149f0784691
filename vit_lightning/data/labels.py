"""Labels of records: an int, or a float vector with an entry per class; all else is an error that names the record."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

WITHOUT_CLASS = (
    "has a label of zeros, and softmax expects a class; give --model.loss sigmoid for images that may show none, or "
    "take it out"
)
"""What is said of an image that shows no class."""


def checked(label: Any, name: Callable[[], str], num_classes: int | None, may_hide: bool) -> Tensor:
    """Return a label as int64 `()` or float `(classes)`.

    Args:
        label: what the record has.
        name: gives what the record is called.
        num_classes: labels must be below; None: the classes are not known.
        may_hide: whether it may be IGNORE, or a vector of IGNORE, which scores count as not told.

    Raises:
        InputError: it is no such label; losses would skip one that is hidden without a word.
    """
    classes = num_classes or 0
    if isinstance(label, int | np.integer) and not -(2**63) <= int(label) < 2**63:
        raise InputError(f"{name()} has label {int(label)}, {_outside(classes)}")
    found = _tensor(label, name, classes)
    if found.ndim == 0 and not found.is_floating_point():
        return _checked_number(found, name, num_classes, may_hide)
    if found.shape != (classes,) or not found.is_floating_point():
        raise InputError(
            f"{name()} has a label of {found.dtype} {tuple(found.shape)}; expected an int or {classes} floats"
        )
    found = found.float()
    is_hidden = bool(classes) and bool((found == IGNORE).all())
    if is_hidden and may_hide:
        return found
    if is_hidden:
        raise InputError(f"{name()} has {_hidden(f'a vector of {IGNORE} as its label')}")
    wrong = ~((found >= 0) & (found <= 1))  # NaN is neither
    if wrong.any():
        place = int(wrong.int().argmax())
        raise InputError(
            f"{name()} has {found[place].item():g} in its label, for class {place}; expected a share from 0 to 1 for "
            "each class"
        )
    return found


def check_counted(numbers: np.ndarray, name: Callable[[int], str], num_classes: int) -> None:
    """Refuse numbers of classes `(n,)` that cannot be counted, the first by its record's name."""
    if (outside := numbers >= num_classes).any():
        first = int(outside.argmax())
        raise InputError(f"{name(first)} has label {int(numbers[first])}, {_outside(num_classes)}")


def of_one_kind(label: Tensor, several: bool | None, name: Callable[[], str]) -> bool:
    """Return whether a label is a vector, or raise InputError if others of its set are of the other kind.

    Args:
        label: the label.
        several: whether the others are vectors; None: it is the first.
        name: gives what its record is called.
    """
    is_vector = label.ndim > 0
    if several is not None and is_vector != several:
        kinds = ("one class", "a vector of classes")
        raise InputError(
            f"{name()} has {kinds[is_vector]} as its label, and others have {kinds[several]}; a set has labels of one "
            "kind"
        )
    return is_vector


def _checked_number(label: Tensor, name: Callable[[], str], num_classes: int | None, may_hide: bool) -> Tensor:
    classes = num_classes or 0
    number = int(label)
    if number == IGNORE and (may_hide or num_classes is None):
        return label.long()
    if number == IGNORE:
        raise InputError(f"{name()} has {_hidden(f'label {IGNORE}')}")
    if not 0 <= number < classes:
        raise InputError(f"{name()} has label {number}, {_outside(classes)}")
    return label.long()


def _outside(classes: int) -> str:
    return f"outside the {classes} classes 0 to {classes - 1}" if classes else "but the data names no classes"


def shown(label: Any) -> str:
    """Return a label as messages show it."""
    return f"{np.asarray(label).tolist()!s:.60}"


def listed(label: Any) -> str:
    """Say that a set's list of labels has another one for a record."""
    return f"{shown(label)} in the attribute labels of its set; make both the same, or leave the attribute out"


def _hidden(what: str) -> str:
    return f"{what}, which stands for one that is not told; take the image out, or move it to the test set"


def _tensor(label: Any, name: Callable[[], str], classes: int) -> Tensor:
    """Return a label as a tensor, or raise InputError if it is neither a number nor an array of numbers."""
    try:
        found = torch.as_tensor(int(label) if isinstance(label, np.integer) else label)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name()} has the label {label!r:.50}; expected an int or {classes} floats") from error
    if found.is_complex():
        raise InputError(f"{name()} has the label {label!r:.50}; expected an int or {classes} floats")
    return found
