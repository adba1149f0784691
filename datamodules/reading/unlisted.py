"""Images that a table of splits does not list, as those that were added since it was written."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from datamodules.reading import drawn_split
from datamodules.reading.drawn_split import LEFT_OUT, TRAIN


def placed(splits: np.ndarray, files: Sequence[str], groups: Sequence[str] | None, own: Path | None) -> np.ndarray:
    """Return splits in which images that the table does not list train, or go where their group is.

    Args:
        splits: TRAIN, VAL or TEST for each image, LEFT_OUT for those that the table does not list.
        files: the name of each.
        groups: a name per image; images of one name stay together; None: each stands for itself.
        own: the table of a run that goes on, whose images stay as they are; None: a run begins.
    """
    found = splits.copy()
    rows = np.flatnonzero(splits == LEFT_OUT).tolist()
    if own is not None:
        kept = drawn_split.splits_in(own, files)
        found[rows] = [kept.get(files[row], LEFT_OUT) for row in rows]
    elif groups is None:
        found[rows] = TRAIN
    else:
        of_group = {group: split for group, split in zip(groups, splits.tolist(), strict=True) if split != LEFT_OUT}
        found[rows] = [of_group.get(groups[row], TRAIN) for row in rows]
    return found


def said_of_placed(table: Path, files: Sequence[str], before: np.ndarray, after: np.ndarray) -> str | None:
    """Say which images that a table does not list have got a split; None: none has.

    Args:
        table: the table.
        files: all images.
        before: their splits by the table.
        after: from `placed`.
    """
    rows = np.flatnonzero((before == LEFT_OUT) & (after != LEFT_OUT))
    if not len(rows):
        return None
    scored = int((after[rows] != TRAIN).sum())
    beside = f", and {scored} validate or test as their groups do" * bool(scored)
    return f"{len(rows) - scored} images that {table} does not list train, such as {files[rows[0]]}{beside}"


def said_of_left_out(table: Path, files: Sequence[str], root: Path, splits: np.ndarray, may_train: bool) -> str | None:
    """Say which images are left out since a table does not list them; None: none is.

    Args:
        table: the table.
        files: all images.
        root: where they lie.
        splits: their splits.
        may_train: whether a flag lets them train.
    """
    rows = np.flatnonzero(splits == LEFT_OUT)
    if not len(rows):
        return None
    fix = "; --data.unlisted train trains on them" * may_train
    return (
        f"{table} does not list {len(rows)} of the images of {root}, such as {files[rows[0]]}, which are left out{fix}"
    )
