"""Images that Parquet files give by their paths: with another label or in another split in a second row is an error."""

import posixpath
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datamodules.reading.image_files import find_image
from datamodules.reading.parquet_rows import Rows, open_table
from datamodules.reading.table_repeats import LOOKED_AT, digest
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

LEAST_BYTES = 64
"""Bytes that a row has at least where all images lie in it."""


class Listed:
    """The images of a split that are given by their paths.

    Args:
        split: what it is called.
        rows: all its images.
        said: a number per image for its labels, int64 `(rows,)`, IGNORE where they are hidden.
    """

    def __init__(self, split: str, rows: Rows, said: np.ndarray) -> None:
        self.split = split
        self.rows = rows
        found = [(row, digest(path)) for row, path in _paths(rows)]
        self.numbers = np.array([row for row, _ in found], np.int64)
        self.digests = np.array([number for _, number in found], np.uint64)
        self.said = said[self.numbers]
        folders = np.array([digest(str(rows.files[file].parent)) for file, _ in rows.groups], np.uint64)
        self.folders = folders[np.searchsorted(rows.starts, self.numbers, side="right") - 1]

    def part(self, split: str, rows: np.ndarray) -> "Listed":
        """Return those of some rows, which are another split."""
        found = copy(self)
        kept = np.isin(self.numbers, rows)
        found.split = split
        found.numbers, found.digests = self.numbers[kept], self.digests[kept]
        found.said, found.folders = self.said[kept], self.folders[kept]
        return found

    def copies(self) -> np.ndarray | None:
        """Return a number per image of the split, the same for those of one path; None where each has its own."""
        _, members = np.unique(np.stack([self.digests, self.folders]), axis=1, return_inverse=True)
        if not len(members) or members.max() + 1 == len(members):
            return None
        groups = np.arange(len(self.rows))
        groups[self.numbers] = len(groups) + members.reshape(-1)
        return groups


class _Row(NamedTuple):
    """A row of a split."""

    split: str
    file: Path
    number: int
    """Counted from 1 in its file."""
    path: str
    root: Path | None


def numbered(rows: Sequence[np.ndarray], hidden: np.ndarray) -> np.ndarray:
    """Return a number for the classes of each image, whatever their order, and IGNORE where they are hidden."""
    sets = (frozenset(row.tolist()) for row in rows)
    return np.array([IGNORE if one else hash(row) & 2**62 - 1 for one, row in zip(hidden, sets, strict=True)], np.int64)


def check(splits: Sequence[Listed]) -> None:
    """Refuse a file that two rows give with other labels, or in two splits.

    Raises:
        InputError: naming both rows.
    """
    digests = np.concatenate([one.digests for one in splits])
    said = np.concatenate([one.said for one in splits])
    split_of = np.repeat(np.arange(len(splits)), [len(one.digests) for one in splits])
    row_of = np.concatenate([one.numbers for one in splits])
    order = np.lexsort((np.concatenate([one.folders for one in splits]), digests))
    one, other = np.sort(np.stack([order[:-1], order[1:]]), axis=0)
    known = (said[one] != IGNORE) & (said[other] != IGNORE)
    clash = (split_of[one] != split_of[other]) | (known & (said[one] != said[other]))
    places = np.flatnonzero((digests[one] == digests[other]) & clash)
    looked_at = 0
    for place in places.tolist():
        first, second = (_row(splits[split_of[end]], int(row_of[end])) for end in (one[place], other[place]))
        if first.file.parent != second.file.parent:  # then most such paths are different files
            looked_at += 1
            if looked_at > LOOKED_AT:
                continue
        if _are_one(first, second):
            why = "with other labels" if first.split == second.split else f"as a {second.split} image"
            raise InputError(
                f"{first.file} has in row {first.number} the {first.split} image {first.path}, which {second.file} has "
                f"in row {second.number} {why}; keep one of the rows"
            )


def _row(listed: Listed, row: int) -> _Row:
    file, number = listed.rows.places.place(row)
    path = str(listed.rows.given(row))
    return _Row(listed.split, file, number + 1, path, listed.rows.root)


def _are_one(one: _Row, other: _Row) -> bool:
    if _plain(one.path) != _plain(other.path):
        return False
    if one.file.parent == other.file.parent:
        return True
    try:
        return _file(one).samefile(_file(other))
    except (BrokenImage, OSError):
        return False


def _file(row: _Row) -> Path:
    return find_image(row.path, [row.file.parent, row.root or row.file.parent], row.path)


def _plain(path: str) -> str:
    return posixpath.normpath(path.replace("\\", "/"))


def _paths(rows: Rows) -> Iterator[tuple[int, str]]:
    """Yield number and path of the images that are given so."""
    for group, (file, number) in enumerate(rows.groups):
        table = open_table(rows.files[file])
        if not _may_have_paths(table, rows.image, number):
            continue
        column = table.read_row_group(number, columns=[rows.image], use_threads=False).column(0)
        for row, value in enumerate(column.to_pylist(), start=int(rows.starts[group])):
            path = value if isinstance(value, str) else None
            if isinstance(value, dict) and not value.get("bytes"):
                path = value.get("path")
            if path:
                yield row, path


def _may_have_paths(table: Any, image: str, group: int) -> bool:
    """Tell from what a file says of itself whether images of a row group may lack their bytes."""
    import pyarrow as pa

    kind = table.schema_arrow.field(image).type
    if not pa.types.is_struct(kind):
        return not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
    if not hasattr(table.metadata, "num_columns"):  # save_to_disk puts the bytes in
        return False
    chunks = table.metadata.row_group(group)
    columns = [chunks.column(number) for number in range(chunks.num_columns)]
    found = next((column for column in columns if column.path_in_schema == f"{image}.bytes"), None)
    if found is None:
        return True
    stated = found.statistics
    if stated is not None and stated.has_null_count:
        return stated.null_count > 0
    return found.total_uncompressed_size < LEAST_BYTES * chunks.num_rows  # as of a column without any values
