"""Columns of Parquet files that state each row's split."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from datamodules.reading import stated_split, unread_columns
from datamodules.reading.drawn_split import NAMES, TRAIN, split_number
from datamodules.reading.label_text import whole_number
from datamodules.reading.parquet_labels import holds_text
from datamodules.reading.parquet_rows import Rows, number_of_rows, open_table
from datamodules.reading.splits import CELLS
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


def stated_column(
    files: Sequence[Path], known: Collection[str], split: str, use: stated_split.Use, words: Mapping[str, str] = CELLS
) -> stated_split.Found:
    """Return the column that divides the Parquet files of one split, which all of them have.

    Args:
        files: the files.
        known: columns that hold something else.
        split: the split of the files as a whole.
        use: what becomes of the column.
        words: the split of each word.

    Raises:
        InputError: as `stated_split.stated_split`.
    """
    schemas = [open_table(file).schema_arrow for file in files]
    texts = [{field.name for field in schema if holds_text(field.type)} - set(known) for schema in schemas]
    names = sorted(set.intersection(*texts)) if texts and use != "left" else []
    said = stated_split.read(rows_of(files, names), names, words) if names else {}
    found = stated_split.decide(str(files[0]), said, split, use)
    if found.column is None and use == "taken":
        flags = [name for name in schemas[0].names if name not in known and unread_columns.may_state(name)]
        flags = [name for name in flags if all(name in schema.names for schema in schemas)]
        found.notices.extend(unread_columns.said_of_columns(str(files[0]), flags, rows_of(files, flags)))
    return found


def refuse_stated(
    files: Sequence[Path], known: Collection[str], split: str, use: stated_split.Use, words: Mapping[str, str] = CELLS
) -> list[str]:
    """Refuse a column that states each image's split and was not given; return what else may state it.

    Args:
        files: the files of a split.
        known: columns that hold something else.
        split: that split.
        use: what becomes of the column.
        words: the split of each word.

    Raises:
        InputError: naming the column, or as `stated_column`.
    """
    column, notices = stated_column(files, known, split, use, words)
    if column is None:
        return notices
    splits = splits_of(files, column, (), words)
    shown = " and ".join(name for number, name in enumerate(NAMES) if number in splits)
    raise InputError(
        f"{files[0]} has the column {column!r}, which names the splits {shown}; write the rows of each to files of "
        f"their own, as train.parquet and test.parquet, or give --data.split_column {column}; "
        f"{stated_split.LEFT_ALONE}"
    )


def check_trained(rows: Rows, splits: np.ndarray, class_names: Sequence[str]) -> None:
    """Refuse an image of a class that no training row has.

    Args:
        rows: all images, one class each.
        splits: the split of each.
        class_names: all classes.

    Raises:
        InputError: naming the first such image.
    """
    unknown = np.flatnonzero(~np.isin(rows.labels, [IGNORE, *rows.labels[splits == TRAIN]]))
    if len(unknown):
        raise InputError(
            f"{rows.keys[int(unknown[0])]} has the label {class_names[rows.labels[unknown[0]]]!r:.60}, which the "
            "training rows lack; give --data.class_map with all classes"
        )


def rows_of(files: Iterable[Path], columns: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the cells of some columns, a row group at a time, of folders of Arrow files too."""
    return chain.from_iterable(_rows(file, columns) for file in files)


def _rows(file: Path, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
    table = open_table(file)
    for group in range(table.metadata.num_row_groups):
        part = table.read_row_group(group, columns=list(columns), use_threads=False)
        yield from zip(*(part.column(name).to_pylist() for name in columns), strict=True)


def splits_of(
    files: Sequence[Path], column: str, beside: Collection[str], words: Mapping[str, str] = CELLS
) -> np.ndarray:
    """Return the split of each row of the training files, int8 `(rows,)`.

    Args:
        files: the files.
        column: the column that states it.
        beside: splits that have files of their own.
        words: the split of each word.

    Raises:
        InputError: naming a row that is in no split, or splits that have files of their own.
    """
    found = np.empty(number_of_rows(files), np.int8)
    start = 0
    for file in files:
        there = open_table(file).schema_arrow.names
        if column not in there:
            raise InputError(f"{file} has no column {column!r} but {', '.join(there)}; give --data.split_column")
        for row, (cell,) in enumerate(rows_of([file], [column]), start=1):
            text = "" if cell is None or cell != cell else whole_number(str(cell).strip())
            where, fix = f"{file} has in row {row} of the column {column!r}", ""
            if text.lower() not in words:
                cells = (cell for (cell,) in rows_of([file], [column]))
                fix = f"; {stated_split.naming_all(cells, words)}; {stated_split.LEFT_ALONE}"
            found[start + row - 1] = split_number(text, where, words, fix)
        start += number_of_rows([file])
    stated = [NAMES[split] for split in np.unique(found)]
    if {*stated} & {*beside}:
        raise InputError(stated_split.beside(str(files[0]), column, stated))
    if not (found == TRAIN).any():
        raise InputError(f"{files[0]} has no training rows by the column {column!r}; {stated_split.LEFT_ALONE}")
    return found
