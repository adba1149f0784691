"""Columns of a table that state each image's split, told by their values, so that no test image trains unseen."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from datamodules.reading import table_rows
from datamodules.reading.folder_names import SPLIT_WORDS
from datamodules.reading.parquet_labels import holds_text
from datamodules.reading.parquet_rows import open_table
from vit_lightning.errors import InputError

Use = Literal["taken", "refused", "left"]
"""What becomes of such a column: it divides its table, it is an error beside other tables, or it is left alone."""


def stated_split(table: Path, known: Iterable[str | None], split: str, use: Use) -> str | None:
    """Return the column that divides a table by its values, None if there is none.

    Args:
        table: the table.
        known: columns that hold something else.
        split: the split of the table as a whole.
        use: what becomes of the column.

    Raises:
        InputError: naming several such columns, or one beside tables of other splits.
    """
    names = [name for name in table_rows.text_columns(table) if name not in set(known)] if use != "left" else []
    found = splitting(table_rows.values(table, names), names, split) if names else {}
    if len(found) > 1:
        one, other = list(found)[:2]
        raise InputError(
            f"{table} has the columns {one!r} and {other!r}, which both name splits; give --data.split_column {one}"
        )
    for name, splits in found.items():
        if use == "refused":
            raise InputError(
                f"{table} has the column {name!r}, which names the splits {' and '.join(splits)}, beside tables of "
                f"other splits; put all rows into one table for --data.split_column {name}, or take the column out"
            )
        return name
    return None


def check_rows(files: Sequence[Path], known: Collection[str]) -> None:
    """Refuse Parquet files of one split with a column that names several.

    Args:
        files: the files.
        known: columns that hold something else.

    Raises:
        InputError: naming the column.
    """
    schemas = [open_table(file).schema_arrow for file in files]
    texts = [{field.name for field in schema if holds_text(field.type)} - set(known) for schema in schemas]
    names = sorted(set.intersection(*texts)) if texts else []
    rows = chain.from_iterable(_rows(file, names) for file in files)
    for name, splits in (splitting(rows, names, "train") if names else {}).items():
        raise InputError(
            f"{files[0]} has the column {name!r}, which names the splits {' and '.join(splits)}; write the rows of "
            "each to files of their own, as train.parquet and test.parquet, or take the column out"
        )


def _rows(file: Path, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the cells of some columns, a row group at a time, of a folder of Arrow files too."""
    table = open_table(file)
    for group in range(table.metadata.num_row_groups):
        part = table.read_row_group(group, columns=list(columns), use_threads=False)
        yield from zip(*(part.column(name).to_pylist() for name in columns), strict=True)


def splitting(rows: Iterable[Sequence[Any]], names: Sequence[str], split: str) -> dict[str, list[str]]:
    """Return the columns that name a split and another one and nothing else, and the splits that they name.

    Args:
        rows: the cells of these columns, row after row.
        names: the columns.
        split: one that they must name, unless they name that of training.
    """
    found: dict[str, dict[str, None]] = {name: {} for name in dict.fromkeys(names)}
    for cells in rows:
        for name, cell in zip(names, cells, strict=True):
            text = cell.strip().lower() if isinstance(cell, str) else cell
            if name not in found or text in ("", None):  # whoever reads the column names the empty cells
                continue
            if isinstance(text, str) and text in SPLIT_WORDS:
                found[name][SPLIT_WORDS[text]] = None
            else:
                del found[name]
        if not found:
            break
    return {name: list(splits) for name, splits in found.items() if len(splits) > 1 and {"train", split} & {*splits}}
