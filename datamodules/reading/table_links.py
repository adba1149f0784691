"""Links among the files of tables, by which one image would have two labels or train what is scored."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datamodules.reading.drawn_split import NAMES
from datamodules.reading.table_labels import TableLabels
from datamodules.reading.table_paths import Paths
from vit_lightning.errors import InputError

MOST = 200_000
"""Images in all tables up to which their files are looked at, as this takes seconds."""
BATCH = 1024
THREADS = 16


class Listed(NamedTuple):
    """The images of a table."""

    split: str
    labels: TableLabels
    paths: Paths

    def said(self, row: int) -> tuple[str, frozenset[str]]:
        """Return the split and the labels of an image."""
        split = NAMES[self.labels.arrays["splits"][row]] if self.labels.is_divided else self.split
        return split, frozenset(self.labels.names[label] for label in self.labels.rows[row])


def check(tables: Iterable[Listed]) -> None:
    """Refuse a file that links bring under two labels, or into training and another split.

    Args:
        tables: those with labels; one that serves for two splits counts once.

    Raises:
        InputError: naming both rows.
    """
    one_each = list({table.labels.table.resolve(): table for table in reversed(list(tables))}.values())[::-1]
    if not one_each or sum(len(table.paths) for table in one_each) > MOST:
        return
    files = np.concatenate([_files(table.paths) for table in one_each])
    places = [(table, row) for table in one_each for row in range(len(table.paths))]
    order = np.lexsort(files.T)
    again = (files[order][1:] == files[order][:-1]).all(1) & (files[order][1:, 1] != 0)
    for one, other in zip(order[:-1][again].tolist(), order[1:][again].tolist(), strict=True):
        _check_pair(*places[one], *places[other])


def _check_pair(one: Listed, first: int, other: Listed, second: int) -> None:
    (split, labels), (other_split, other_labels) = one.said(first), other.said(second)
    if split != other_split and "train" in (split, other_split):
        why = f"a {split} and a {other_split} image"
    elif labels != other_labels and labels and other_labels:
        why = f"{_shown(labels)} and {_shown(other_labels)}"
    else:
        return
    raise InputError(
        f"{one.labels.table} has in row {first + 1} {one.paths[first]}, and {other.labels.table} has in row "
        f"{second + 1} {other.paths[second]}, which are one through a link, as {why}; keep one of the rows"
    )


def _shown(labels: frozenset[str]) -> str:
    return f"{', '.join(sorted(labels))!r:.60}"


def _files(paths: Paths) -> np.ndarray:
    """Return what each image's file is known by in its file system, uint64 `(images, 2)`, 0 where it is missing."""
    starts = range(0, len(paths), BATCH)

    def look(start: int) -> list[tuple[int, int]]:
        return [_file(paths[row], paths.folders) for row in range(start, min(start + BATCH, len(paths)))]

    with ThreadPoolExecutor(THREADS) as pool:  # a network file system answers each question late
        return np.array(list(chain.from_iterable(pool.map(look, starts))), np.uint64).reshape(-1, 2)


def _file(path: str, folders: Sequence[Path]) -> tuple[int, int]:
    for form in dict.fromkeys((path, path.replace("\\", "/"))):
        for folder in folders:
            try:
                found = os.stat(os.path.join(folder, form))
            except (OSError, ValueError):
                continue
            return found.st_dev, found.st_ino
    return 0, 0
