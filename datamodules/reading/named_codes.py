"""Columns of names beside labels that are numbers: two tables that number the same names otherwise do not fit."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from datamodules.reading.folder_names import words_of
from datamodules.reading.label_text import NUMBER, likeness
from datamodules.reading.parquet_labels import FileLabels, holds_text
from datamodules.reading.parquet_rows import open_table
from vit_lightning.errors import InputError

OF_CLASSES = frozenset({"class", "classes", "category", "label", "labels"})
"""Words in names of columns that name the classes."""
OF_NAMES = OF_CLASSES | {"name", "names", "text", "title", "string", "str", "description", "word", "words"}
"""All words in the name of a column that holds the classes' names and nothing else, as label_date does."""
DENSE = 0.9
"""Share of the labelled rows that a column of names fills; comments stand beside a few."""
EACH = 2
"""Rows that each number has, on average, where a column may name the classes: fewer stand beside one by chance."""


@dataclass
class Named:
    """What a column calls the numbers of one part of a set, as long as each has one name of its own.

    Args:
        place: the file.
        column: the column.
        names: name and row of each number, rows being counted from 1.
        rows: how many have a name.
        labelled: how many have a label.
        is_one_to_one: whether each number has one name so far, and each name one number.
        is_map: whether a class map says so.
        words: what a row and a column are called there.
    """

    place: str
    column: str
    names: dict[str, tuple[str, int]] = field(default_factory=dict)
    rows: int = 0
    labelled: int = 0
    is_one_to_one: bool = True
    is_map: bool = False
    words: Sequence[str] = ("row", "column")
    numbers: dict[str | Decimal, str] = field(default_factory=dict, repr=False)

    def add(self, number: str, name: str, row: int, rows: int = 1) -> None:
        """Note that some rows have a name beside a number, the first of which is `row`."""
        same = likeness(name)
        known = self.names.setdefault(number, (name, row))[0]
        is_same = (known == name or likeness(known) == same) and self.numbers.setdefault(same, number) == number
        self.is_one_to_one = self.is_one_to_one and is_same and NUMBER.fullmatch(name) is None
        self.rows += rows

    def dumped(self) -> str:
        """Return it as text, without what is not one to one."""
        return json.dumps({**asdict(self), "numbers": {}, "names": self.names if self.is_one_to_one else {}})

    @classmethod
    def loaded(cls, text: str) -> "Named":
        """Return what `dumped` has written."""
        return cls(**json.loads(text))


def in_rows(
    place: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[str], splits: Sequence[int]
) -> list[Named]:
    """Return what columns of a table call its labels, for each split in it.

    Args:
        place: the table.
        columns: those that may hold names.
        rows: their cells, row after row. Text in an object counts as a column of its own, as SageMaker's class-name.
        numbers: the label of each row; empty: it is not told.
        splits: the split of each row; empty: they are of one.
    """
    found: dict[tuple[str, int], Named] = {}
    done: set[str] = set()
    counts: Counter[int] = Counter()
    for row, (cells, number) in enumerate(zip(rows, numbers, strict=True), start=1):
        split = splits[row - 1] if len(splits) else 0
        counts[split] += bool(number)
        for column, name in _texts(columns, cells, done) if number else ():
            named = found.setdefault((column, split), Named(place, column))
            named.add(number, name, row)
            if not named.is_one_to_one:
                done.add(column)
        if done.issuperset(columns):
            break
    for (_, split), named in found.items():
        named.labelled = counts[split]
    return list(found.values())


def _texts(columns: Sequence[str], cells: Sequence[Any], done: set[str]) -> Iterator[tuple[str, str]]:
    for column, cell in zip(columns, cells, strict=True):
        parts = {f"{column}.{key}": part for key, part in cell.items()} if isinstance(cell, dict) else {column: cell}
        for name, part in parts.items():
            if name not in done and isinstance(part, str) and part.strip():
                yield name, part.strip()


def in_parquet(labels: FileLabels, known: Collection[Any], splits: np.ndarray | None) -> list[Named]:
    """Return what columns of text call the labels of a Parquet file, for each split in it.

    Args:
        labels: the labels, one a row.
        known: columns that hold something else.
        splits: the split of each row; None: they are of one.
    """
    return _in_parquet(labels, known, splits) if labels.numbered else []


def said_of_listed(labels: FileLabels, known: Collection[Any], label: str, is_given: bool) -> list[str]:
    """Refuse a column that calls the classes which a Parquet file's metadata list by the names of others of them.

    Args:
        labels: the labels, one a row.
        known: columns that hold something else.
        label: the column of the labels.
        is_given: whether --data.label_column says that it counts; then this is said alone.

    Raises:
        InputError: naming the first such row.
    """
    said = []
    classes = {likeness(name) for name in labels.texts or labels.names}
    for named in _in_parquet(labels, known, None) if labels.listed else ():
        pairs = [(row, own, name) for own, (name, row) in named.names.items() if likeness(name) in classes]
        wrong = [pair for pair in pairs if likeness(pair[1]) != likeness(pair[2])]
        if not wrong or not (named.is_one_to_one and _is_dense(named) and _is_sure(named)):
            continue
        row, own, name = min(wrong)
        what = (
            f"{named.place} has in row {row} the class {own!r:.60} by its metadata and {name!r:.60} in the column "
            f"{named.column!r}"
        )
        if not is_given:
            raise InputError(
                f"{what}; give --data.label_column {named.column} to go by these names, or --data.label_column {label} "
                "if the metadata are right"
            )
        said.append(f"{what}, and the metadata count")
    return said


def _in_parquet(labels: FileLabels, known: Collection[Any], splits: np.ndarray | None) -> list[Named]:
    file, places, numbers = labels.file, labels.places, labels.texts or labels.names
    table = open_table(file)
    columns = [field.name for field in table.schema_arrow if holds_text(field.type) and field.name not in known]
    found: dict[tuple[str, int], Named] = {}
    left, start = list(columns), 0
    parts = np.zeros(len(places), np.int64) if splits is None else splits
    for group in range(table.metadata.num_row_groups if left else 0):
        cells = table.read_row_group(group, columns=left, use_threads=False)
        rows = slice(start, start + cells.num_rows)
        for column in list(left):
            for part, place, name, row, count in _pairs(cells.column(column), places[rows], parts[rows]):
                named = found.setdefault((column, part), Named(str(file), column))
                named.add(numbers[place], name, start + row + 1, count)
                if not named.is_one_to_one:
                    left.remove(column)
                    break
        start = rows.stop
        if not left:
            break
    for (_, part), named in found.items():
        named.labelled = int(((parts == part) & (places >= 0)).sum())
    return list(found.values())


def _pairs(column: Any, places: np.ndarray, parts: np.ndarray) -> Iterator[tuple[int, int, str, int, int]]:
    """Yield part, place and name of each pair of label and name, the first row with it, and how many have it."""
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(column.cast("string")).combine_chunks()
    names = encoded.dictionary.to_pylist()
    each = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    told = np.flatnonzero((each >= 0) & (places >= 0))
    rows = np.stack([parts[told], places[told], each[told]])
    pairs, first, counts = np.unique(rows, axis=1, return_index=True, return_counts=True)
    for (part, place, name), row, count in zip(pairs.T.tolist(), told[first].tolist(), counts.tolist(), strict=True):
        if names[name].strip():
            yield part, place, names[name].strip(), row, count


def check(
    found: Sequence[Named],
    listed: Mapping[str, str],
    class_map: Path | None = None,
    label: str = "LABELS",
    is_given: bool = False,
) -> list[str]:
    """Refuse numbers that a column calls by other names in one part of a set than in another; say which, if they count.

    Args:
        found: what columns say.
        listed: the name of each number by a class map.
        class_map: that.
        label: the column of the numbers.
        is_given: whether --data.label_column says that these count.

    Raises:
        InputError: naming both rows.
    """
    said = []
    for column, what in contradictions(found, listed, class_map):
        fix = f"give --data.label_column {column} to go by these names" if "." not in column else "write them there"
        if not is_given:
            raise InputError(
                f"{what}: the numbers are not those of the same classes; {fix}, or --data.label_column {label} if "
                "the numbers are right and the column names something else"
            )
        said.append(f"{what}, and the column {label!r} counts; {fix} if its numbers are not those of one class")
    return said


def contradictions(
    found: Sequence[Named], listed: Mapping[str, str], class_map: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each column that calls numbers otherwise in one part than in another, and which two rows say so."""
    for column in dict.fromkeys(named.column for named in found):
        parts = [named for named in found if named.column == column]
        if not all(named.is_one_to_one and _is_dense(named) for named in parts) or not any(map(_is_sure, parts)):
            continue
        if listed:
            names = {number: (name, row) for row, (number, name) in enumerate(listed.items(), start=1)}
            parts.insert(0, Named(f"--data.class_map {class_map}", column, names, is_map=True))
        if what := _said_of_column(column, parts):
            yield column, what


def _is_dense(named: Named) -> bool:
    return named.rows >= DENSE * named.labelled


def _is_sure(named: Named) -> bool:
    return len(named.names) > 1 and named.rows >= EACH * len(named.names)


def _said_of_column(column: str, parts: Sequence[Named]) -> str | None:
    """Say which two rows contradict each other, if any do."""
    names_classes = OF_NAMES.issuperset(words := words_of(column)) and not OF_CLASSES.isdisjoint(words)
    numbers: dict[str | Decimal, tuple[Named, str]] = {}
    names: dict[str, tuple[Named, str]] = {}
    for named in parts:
        for number, (name, _) in named.names.items():
            first = numbers.setdefault(likeness(name), (named, number))
            if first[1] != number:
                return _differ(column, first, (named, number))
        for number, (name, _) in named.names.items() if names_classes and not named.is_map else ():
            first = names.setdefault(number, (named, number))
            if not _may_be_one(first[0].names[number][0], name):
                return _differ(column, first, (named, number))
    return None


def _may_be_one(name: str, other: str) -> bool:
    """Whether two names may be one class's, as tench and "tench, Tinca tinca"."""
    one, two = str(likeness(name)), str(likeness(other))
    return one in two or two in one


def _differ(column: str, *both: tuple[Named, str]) -> str:
    said = []
    for named, number in both:
        name, row = named.names[number]
        is_in = f"has in {named.words[0]} {row} the label {number} and"
        said.append(f"{named.place} {f'gives the number {number} the name' if named.is_map else is_in} {name!r:.60}")
    return f"{' but '.join(said)} in the {both[-1][0].words[1]} {column!r}"
