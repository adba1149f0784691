"""Columns of a table that state each image's split, told by their values, so that no test image trains unseen."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from datamodules.reading import table_rows
from datamodules.reading.folder_names import SPLIT_WORDS
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
