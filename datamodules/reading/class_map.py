"""Class lists: read from --data.class_map, made of whole numbers, and looked up by name."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from vit_lightning.data.datamodule import MOST_CLASSES
from vit_lightning.errors import InputError


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text file that are not empty, without the spaces around them.

    Raises:
        ValueError: saying why it cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(getattr(error, "strerror", "it is not UTF-8 text")) from error
    return [line.strip() for line in lines if line.strip()]


def read_class_map(path: Path) -> list[str]:
    """Return the names in the file behind --data.class_map, one per line, in the order of the labels."""
    try:
        return read_lines(path)
    except ValueError as error:
        raise InputError(f"--data.class_map {path} cannot be read: {error}") from error


def classes_of(labels: Sequence[str], source: str | Path) -> list[str]:
    """Return the classes that sorted labels stand for: themselves, or all whole numbers up to the greatest."""
    if not all(map(str.isdecimal, labels)):
        return list(labels)
    return numbered_classes(max(map(int, labels)), source, "; give --data.class_map for names")


def numbered_classes(greatest: int, source: str | Path, remedy: str = "") -> list[str]:
    """Return the names of classes that have numbers only, from 0 to the greatest.

    Raises:
        InputError: naming the source of the labels, if the number is too great for one of a class.
    """
    if greatest >= MOST_CLASSES:
        raise InputError(f"{source} has the label {greatest}, which is no class below {MOST_CLASSES}{remedy}")
    return [str(label) for label in range(greatest + 1)]


def class_numbers(labels: Iterable[str], class_names: Sequence[str], or_numbers: bool = False) -> np.ndarray:
    """Return the number of each label's class as int32 `(n,)`, -1 where there is no such class.

    Args:
        labels: names of classes.
        class_names: all names, in the order of the numbers.
        or_numbers: whether a label that is no name may be the number of a class.
    """
    numbers = {name: number for number, name in enumerate(class_names)}

    def number(label: str) -> int:
        if label not in numbers and or_numbers and label.isdecimal() and int(label) < len(numbers):
            return int(label)
        return numbers.get(label, -1)

    return np.fromiter(map(number, labels), np.int32)
