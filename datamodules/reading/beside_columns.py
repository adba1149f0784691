"""Columns beside the labels of a table: what groups images, and what says that a class does not show."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from datamodules.reading import table_rows
from datamodules.reading.column_names import GROUP_COLUMNS, PERSON_COLUMNS
from datamodules.reading.label_text import whole_number
from datamodules.reading.table_columns import YES_OR_NO
from datamodules.reading.unread_columns import may_state
from vit_lightning.errors import listing

FEWEST = 20
"""Values of a column that groups images; fewer may be kinds of images, as the places on a body are."""
FEWEST_IDS = 5
"""As many, where its name says that they are ids."""
FEWEST_PERSONS = 2
"""As many, where its name says that they are those whom the images show."""


def may_group(columns: Sequence[str], cells_of: Callable[[list[str]], Iterable[Sequence[Any]]]) -> str | None:
    """Return the column that names what several images show, as a patient or a lesion; None: there is none.

    Args:
        columns: those that may be meant.
        cells_of: returns the cells of some columns, row after row.
    """
    stems = {name: "".join(filter(str.isalpha, name.lower())).removesuffix("id") for name in columns}
    names = [name for name, stem in stems.items() if stem in PERSON_COLUMNS]
    names += [name for name, stem in stems.items() if stem in GROUP_COLUMNS]
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for cells in cells_of(names) if names else ():
        for name, cell in zip(names, cells, strict=True):
            counts[name][str(cell)] += cell not in (None, "") and cell == cell
    for name, values in counts.items():
        is_person, is_id = stems[name] in PERSON_COLUMNS, name.lower().rstrip("_").endswith("id")
        fewest = FEWEST_PERSONS if is_person else FEWEST_IDS if is_id else FEWEST
        if fewest <= sum(count > 0 for count in values.values()) and max(values.values(), default=0) > 1:
            return name
    return None


def group_hint(table: Path, column: str) -> str:
    """Say what a column that groups images is good for."""
    flag = f"--data.group_column {shlex.quote(column)}"
    return f"{table} has the column {column}: {flag} keeps all images of one in one split"


def denied(table: Path, known: Sequence[str | None]) -> list[str]:
    """Say that rows have a confidence of 0 beside others of 1: Open Images names the classes that do not show so.

    Args:
        table: the table.
        known: columns that hold something else.
    """
    names = [name for name in table_rows.header(table) if name.strip().lower() == "confidence" and name not in known]
    counts: Counter[str] = Counter()
    for (cell,) in table_rows.values(table, names[:1]) if names else ():
        counts[whole_number(str(cell).strip())] += 1
        if len(counts) > len("01"):
            return []
    if not names or counts.keys() != {"0", "1"}:
        return []
    return [
        f"{table} has 0 in the column {names[0]!r} in {counts['0']} of {counts.total()} rows, which in Open Images "
        "says that the class of the row does not show; they are read as images of it; take them out if so"
    ]


def further_classes(table: Path, classes: Sequence[str], known: Sequence[str | None]) -> list[str]:
    """Say which further columns hold 0 and 1 alone, as those of the classes do.

    Args:
        table: the table.
        classes: the columns of classes that were given.
        known: columns that hold something else, those of the classes among them.
    """
    names = [name for name in table_rows.header(table) if name not in known and not may_state(name)]
    shows = dict.fromkeys(names, False)
    for cells in table_rows.values(table, names) if names else ():
        for name, cell in zip(names, cells, strict=True):
            if name in shows and (found := YES_OR_NO.get(str(cell).strip())) is not None:
                shows[name] |= found
            else:
                shows.pop(name, None)
        if not shows:
            break
    left = [name for name, does in shows.items() if does]
    if not left:
        return []
    columns = "the column" if len(left) == 1 else "the columns"
    return [
        f"{table} has {columns} {listing(left, most=4)} of 0 and 1 beside --data.label_column '[{','.join(classes)}]', "
        f"which no label tells; if it is a class as well, give [{','.join([*classes, left[0]])}]"
    ]
