"""Class lists: made of labels, and looked up by name."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np

from datamodules.reading.joined_words import joined_words
from datamodules.reading.label_text import (
    BETWEEN_LABELS,
    BETWEEN_NAMES,
    MISSING,
    NUMBER,
    difference,
    is_whole,
    joined,
    partly_joined,
    spelled_twice,
    whole_number,
)
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data.datamodule import MOST_CLASSES
from vit_lightning.errors import InputError

FROM_ZERO = "; the numbers there begin at 1: count all from 0, or give --data.class_map"
HIDDEN = "-1"
"""What stands for the label that an image has not got."""
MANY = 2
"""Labels of an image that has several."""
MAY_BE_MISSING = frozenset(
    {*MISSING, "?", "??", "-", "--", ".", "missing", "nil", "undefined", "unknown", "unk", "tbd", "todo"}
    | {"not available", "unsorted", "uncategorized", "uncategorised", "unclassified", "unspecified"}
)
"""Labels that say in some tables that there is none, and are classes in others."""
MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
DATE = re.compile(rf"\d{{1,2}}-({MONTHS})|({MONTHS})-\d{{1,2}}", re.IGNORECASE)
"""What a spreadsheet makes of a range such as 3-5 or 10-14."""
SPAN = re.compile(r"\d+-\d+")
LONGEST = 10
"""Digits that no number of a class has."""


class WrongLabelsError(Exception):
    """Training labels that cannot be classes.

    Args:
        labels: those.
        why: the rest of a sentence that begins with file, label and row.
    """

    def __init__(self, labels: Collection[str], why: str) -> None:
        super().__init__(why)
        self.labels = frozenset(labels)
        self.why = why


def classes_of(labels: Collection[str]) -> list[str]:
    """Return the classes that different labels stand for: themselves, or all whole numbers up to the greatest.

    Raises:
        WrongLabelsError: all are numbers and one of them is no class, or two are one label in two spellings.
    """
    if all(map(is_whole, labels)):
        if negative := [label for label in labels if label.startswith("-") and whole_number(label) != "0"]:
            raise WrongLabelsError(negative, ", which is no class; take out what has it, or give --data.class_map")
        return numbered_classes(labels)
    if all(map(NUMBER.fullmatch, labels)) and (fractions := [label for label in labels if float(label) % 1]):
        raise WrongLabelsError(fractions, ", expected names or whole numbers; give --data.class_map if it is a name")
    check_names(labels)
    return sorted(labels)


def classes_in_text(
    labels: Collection[str], multi_label: bool, separator: str | None = None, most: int = MANY
) -> list[str]:
    """Return the classes of labels that stand in text, where a number among names may be the place of one of them.

    Args:
        labels: the different labels.
        multi_label: whether an image may have several.
        separator: what --data.separator is, None if there is no such flag.
        most: labels of the image that has most.

    Raises:
        WrongLabelsError: as `classes_of`, `check_kinds` and `check_joined`.
    """
    check_joined(labels, multi_label, separator, most)  # first: lists of numbers are no names beside numbers
    classes = classes_of(labels)
    check_kinds(classes)
    return classes


def check_kinds(labels: Collection[str]) -> None:
    """Refuse whole numbers beside names.

    Raises:
        WrongLabelsError: naming the fewer.
    """
    numbers, names = ([label for label in labels if kind(label)] for kind in (is_whole, _is_word))
    few, many = sorted((numbers, names), key=len)
    if few:
        are = "numbers" if few is names else "names"
        raise WrongLabelsError(
            few,
            f" where others are {are}, such as {min(many)!r:.60}; correct it, or give --data.class_map with all names",
        )


def check_joined(labels: Collection[str], multi_label: bool, separator: str | None = None, most: int = MANY) -> None:
    """Refuse a label that is made of others with a sign between them.

    Args:
        labels: the different labels.
        multi_label: whether an image may have several.
        separator: what --data.separator is, None if there is no such flag.
        most: labels of the image that has most.

    Raises:
        WrongLabelsError: naming it and what to do.
    """
    found = joined(labels, BETWEEN_LABELS + BETWEEN_NAMES * multi_label)
    if multi_label and most < MANY:
        found = found or joined_words(labels)
    why = "whose parts are labels of their own" if found else "whose parts other labels are or have"
    if not multi_label or most < MANY:
        found = found or partly_joined(labels, is_never_divided=multi_label)
    if found:
        label, sign = found
        fix = f"divide it at {sign!r} into a list" if multi_label else "give --data.multi_label true"
        if multi_label and separator not in (None, sign):
            fix = f"give --data.separator {sign!r}"
        raise WrongLabelsError(
            [label],
            f", {why}; {fix} if it holds several labels, else --data.class_map",
        )


def _is_word(label: str) -> bool:
    return NUMBER.fullmatch(label) is None


def check_names(labels: Collection[str], listed: Collection[str] = ()) -> None:
    """Refuse names of classes that are one name in two spellings, or stand for a missing one.

    Args:
        labels: those that stand in text.
        listed: names of other classes, which a file's metadata list.

    Raises:
        WrongLabelsError: naming them.
    """
    if hidden := list(filter(is_hidden, labels)):
        raise WrongLabelsError(
            hidden, ", which stands for a missing one; take out what has it, or give --data.class_map"
        )
    both = sorted({*labels, *listed})
    if pair := spelled_twice(both):
        raise WrongLabelsError(pair, f"; {difference(*pair)}; write both alike, or {one_or_two(*pair)}")


def one_or_two(name: str, other: str) -> str:
    """Say how a class map makes one class of two names, and how two."""
    if name.strip() == other.strip():
        return f"give --data.class_map: a .csv with the line {name.strip():.60},{name.strip():.60} for one class"
    return (
        f"give --data.class_map: a .csv with the line {name:.60},{other:.60} for one class, a list of all names for two"
    )


def called_otherwise(label: str) -> str:
    """Say what to do where a list of all classes lacks a label that is no number."""
    return (
        f"; add it there, or, if it is another name of one of them, give --data.class_map a .csv with the line "
        f"{label:.60},NAME with that one in place of NAME"
    )


def counted_from_zero(labels: Iterable[str], training: Collection[str]) -> list[str]:
    """Return the labels that are 0 where those of training begin at 1, and may be places counted from there."""
    begins_at_1 = all(map(is_whole, training)) and "1" in (numbers := set(map(whole_number, training)))
    return [label for label in labels if whole_number(label) == "0"] if begins_at_1 and "0" not in numbers else []


def doubtful_label(labels: Collection[str]) -> str | None:
    """Say which class may be a range turned into a date, or is called as a missing label may be.

    Nothing is said of signs where other classes are signs too.
    """
    dates = [label for label in labels if DATE.fullmatch(label)]
    if dates and (span := next((label for label in labels if SPAN.fullmatch(label)), None)):
        return (
            f"the label {dates[0]!r} stands beside {span!r} and may be such a range that a spreadsheet took for a "
            "date; write it as the others, or list all classes in --data.class_map"
        )
    words = [label for label in labels if label.lower() in MAY_BE_MISSING]
    signs = [label for label in labels if not any(map(str.isalnum, label))]
    found = [label for label in words if label not in signs or len(signs) == 1]
    if not found or len(labels) < MANY:
        return None
    return (
        f"the label {found[0]!r} may stand for a missing one, and is read as a class; take out what has it, or list "
        "all classes in --data.class_map"
    )


def is_hidden(label: str) -> bool:
    """Tell whether a label stands for a missing one, unless a class is called that."""
    return whole_number(label) == HIDDEN or label.lower() in MISSING


def first_of(wrong: Collection[str], names: Sequence[str], labels: Ragged) -> tuple[int, str]:
    """Return the row and the name of the first of some wrong labels.

    Args:
        wrong: those.
        names: all different labels.
        labels: their places in names, for each row.
    """
    first = int(np.argmax(np.array([name in wrong for name in names])[labels.values]))
    return int(np.searchsorted(labels.ends, first, side="right")) - 1, names[labels.values[first]]


def numbered_classes(labels: Collection[str]) -> list[str]:
    """Return the names of classes that have numbers only, from 0 to the greatest.

    Raises:
        WrongLabelsError: a number is too great for one of a class.
    """
    large = [label for label in labels if len(whole_number(label)) > len(str(MOST_CLASSES))]
    large = large or [label for label in labels if int(whole_number(label)) >= MOST_CLASSES]
    if large:
        raise WrongLabelsError(large, f", which is no class below {MOST_CLASSES}; give --data.class_map for names")
    return [str(number) for number in range(max(map(int, map(whole_number, labels)), default=-1) + 1)]


def class_numbers(labels: Iterable[str], class_names: Sequence[str], or_numbers: bool = False) -> np.ndarray:
    """Return the number of each label's class as int32 `(n,)`, -1 where there is no such class.

    A whole number may be written as a float: 2.0 is 2.

    Args:
        labels: names of classes.
        class_names: all names, in the order of the numbers.
        or_numbers: whether a label that is no name may be the number of a class, unless a name is another number.

    Raises:
        InputError: if a label is the name of two classes.
    """
    twice = {name for name, count in Counter(class_names).items() if count > 1}
    numbers = {name: number for number, name in enumerate(class_names)}
    by_number = numbers_in_place(class_names) and (or_numbers or all(map(NUMBER.fullmatch, class_names)))

    def number(label: str) -> int:
        whole = label if label in numbers else whole_number(label)
        if whole in twice:
            raise InputError(f"the label {label!r} is the name of several classes; give each class a name of its own")
        if whole not in numbers and by_number and whole[:1] != "-" and is_whole(whole) and len(whole) < LONGEST:
            return int(whole) if int(whole) < len(class_names) else -1
        return numbers.get(whole, -1)

    return np.fromiter(map(number, labels), np.int32)


def check_order(class_names: Sequence[str], place: str) -> None:
    """Refuse numbers as labels where names of a class map are the numbers of their places in another order.

    Other numbers, as 1, 2, 3 in the places 0, 1, 2, are names.

    Args:
        class_names: the names in the map.
        place: where such labels stand.

    Raises:
        InputError: naming the first that means two classes.
    """
    numbers = {number: whole_number(name) for number, name in enumerate(class_names) if is_whole(name)}
    astray = [number for number, name in numbers.items() if name != str(number)]
    if astray and {*numbers.values()} == {*map(str, numbers)}:
        raise InputError(
            f"{place} has numbers as labels, and the classes of --data.class_map are numbers in another order: "
            f"{astray[0]} may be the name of a class or the place of {numbers[astray[0]]}; order the map as 0, 1, 2, "
            "..., or give the classes other names"
        )


def numbers_in_place(class_names: Sequence[str]) -> bool:
    """Tell whether each name that is a number is that of its class."""
    return all(whole_number(name) == str(place) for place, name in enumerate(class_names) if NUMBER.fullmatch(name))


def check_meaning(numbered: Sequence[Path], listed: Iterable[tuple[Path, Sequence[str]]]) -> None:
    """Refuse numbers where another file lists classes whose names are numbers out of place.

    Args:
        numbered: files whose labels are numbers without names.
        listed: files whose labels are places in a list of names, and their names.

    Raises:
        InputError: naming both files.
    """
    for file, names in listed if numbered else ():
        if not numbers_in_place(names):
            shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
            raise InputError(
                f"{numbered[0]} has numbers as labels, which may be places among the classes that {file} lists "
                f"({shown}) or their names; give --data.class_map, or write the names as text"
            )
