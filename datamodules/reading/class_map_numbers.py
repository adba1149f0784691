"""Labels that are numbers beside a class map that lists names: which name each number may mean."""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from datamodules.reading.class_map import MANY, numbers_in_place
from datamodules.reading.label_text import is_whole, whole_number
from vit_lightning.errors import InputError

DIGITS = re.compile(r"([0-9]{1,10})(?:\.0*)?")
"""Numbers of classes, which folders and other tools also write as 03 and 3.0."""
MOST_SHOWN = 8
"""Lines of a table that an error shows."""


def check(names: Sequence[str], path: Path, labels: Collection[str], place: str, are_places: bool) -> None:
    """Refuse numbers as labels that the names of a list may be meant for in two ways, or in none.

    Args:
        names: the names of the list, which does not say their numbers.
        path: the class map.
        labels: the different labels that train.
        place: where these stand.
        are_places: whether numbers are places in the list.

    Raises:
        InputError: saying what the numbers may mean, and the table that says it.
    """
    numbers = sorted(filter(_is_number, labels), key=_value)
    listed = [name for name in names if _is_number(name)]
    if not numbers or not names:
        return
    if listed and not all(map(is_whole, names)):
        _check_mixed(names, listed, path, numbers, len(numbers) == len(labels), place)
    if listed or len(numbers) < len(labels):
        return
    are_places = are_places and all(map(is_whole, numbers))
    first, last = _value(numbers[0]), _value(numbers[-1])
    if first == 1 and MANY <= last < len(names) and {*map(_value, numbers)} == {*range(1, last + 1)}:
        raise InputError(
            f"{place} has the labels {first} to {last} and no 0 in training, and {path} lists {len(names)} "
            f"names: 1 may be {names[0]!r:.60}, counted from 1, or {names[1]!r:.60}, counted from 0; count from 0 "
            "in the data and take out the names that are not there, or give --data.class_map a .csv with the lines "
            f"0,{names[0]:.60} and 1,{names[1]:.60} and so on"
        )
    if first > 0 and last == len(names):
        raise InputError(
            f"{place} has the label {numbers[-1]} and no 0 in training, and {path} lists {len(names)} names: the list "
            "counts from 0 and the labels from 1; give --data.class_map a .csv with the lines "
            f"{_lines(numbers, names, 1)}"
        )
    if are_places:
        return
    lines = _lines(numbers, names, 0) if last < len(names) else f"{numbers[0]},NAME and so on, one for each label"
    raise InputError(
        f"{place} has numbers as labels, such as {numbers[0]}, and {path} lists names without numbers; give "
        f"--data.class_map a .csv with the lines {lines}"
    )


def lacks_number(label: str, names: Collection[str]) -> str:
    """Say what to do where a list of names lacks a number; nothing where the label or a name is another thing."""
    if not _is_number(label) or any(map(_is_number, names)):
        return ""
    return (
        f"; its names have the numbers 0 to {len(names) - 1}: give --data.class_map a .csv with a line NUMBER,NAME "
        "for each label of the data"
    )


def _check_mixed(
    names: Sequence[str], listed: Sequence[str], path: Path, numbers: Sequence[str], are_all: bool, place: str
) -> None:
    """Refuse a list with numbers among its names where a label may be one of these or a place."""
    known = {*map(whole_number, names)}
    in_place = numbers_in_place(names)
    astray = next((number for number in numbers if in_place and whole_number(number) not in known), None)
    were_added = are_all and 2 * len(listed) <= len(names) and not in_place  # below their names
    if astray is not None or were_added:
        raise InputError(
            f"{place} has numbers as labels, such as {astray or numbers[0]}, and {path} has the number {listed[0]} "
            "among its names, which may be the name of a class or its place; give --data.class_map a .csv with a line "
            "NUMBER,NAME for each label of the data"
        )


def _lines(numbers: Iterable[str], names: Sequence[str], first: int) -> str:
    """Return the lines of a table that gives each number the name that it has counted from the first."""
    lines = [f"{number},{_cell(names[_value(number) - first])}" for number in numbers]
    return " ".join(lines[:MOST_SHOWN]) + " and so on" * (len(lines) > MOST_SHOWN)


def _cell(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'"{quoted}"' if "," in name or '"' in name else name


def _is_number(label: str) -> bool:
    return DIGITS.fullmatch(label) is not None


def _value(label: str) -> int:
    return int(label.partition(".")[0])
