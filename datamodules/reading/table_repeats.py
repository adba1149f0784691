"""Images that tables list twice: with another label or in another split that is an error."""

import posixpath
import re
from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datamodules.reading.label_text import alike
from datamodules.reading.split_copies import TO_SCORE
from datamodules.reading.table_paths import Paths
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted

LOOKED_AT = 64
"""Paths that two tables share whose files are looked for, where the tables lie in different folders."""


class Rows:
    """What tells rows of a table apart, of 16 bytes a row."""

    def __init__(self) -> None:
        self._paths, self._said = array("Q"), array("q")

    def add(self, path: str, labels: Iterable[str], split: str) -> None:
        """Note a row."""
        self._paths.append(digest(path))
        self._said.append(hash((frozenset(labels), split)))

    @property
    def digests(self) -> np.ndarray:
        """A number for each path, the same in every process."""
        return np.array(self._paths, np.uint64)

    def differing(self, paths: Sequence[str]) -> tuple[int, int] | None:
        """Return two rows of one path that say different things, None if there are none."""
        digests, said = self.digests, np.array(self._said, np.int64)
        order = np.argsort(digests, kind="stable")
        again = digests[order][1:] == digests[order][:-1]
        pairs = np.stack([order[:-1], order[1:]], 1)[again & (said[order][1:] != said[order][:-1])]
        pairs = pairs[np.argsort(pairs[:, 1])]
        return next(((int(a), int(b)) for a, b in pairs if _plain(paths[a]) == _plain(paths[b])), None)


class Listed(NamedTuple):
    """The images of a split."""

    split: str
    table: Path
    digests: np.ndarray
    paths: Paths


def check_apart(tables: Sequence[Listed]) -> None:
    """Refuse an image that two splits have; one table may serve for validation and test.

    Raises:
        InputError: naming the table, or the image and both its rows.
    """
    for one, other in combinations(tables, 2):
        if one.table.resolve() == other.table.resolve() and "train" in (one.split, other.split):
            raise InputError(
                f"{one.table} is the table of {one.split} and of {other.split} images; give each split a table of its "
                f"own, or --data.split_column for the column that divides it; {TO_SCORE}"
            )
        if one.table.resolve() != other.table.resolve() and (rows := _shared(one, other)):
            first, second = rows
            raise InputError(
                f"{one.table} has in row {first + 1} the {one.split} image {one.paths[first]}, which {other.table} has "
                f"in row {second + 1} as a {other.split} image; keep it in one split"
            )


class Grouped(NamedTuple):
    """Images of a split, and what keeps them together."""

    split: str
    table: Path
    rows: Sequence[int]
    """Their numbers in the table, from 0."""
    groups: Sequence[str]
    """The group of each."""


def check_groups(splits: Sequence[Grouped], column: str) -> None:
    """Refuse a group of images that two splits have, or that has two spellings.

    Args:
        splits: the images of each split.
        column: what --data.group_column is.

    Raises:
        InputError: naming the first such group, and a row of each split.
    """
    groups = sorted({*chain.from_iterable(split.groups for split in splits)})
    if pair := alike(groups) or _alike_but_for_dashes(groups):
        raise InputError(
            f"--data.group_column {column} has {pair[0]!r:.60} and {pair[1]!r:.60}, which may be one in two spellings; "
            "write both alike, or give the groups other names"
        )
    for one, other in combinations(splits, 2):
        if both := sorted({*one.groups} & {*other.groups}):
            values = counted(len(both), "value"), "has" if len(both) == 1 else "have"
            rows = [
                f"row {split.rows[split.groups.index(both[0])] + 1} of {split.table} ({split.split})"
                for split in (one, other)
            ]
            raise InputError(
                f"{values[0]} of --data.group_column {column} {values[1]} {one.split} and {other.split} images, "
                f"such as {both[0]!r:.60} in {rows[0]} and {rows[1]}; leave all images of one in one split"
            )


def _alike_but_for_dashes(groups: Sequence[str]) -> tuple[str, str] | None:
    """Return two groups that differ in hyphens, underscores and blanks alone, as TCGA-01 and TCGA_01 do."""
    seen: dict[str, str] = {}
    pairs = ((seen.setdefault(re.sub("[-_ ]", " ", group), group), group) for group in groups)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


def digest(path: str) -> int:
    """Return a number for a path, whichever slashes it has."""
    return int.from_bytes(blake2b(_plain(path).encode(errors="surrogateescape"), digest_size=8).digest(), "little")


def _plain(path: str) -> str:
    return posixpath.normpath(path.replace("\\", "/"))


def _shared(one: Listed, other: Listed) -> tuple[int, int] | None:
    """Return the rows of an image that two tables have."""
    if len(one.digests) > len(other.digests):
        rows = _shared(other, one)
        return None if rows is None else rows[::-1]
    order = np.argsort(one.digests, kind="stable")
    places = np.searchsorted(one.digests[order], other.digests).clip(max=len(order) - 1)
    found = np.flatnonzero(one.digests[order][places] == other.digests)
    if one.paths.folders != other.paths.folders:  # then most such paths are different files
        found = found[np.unique(np.linspace(0, len(found) - 1, LOOKED_AT).astype(int))] if len(found) else found
    pairs = ((int(order[places[row]]), int(row)) for row in found)
    return next((pair for pair in pairs if _are_one(one.paths, pair[0], other.paths, pair[1])), None)


def _are_one(one: Paths, first: int, other: Paths, second: int) -> bool:
    """Tell whether two rows lead to one file."""
    if _plain(one[first]) != _plain(other[second]):
        return False
    if one.folders == other.folders:
        return True
    try:
        return one.image(first).samefile(other.image(second))
    except (BrokenImage, OSError):
        return False
