"""Columns beside the labels of a table: what groups images, and what says that a class does not show."""

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from datamodules.reading import table_rows
from datamodules.reading.column_names import GROUP_COLUMNS, PERSON_COLUMNS
from datamodules.reading.label_text import whole_number

FEWEST = 20
"""Values of a column that groups images; fewer may be kinds of images, as the places on a body are."""
FEWEST_IDS = 5
"""As many, where its name says that they are ids."""


def may_group(table: Path, known: Collection[str | None]) -> str | None:
    """Return the column that names what several images show, as a patient or a lesion; None: there is none.

    Args:
        table: the table.
        known: columns that hold something else.
    """
    stems = {name: "".join(filter(str.isalpha, name.lower())) for name in table_rows.header(table) if name not in known}
    if person := next((name for name, stem in stems.items() if stem.removesuffix("id") in PERSON_COLUMNS), None):
        return person
    names = [name for name, stem in stems.items() if stem.removesuffix("id") in GROUP_COLUMNS]
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for cells in table_rows.values(table, names) if names else ():
        for name, cell in zip(names, cells, strict=True):
            counts[name][str(cell)] += cell not in (None, "") and cell == cell
    for name, values in counts.items():
        fewest = FEWEST_IDS if stems[name].endswith("id") else FEWEST
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
