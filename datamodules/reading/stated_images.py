"""Images that the data put into splits themselves, which a run that goes on may not see moved."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datamodules.reading import drawn_split
from datamodules.reading.drawn_split import NAMES, TEST, TRAIN, VAL
from vit_lightning.errors import InputError


class Stated(NamedTuple):
    """Images that the data themselves put into a split."""

    files: list[str]
    names: list[str]
    """What the table of a run says about each beside its split."""
    splits: np.ndarray
    """TRAIN, VAL or TEST for each."""

    def without(self, rows: np.ndarray) -> "Stated":
        """Return all images but those of some rows."""
        left = np.setdiff1d(np.arange(len(self.files)), rows)
        return Stated([self.files[row] for row in left], [self.names[row] for row in left], self.splits[left])


def as_kept(own: Path, source: Path, stated: Stated, groups: Sequence[str] | None = None) -> np.ndarray:
    """Return the run's split of each image whose split the data state.

    Args:
        own: the run's table of splits, which lists some of the images.
        source: the table that states the splits.
        stated: its images.
        groups: a name per image; images of one name stay together; None: each stands for itself.

    Raises:
        InputError: naming an image that the table has in another split than the run's.
    """
    listed = drawn_split.listed_in(own, stated.files)
    rows = [row for row, file in enumerate(stated.files) if file in listed]
    files, names = ([some[row] for row in rows] for some in (stated.files, stated.names))
    some = None if groups is None else [groups[row] for row in rows]
    found = stated.splits.copy()
    found[rows], _ = drawn_split.by_table(own, files, str(source), True, names, some)
    may_be_drawn = {VAL, TEST} - {*stated.splits.tolist()}
    for row in np.flatnonzero(found != stated.splits).tolist():
        if stated.splits[row] != TRAIN or found[row] not in may_be_drawn:
            now, then = NAMES[stated.splits[row]], NAMES[found[row]]
            raise InputError(
                f"{source} has {stated.files[row]} in {now} in row {row + 1}, and {own} has it in {then}; put it "
                "back, or begin a new run"
            )
    return found
