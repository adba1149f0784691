"""Images of a table whose labels are hidden, all or some, as those of published test sets are."""

from pathlib import Path

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading.image_index import IndexedImages
from datamodules.reading.shared_sequences import Ragged
from datamodules.reading.table_paths import Paths
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


def single_labels(rows: Ragged, table: Path, needs_labels: bool) -> np.ndarray:
    """Return one label per row, IGNORE where that of a test image is hidden."""
    if len(rows.values) == len(rows) and (rows.values >= 0).all():
        return rows.values
    labels = np.full(len(rows), IGNORE, dtype=np.int32)
    labels[np.diff(rows.ends) == 1] = rows.values
    say_hidden(int((labels == IGNORE).sum()), len(labels), table, needs_labels)
    return labels


def say_hidden(hidden: int, count: int, table: Path, needs_labels: bool) -> None:
    """Say how many labels are hidden, and refuse to test without any."""
    if hidden == count and needs_labels:
        raise InputError(f"{table} has no labels, which test needs; predict does without them")
    if hidden:
        rank_zero_info(f"{hidden} of the {count} labels in {table.name} are hidden: they do not count")


def unlabelled(paths: Paths, table: Path, needs_labels: bool, what: str) -> IndexedImages:
    """Return the images of a table without labels, or refuse to test on them."""
    if needs_labels:
        raise InputError(f"{table} has no {what}, which test needs; predict does without it")
    rank_zero_info(f"{table} has no {what}: its images serve predict alone")
    return IndexedImages(paths, np.full(len(paths), IGNORE))
