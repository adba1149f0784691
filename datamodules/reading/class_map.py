"""Class lists: read from --data.class_map, made of whole numbers, and looked up by name."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datamodules.reading.damaged_files import read_whole
from vit_lightning.data.datamodule import MOST_CLASSES
from vit_lightning.errors import InputError
from vit_lightning.files import looked_for_in

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text file that are not empty, without the spaces around them.

    Raises:
        ValueError: saying why it cannot be read.
    """
    return [line.strip() for line in _read_text(path).splitlines() if line.strip()]


def read_class_map(path: Path) -> list[str]:
    """Return the names in the file behind --data.class_map, in the order of the labels.

    Args:
        path: text with one name per line; or JSON: a list of names, an object from names to numbers, or one from
            numbers to names.
    """
    try:
        return _names_in_json(_read_text(path)) if Path(path).suffix == ".json" else read_lines(path)
    except ValueError as error:
        raise InputError(f"--data.class_map {path} cannot be read: {error}") from error


def classes_of(labels: Sequence[str], source: str | Path) -> list[str]:
    """Return the classes that sorted labels stand for: themselves, or all whole numbers up to the greatest.

    Raises:
        InputError: naming the source, if all labels are numbers and one of them is not whole.
    """
    if not all(map(NUMBER.fullmatch, labels)):
        return list(labels)
    whole = sorted(set(map(whole_number, labels)))
    if fraction := next((label for label in whole if not label.removeprefix("-").isdecimal()), None):
        raise InputError(
            f"{source} has the label {fraction}, expected names or whole numbers; give --data.class_map if it is a name"
        )
    if not all(map(str.isdecimal, whole)):
        return whole
    return numbered_classes(max(map(int, whole), default=-1), source, "; give --data.class_map for names")


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

    A whole number may be written as a float: 2.0 is 2.

    Args:
        labels: names of classes.
        class_names: all names, in the order of the numbers.
        or_numbers: whether a label that is no name may be the number of a class, unless all names are numbers.

    Raises:
        InputError: if a label is the name of two classes.
    """
    twice = {name for name, count in Counter(class_names).items() if count > 1}
    numbers = {name: number for number, name in enumerate(class_names)}
    all_numbers = all(map(str.isdecimal, class_names))
    counted = all_numbers and list(class_names) == [str(number) for number in range(len(class_names))]
    by_number = counted or (or_numbers and not all_numbers)

    def number(label: str) -> int:
        whole = label if label in numbers else whole_number(label)
        if whole in twice:
            raise InputError(f"the label {label!r} is the name of several classes; give each class a name of its own")
        if whole not in numbers and by_number and whole.isdecimal() and int(whole) < len(class_names):
            return int(whole)
        return numbers.get(whole, -1)

    return np.fromiter(map(number, labels), np.int32)


def whole_number(label: str) -> str:
    """Return a whole number that is written as a float without its point, and any other label as it is."""
    if label.isdecimal() or not NUMBER.fullmatch(label):
        return label
    value = float(label)
    return str(int(value)) if value.is_integer() else label


def nested(text: str) -> list[Any] | dict[Any, Any] | None:
    """Return the list or object that a label holds as JSON or as Python prints it, None if it is plain text."""
    if text[:1] + text[-1:] not in ("[]", "{}"):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return found if isinstance(found, list | dict) else None
    return None


def _read_text(path: str | Path) -> str:
    try:
        data = read_whole(Path(path))
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{error.strerror}{looked_for_in(path)}") from error
    except UnicodeDecodeError as error:
        raise ValueError(not_utf8(data)) from error


def not_utf8(data: bytes) -> str:
    """Say what the beginning of a file that is no UTF-8 text shows."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "it is not UTF-8 text but UTF-16; save it as UTF-8"
    return "it is not UTF-8 text"


def _names_in_json(text: str) -> list[str]:
    found = json.loads(text)
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        return found
    if not isinstance(found, dict):
        raise ValueError("expected a list of names, or an object of names and numbers")
    if all(str(name).isdecimal() for name in found) and all(isinstance(name, str) for name in found.values()):
        pairs = {int(number): name for number, name in found.items()}
    elif all(isinstance(number, int) for number in found.values()):
        pairs = {number: name for name, number in found.items()}
    else:
        raise ValueError("expected an object of names and numbers")
    if len(pairs) != len(found) or sorted(pairs) != list(range(len(pairs))):
        raise ValueError(f"expected the numbers 0 to {len(found) - 1}, each once")
    return [pairs[number] for number in range(len(pairs))]
