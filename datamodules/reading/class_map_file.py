"""What the file behind --data.class_map says: all classes in their order, or the classes of labels called otherwise."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from datamodules.reading import class_map_numbers
from datamodules.reading.class_map import WrongLabelsError, is_hidden
from datamodules.reading.class_map_forms import (
    DELIMITERS,
    names_in_json,
    names_in_lines,
    names_in_table,
    renaming_in,
    says_numbers,
)
from datamodules.reading.damaged_files import read_whole
from datamodules.reading.label_text import (
    NUMBER,
    check_name,
    difference,
    is_whole,
    likeness,
    names_a_list,
    nested,
    text_lines,
    twins,
    whole_number,
)
from vit_lightning.errors import InputError, listing
from vit_lightning.files import looked_for_in

ONE_CLASS = "give each class a name of its own, or write the names into the data to make one class of two numbers"
MOST_COMPARED = 64
"""Labels without a line that lines are compared with."""
NUMBERS = re.compile(r"\d+")
REFUSED = (".yaml", ".yml", ".jsonl", ".pbtxt", ".toml", ".xml")


class ClassMap:
    """A class map beside the labels of data.

    Args:
        path: the file; None: there is none.
        labels: returns the different labels of the data, which tell a header from a name; none: they are not known.
        may_be_places: whether a number among the labels may be the place of a name, which a header would shift.
    """

    def __init__(self, path: Path | None, labels: Callable[[], Collection[str]], may_be_places: bool = True) -> None:
        self.path = path
        self._labels = labels
        self._may_be_places = may_be_places

    @cached_property
    def listed(self) -> list[str] | None:
        """All classes in order; None where the data name them."""
        return None if self.path is None or self.renamed else read_class_map(self.path, self._known)

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The class of each label that is called otherwise."""
        return read_renaming(self.path, self._labels) if self.path else {}

    @cached_property
    def lines(self) -> dict[str, str]:
        """The same before the labels of the data are known, without what may be a header."""
        return read_renaming(self.path) if self.path else {}

    @cached_property
    def words(self) -> frozenset[str]:
        """All that the file may name, so that labels are not taken for something else."""
        return frozenset(self.lines or (read_class_map(self.path, keeps_header=True) if self.path else ()))

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """The names among these that are called as lists of numbers are, as Adience's (0, 2)."""
        return tuple(sorted(filter(names_a_list, self.words)))

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The names that a column of numbers or lists may hold, and which else are none: (0, 2), -1, 0.5."""
        return *self.lists, *sorted(name for name in self.words if NUMBER.fullmatch(name) and not name.isdecimal())

    @cached_property
    def by_number(self) -> dict[str, str]:
        """The class of each folder that is called by its number in a table or in JSON, which say the numbers."""
        says = self.path is not None and Path(self.path).suffix.lower() in (*DELIMITERS, ".json")
        names = (self.listed or []) if says and not self._may_be_places else []
        return {} if any(map(is_whole, names)) else {str(number): name for number, name in enumerate(names)}

    @cached_property
    def by_place(self) -> dict[str, str]:
        """The class of each number by a list of names, before the labels of the data are known."""
        names = [] if self.path is None or self.lines else read_class_map(self.path, keeps_header=True)
        return {} if any(map(is_whole, names)) else {str(place): name for place, name in enumerate(names)}

    @property
    def numbered(self) -> dict[str, str]:
        """The class of each number, where the file says it and no class is called by a number."""
        names = {str(number): name for number, name in enumerate(self.listed or [])}
        return names if names and not any(map(is_whole, names.values())) else self.renamed if self._are_numbers else {}

    def class_of(self, label: str) -> str:
        """Return the class that a label stands for.

        Raises:
            WrongLabelsError: the file has the label in another spelling, or other numbers.
        """
        known = self.renamed.get(whole_number(label.strip()))
        if known is None and self._are_numbers and is_whole(label) and not is_hidden(label):
            raise WrongLabelsError([label], f", which --data.class_map {self.path} lacks; it has {self._shown}")
        if known is None and label not in self._names and (other := self._spelled.get(likeness(label))):
            said = f"{difference(label, other)}; write both alike, or give each a line"
            raise WrongLabelsError([label], f", which --data.class_map {self.path} lacks; {said}")
        return self.by_number.get(label, label) if known is None else known

    def said(self, counts: Mapping[str, int]) -> list[str]:
        """Say which labels the file makes one class of, and which of its lines and of the labels match nothing.

        Args:
            counts: images that train, by their label.
        """
        classes: dict[str, list[str]] = {}
        for label in sorted(label for label, count in counts.items() if count):
            classes.setdefault(self.class_of(label), []).append(f"{label!r:.60} ({counts[label]})")
        found = [f"{name!r:.60} of {' and '.join(labels)}" for name, labels in classes.items() if labels[1:]]
        shown = listing(found, most=8, longest=400)
        said = [f"--data.class_map {self.path} makes one class of several labels: {shown}"] if found else []
        if self.renamed and counts and not any(whole_number(label) in self.renamed for label in counts):
            others = sorted(counts.keys() - self._names)
            if near := _closest(others, sorted(self.renamed)):
                return [*said, self._said_of_line(*near, len(self.renamed), len(others))]
            return [
                *said,
                f"--data.class_map {self.path} renames nothing: no label is called as one of those that it has, "
                f"{self._shown}; the data have {listing(counts, most=3)}{self._said_of_classes(counts)}",
            ]
        return [*said, *self._unmatched(counts)]

    def _said_of_classes(self, counts: Mapping[str, int]) -> str:
        """Say what a map may be of which no line has a label, where its classes are called as labels are."""
        if self._are_numbers and (self._names <= counts.keys() or self._names >= counts.keys()):
            return "; they are called as its classes: count its numbers from 0, without a gap, for their order"
        if self._may_be_turned(counts):
            return "; they are called as its classes: it may have its two columns the wrong way round"
        return ""

    def _may_be_turned(self, counts: Mapping[str, int]) -> bool:
        """Tell whether all classes are called as labels are; a spelling of one and the same word turns nothing."""
        return self._names <= counts.keys() and not any(
            get_close_matches(label, [name], 1) for label, name in self.renamed.items()
        )

    def _unmatched(self, counts: Mapping[str, int]) -> list[str]:
        """Say which lines name no label, where there are labels without a line: one may be meant for the other."""
        known = {*map(whole_number, counts), *map(whole_number, self._labels())} if self.renamed else set()
        lines = sorted(self.renamed.keys() - known)
        labels = sorted(label for label in known if label not in self.renamed and label not in self._names)
        if not lines or not labels:
            return []
        label, line = _closest(labels, lines) or (labels[0], lines[0])
        return [self._said_of_line(label, line, len(lines), len(labels))]

    def _said_of_line(self, label: str, line: str, lines: int, labels: int) -> str:
        return (
            f"--data.class_map {self.path} has a line for {line!r:.60}, which no image has as its label, and none for "
            f"{label!r:.60}, which stays a class of its own ({lines} such lines, {labels} such labels); "
            "correct the line if it is meant for this label"
        )

    def check_numbers(self, training: Collection[str], place: str, are_places: bool = True) -> None:
        """Refuse training labels that are numbers where a list of names may mean them in two ways, or in none.

        Args:
            training: the different labels that train.
            place: where these stand.
            are_places: whether numbers are places in the list.

        Raises:
            InputError: saying what they may mean, and the table that says it.
        """
        if self.path is not None and self.listed is not None and not self.says_numbers:
            class_map_numbers.check(self.listed, self.path, training, place, are_places)

    @property
    def says_numbers(self) -> bool:
        """Whether the list says the number of each name."""
        return self.path is not None and says_numbers(_read_text(self.path), Path(self.path).suffix.lower())

    @cached_property
    def _are_numbers(self) -> bool:
        """Whether all that are renamed are numbers, and not to other spellings of these."""
        is_spelling = all(whole_number(name) == label for label, name in self.renamed.items())
        return not is_spelling and all(map(is_whole, self.renamed))

    @property
    def _shown(self) -> str:
        """The first of the labels that are renamed."""
        return listing(self.renamed, most=3)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The classes that labels are renamed to."""
        return frozenset(self.renamed.values())

    @cached_property
    def _spelled(self) -> dict[str | Decimal, str]:
        """The labels that are renamed, by what equals for all spellings of one."""
        return {likeness(label): label for label in self.renamed}

    def _known(self) -> Collection[str] | None:
        """The labels, if none of them may be a place in the list."""
        found = self._labels()
        are_places = self._may_be_places and any(map(is_whole, found))
        return found if found and not are_places else None


def _closest(labels: Sequence[str], lines: Sequence[str]) -> tuple[str, str] | None:
    """Return the first label that a line is written almost as, but for numbers in them, and the line."""
    for label in labels[:MOST_COMPARED]:
        numbers = NUMBERS.findall(label)
        if near := get_close_matches(label, [line for line in lines if NUMBERS.findall(line) == numbers], 1):
            return label, near[0]
    return None


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text file that are not empty, without the spaces around them.

    Raises:
        ValueError: saying why it cannot be read.
    """
    return [line.strip() for line in text_lines(_read_text(path)) if line.strip()]


def read_class_map(
    path: Path, known: Callable[[], Collection[str] | None] = lambda: None, keeps_header: bool = False
) -> list[str]:
    """Return the names in the file behind --data.class_map, in the order of the labels.

    Args:
        path: text with one name per line; JSON: a list of names, an object from names to numbers, or one from numbers
            to names; or .csv or .tsv: a column of names and one of numbers, with a header or without.
        known: returns the names of the classes that the data have, where no number stands for one; a first line such
            as "labels" that is none of them is a header. None: not known.
        keeps_header: whether such a line is a name whatever the data have.

    Raises:
        InputError: it cannot be read, names a class twice, or may be meant otherwise.
    """
    kind = Path(path).suffix.lower()
    try:
        if kind in REFUSED:
            raise ValueError(f"{kind} is not read, but text with a name per line, .csv, .tsv and .json")
        text = _read_text(path)
        if kind in DELIMITERS:
            names = names_in_table(text, DELIMITERS[kind])
        else:
            names = names_in_json(text) if kind == ".json" else names_in_lines(text, known, keeps_header)
        names = list(map(_checked_name, names))
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"it has the name {twice[0]!r} twice; {ONE_CLASS}")
        if pair := twins(names, numbers=False):
            raise ValueError(f"{difference(*pair)}; give each class a name of its own")
    except (ValueError, csv.Error) as error:
        raise InputError(f"--data.class_map {path} cannot be read: {error}") from error
    return names


def read_renaming(path: Path, labels: Callable[[], Collection[str]] = tuple) -> dict[str, str]:
    """Return the class of each folder that a class map gives another name; empty for a map of names and numbers.

    Args:
        path: JSON: an object from folders to classes; or .csv or .tsv: a column of folders and one of classes.
        labels: returns the labels of the data, which tell a header from a line; none: they are not known.

    Raises:
        InputError: it cannot be read, names a folder twice, or spells a class in two ways.
    """
    kind = Path(path).suffix.lower()
    if kind != ".json" and kind not in DELIMITERS:
        return {}
    try:
        pairs = [(whole_number(label), name) for label, name in renaming_in(_read_text(path), kind, labels)]
        if twice := [folder for folder, count in Counter(folder for folder, _ in pairs).items() if count > 1]:
            raise ValueError(f"it has the folder {twice[0]!r:.60} twice; give each folder one class")
        pair = twins(label for label, _ in pairs) or twins((name for _, name in pairs), numbers=False)
        if pair:
            raise ValueError(f"{difference(*pair)}; write both alike, or give each class a name of its own")
        _check_numbers(pairs)
        return {_checked_name(folder): _checked_name(name) for folder, name in pairs}
    except (ValueError, csv.Error) as error:
        raise InputError(f"--data.class_map {path} cannot be read: {error}") from error


def _check_numbers(pairs: Iterable[tuple[str, str]]) -> None:
    """Refuse two numbers of one name, as lists of classes have where two are called alike.

    Raises:
        ValueError: naming both.
    """
    number_of: dict[str, str] = {}
    for label, name in pairs:
        if is_whole(label) and (other := number_of.setdefault(name, label)) != label:
            raise ValueError(f"it gives the numbers {other} and {label} the name {name!r:.60}; {ONE_CLASS}")


def _checked_name(text: str) -> str:
    """Return the name of a class without the spaces around it, or raise ValueError."""
    if not names_a_list(text) and _is_nested(text):
        raise ValueError(f"it has the list or object {text!r:.60}, expected a name without the brackets around it")
    try:
        name = check_name(text)
    except ValueError as error:
        raise ValueError(f"it has the name {text!r:.60}, {error}") from error
    if not name:
        raise ValueError(f"it has the name {text!r:.60}, which is empty; write a name, as its place is a class")
    return name


def _is_nested(text: str) -> bool:
    """Tell whether a text is a list or an object in any form."""
    try:
        return nested(text) is not None
    except ValueError:
        return True


def _read_text(path: str | Path) -> str:
    try:
        data = read_whole(Path(path))
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{error.strerror}{looked_for_in(path)}") from error
    except UnicodeDecodeError as error:
        raise ValueError(not_utf8(data)) from error


def not_utf8(data: bytes) -> str:
    """Say what the beginning of a file that is no UTF-8 text shows, and what to do."""
    kind = " but UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
    return f"it is not UTF-8 text{kind}; save it as UTF-8"
