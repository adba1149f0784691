"""Drawing a split: by class, whole groups at a time, the same one on every machine; and the table that keeps it."""

import csv
import io
import posixpath
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datamodules.reading.damaged_files import read_whole, reading
from datamodules.reading.label_text import whole_number
from datamodules.reading.splits import CELLS, KNOWN, SPLITS
from vit_lightning.errors import InputError
from vit_lightning.files import FORMULA, csv_text, write_atomically

NAMES = tuple(SPLITS)
TRAIN, VAL, TEST = range(3)
CLASS_COLUMNS = ("class", "classes", "class_name", "label", "labels", "label_name", "category")
"""Columns of such a table that name the class of a file, in small letters."""
LEFT_OUT = -1
"""Place of an image that a table does not list."""


def draw(groups: Sequence[str], classes: Sequence[int], shares: tuple[float, float, float], seed: int) -> np.ndarray:
    """Divide images into training, validation and test images, of which each class has the same shares.

    Groups come in the order of their size, equal ones in that of a hash of their names. Each goes where most of its
    classes' images are still wanted, and each class has a training image.

    Args:
        groups: a name per image; images of one name stay together.
        classes: a class per image, or anything else whose shares are to be kept.
        shares: of training, validation and test images, which sum to 1.
        seed: another number gives another split.

    Returns:
        TRAIN, VAL or TEST for each image.
    """
    members: dict[str, list[int]] = {}
    for image, group in enumerate(groups):
        members.setdefault(group, []).append(image)
    order = sorted(members, key=lambda group: (-len(members[group]), _hash(group, seed)))
    totals = Counter(classes)
    wanted = [{label: share * count for label, count in totals.items()} for share in shares]
    missing = [share * len(classes) for share in shares]
    empty = [split for split, share in enumerate(shares) if share > 0]
    untrained = set(totals)
    groups_left = Counter(label for some in members.values() for label in {classes[image] for image in some})
    found = np.zeros(len(classes), dtype=np.int8)
    for left, group in zip(range(len(order), 0, -1), order, strict=True):
        counts = Counter(classes[image] for image in members[group])

        def need(split: int, counts: Counter = counts) -> tuple[float, float]:
            of_classes = sum(count * wanted[split][label] / totals[label] for label, count in counts.items())
            return round(of_classes, 9), round(missing[split], 9)

        if any(label in untrained and groups_left[label] == 1 for label in counts):
            split = TRAIN
        else:
            split = max(empty if 0 < len(empty) >= left else (TRAIN, VAL, TEST), key=need)
        found[members[group]] = split
        missing[split] -= len(members[group])
        for label, count in counts.items():
            wanted[split][label] -= count
            groups_left[label] -= 1
        if split == TRAIN:
            untrained -= counts.keys()
        if split in empty:
            empty.remove(split)
    return found


def _hash(name: str, seed: int) -> bytes:
    return blake2b(f"{seed} {name}".encode(errors="surrogateescape"), digest_size=8).digest()


def digest(files: Iterable[str], splits: Iterable[int]) -> str:
    """Return what is the same where the same files are in the same splits, in whatever order."""
    lines = sorted(f"{split} {file}" for file, split in zip(files, splits, strict=True))
    return blake2b("\n".join(lines).encode(errors="surrogateescape"), digest_size=16).hexdigest()


def write(table: Path, files: Iterable[str], classes: Iterable[str], splits: Iterable[int]) -> None:
    """Write the split of each file, where there is no such table yet."""
    if table.exists():
        return
    rows = ((file, label, NAMES[split]) for file, label, split in zip(files, classes, splits, strict=True))
    text = csv_text([("file", "class", "split"), *rows])
    write_atomically(table, text.encode(errors="surrogateescape"))


class Kept(NamedTuple):
    """What a table says of a file."""

    split: int
    label: str | None
    """Name of its class; None: the table is silent about it."""
    row: int
    """Counted from 1."""
    column: str = "class"
    """What the column of classes is called."""


def read(table: Path) -> dict[str, Kept]:
    """Return what a table with the columns file and split, and perhaps class or label, says of each file.

    Raises:
        InputError: naming the row that cannot be understood, or two that say different things of one file.
    """
    found: dict[str, Kept] = {}
    with reading(table):
        text = read_whole(table).decode("utf-8-sig", errors="surrogateescape")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        rows.fieldnames = [name.strip().lower() for name in rows.fieldnames or ()]
        if twice := [name for name, count in Counter(rows.fieldnames).items() if count > 1]:
            raise InputError(f"{table} has the column {twice[0]!r} twice; give each column a name of its own")
        classes = [name for name in rows.fieldnames if name in CLASS_COLUMNS]
        if len(classes) > 1:
            raise InputError(f"{table} has the columns {' and '.join(classes)}, which may both name classes; keep one")
        for number, row in enumerate(rows, start=1):
            file, split, label = (row.get(name) for name in ("file", "split", *(classes or ["class"])))
            if not file or not split:
                raise InputError(f"{table} lacks file or split in row {number}; the columns file and split are needed")
            file = _from_cell(file)
            place = split_number(split, f"{table} has in row {number} ({file})")
            kept = Kept(place, _from_cell(label) if label else None, number, classes[0] if classes else "")
            first = found.setdefault(file, kept)
            for what, one, other in (("splits", first.split, kept.split), ("classes", first.label, kept.label)):
                if one != other:
                    raise InputError(f"{table} has {file} in two {what}, in row {first.row} and in row {number}")
    return found


def _from_cell(text: str) -> str:
    """Return what `spreadsheet_cell` made a cell of."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def used_in(arrays: Mapping[str, np.ndarray], *splits: int) -> np.ndarray:
    """Return the places of the names that the images of some splits have, in order.

    Args:
        arrays: a table's "labels.values" and "labels.ends", which are such places, and "splits".
        splits: TRAIN, VAL or TEST.
    """
    split_of = np.repeat(arrays["splits"], np.diff(arrays["labels.ends"].astype(np.int64)))
    return np.unique(arrays["labels.values"][np.isin(split_of, splits)])


def split_number(name: str, where: str, words: Mapping[str, str] = CELLS, fix: str = "") -> int:
    """Return which split a name stands for.

    Args:
        name: what stands in a cell.
        where: how the sentence of an error begins.
        words: the split of each word, in small letters.
        fix: how that sentence ends.

    Raises:
        InputError: it stands for none.
    """
    split = words.get(name.strip().lower())
    if split is None:
        raise InputError(f"{where} the split {name!r:.60}, expected one of {KNOWN}{fix}")
    return NAMES.index(split)


def by_table(
    table: Path,
    files: Sequence[str],
    source: str,
    is_of_run: bool,
    labels: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> tuple[np.ndarray, int]:
    """Return the split of each file as a table has it, and how many files it does not list.

    Args:
        table: the table.
        files: those that are there.
        source: what to call the place where they are.
        is_of_run: whether nobody named the table, which then must list every file.
        labels: the class of each file, which must be that in the table; None: not known.
        groups: a name per file; the table must have files of one name in one split; None: each stands for itself.

    Raises:
        InputError: naming what was added, removed or put into another class, or a group that the table divides.
    """
    there = set(files)
    listed = _by_file(read(table), there, table)
    gone = sorted(listed.keys() - there)
    new = sorted(there - listed.keys())
    if gone:
        raise InputError(
            f"{source} lacks {len(gone)} of the {len(listed)} images that {table} lists, such as "
            f"{gone[0]}{_nearest(gone[0], new)}; "
            + ("put them back, or begin a new run" if is_of_run else "put them back, or remove their rows")
        )
    if new and is_of_run:
        raise InputError(
            f"{source} has {len(new)} image{'s' * (len(new) > 1)} in no split of {table}, such as {new[0]}; "
            f"give --data.split_file {table} to leave them out, take them away, or begin a new run, which trains on "
            f"them with --data.split_file {table} --data.unlisted train"
        )
    for file, label in zip(files, labels or (), strict=False):
        kept = listed.get(file)
        if kept is not None and kept.label is not None and not _is_same(kept.label, label):
            raise InputError(
                f"{table} has in row {kept.row} {file} in class {kept.label!r:.60}, and {source} has it in class "
                f"{label!r:.60}; "
                + ("begin a new run" if is_of_run else f"correct the row, or remove the column {kept.column}")
            )
    _check_groups(table, files, groups or (), listed)
    return np.array([listed[file].split if file in listed else LEFT_OUT for file in files], np.int8), len(new)


def _check_groups(table: Path, files: Sequence[str], groups: Sequence[str], listed: Mapping[str, Kept]) -> None:
    """Refuse a group with files in two splits of a table."""
    first: dict[str, str] = {}
    for file, group in zip(files, groups, strict=False):
        if file not in listed:
            continue
        before = first.setdefault(group, file)
        one, other = listed[before], listed[file]
        if one.split != other.split:
            raise InputError(
                f"{table} has {before} in {NAMES[one.split]} in row {one.row} and {file} in {NAMES[other.split]} in "
                f"row {other.row}, which are both of {group!r:.60} in --data.group_column; leave all images of one in "
                "one split"
            )


def _is_same(text: str, label: str) -> bool:
    """Tell whether a table's text is the name of a class, or that number in the other form."""
    return text == label or whole_number(text.strip()) == whole_number(label.strip())


def listed_in(table: Path, files: Sequence[str]) -> set[str]:
    """Return those of some files that a table lists, whichever slashes it has."""
    return {*splits_in(table, files)}


def splits_in(table: Path, files: Sequence[str]) -> dict[str, int]:
    """Return the split of those of some files that a table lists, whichever slashes it has."""
    there = set(files)
    return {file: kept.split for file, kept in _by_file(read(table), there, table).items() if file in there}


def _by_file(listed: Mapping[str, Kept], there: Collection[str], table: Path) -> dict[str, Kept]:
    """Return what a table says of each file by the file's own name, whichever slashes the table has."""
    found: dict[str, Kept] = {}
    said: dict[str, Kept] = {}
    for name, kept in listed.items():
        plain = posixpath.normpath(name.replace("\\", "/"))
        found.setdefault(plain if name not in there and plain in there else name, kept)
        first = said.setdefault(plain, kept)
        for what, one, other in (("splits", first.split, kept.split), ("classes", first.label, kept.label)):
            if one != other:
                raise InputError(f"{table} has {plain} in two {what}, in row {first.row} and in row {kept.row}")
    return found


def _nearest(gone: str, files: Sequence[str]) -> str:
    """Name the file that a missing one may have become: its name in other letters, or in another folder."""

    def plain(name: str) -> str:
        return unicodedata.normalize("NFC", name).casefold()

    for form in (plain, posixpath.basename):
        found = [file for file in files if form(file) == form(gone)]
        if len(found) == 1:
            return f" ({found[0]} is there, and not listed)"
    return ""
