"""Splits that the rows of files state: kept in the run folder while a run begins, and held against the rows later."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from datamodules.reading import drawn_split
from datamodules.reading.drawn_split import NAMES
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.runs.folders import SPLIT_TABLE, is_run


def run_that_begins(data: ImageDataModule) -> Path | None:
    """Return the folder of the run that begins with some data; None for one that goes on, or where there is none."""
    begins = data.trainer is not None and data.trainer.state.fn == "fit"
    if data.run_folder is None or not begins or not data.run_folder.is_dir() or is_run(data.run_folder):
        return None
    return data.run_folder


def hold_to_run(data: ImageDataModule, source: Path, rows: Sequence[str], names: Sequence[str], splits: np.ndarray):
    """Keep the split of each row in the folder of a run that begins; refuse rows that the run had otherwise.

    Args:
        data: the datamodule, which knows its run.
        source: the first of the files.
        rows: what each row is called.
        names: the class of each, empty where it is not known.
        splits: TRAIN, VAL or TEST for each.

    Raises:
        InputError: naming a row that is gone, or in another split or class than it was.
    """
    own = None if data.run_folder is None else data.run_folder / SPLIT_TABLE
    if own is not None and own.exists() and not data.ignores_split:
        _check(own, source, rows, names, splits)
    elif (folder := run_that_begins(data)) is not None and data.trainer is not None and data.trainer.is_global_zero:
        drawn_split.write(folder / SPLIT_TABLE, rows, names, splits.tolist())


def _check(own: Path, source: Path, rows: Sequence[str], names: Sequence[str], splits: np.ndarray) -> None:
    listed = drawn_split.read(own)
    gone = listed.keys() - {*rows}
    if len(gone) == len(listed):  # other data, of which the run's split says nothing
        return
    fix = "put it back, or begin a new run; other data to score need files of another name"
    if gone:
        raise InputError(f"{source.parent} lacks {min(gone)}, one of {len(gone)} rows that {own} lists; {fix}")
    for row, name, split in zip(rows, names, splits.tolist(), strict=True):
        kept = listed.get(row)
        if kept is not None and kept.split != split:
            raise InputError(f"{source} has {row} in {NAMES[split]}, and {own} has it in {NAMES[kept.split]}; {fix}")
        if kept is not None and name and kept.label not in (None, name):
            raise InputError(f"{source} has {row} in class {name!r:.60}, and {own} in {kept.label!r:.60}; {fix}")
