"""Folders in paths that are called as the labels beside them: where both differ, one column may have been sorted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from datamodules.reading.folder_names import split_alone
from datamodules.reading.label_text import NUMBER, likeness
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted

DEEPEST = 8
"""Folders of a path that are looked at."""
MANY = 0.1
"""Share of such rows that differ by more than corrected labels do."""


class Differing(NamedTuple):
    """Rows whose label is another than the folder of their image is called after."""

    row: int
    """The first, counted from 1."""
    path: str
    label: str
    folder: str
    count: int
    of: int
    """All rows whose folder is called as a label is."""

    def said(self, table: str, column: str, is_given: bool) -> str:
        """Say what differs, and what to do.

        Args:
            table: what to call the table.
            column: the column of labels.
            is_given: whether it was given, so that it counts whatever the folders say.

        Raises:
            InputError: it was not, and too many rows differ.
        """
        what = (
            f"{table} has in row {self.row} the label {self.label!r:.60} in the column {column!r} for {self.path}, "
            f"whose folder is called as another label is; so it is in {self.count} of {counted(self.of, 'such row')}"
        )
        fix = "see whether one column alone was sorted or moved"
        if is_given or self.count < MANY * self.of:
            return f"{what}, and the column counts; {fix}"
        raise InputError(f"{what}; {fix}; if the labels are right, --data.label_column {column} says so")


def differing(rows: Iterable[tuple[str, str]]) -> Differing | None:
    """Return the rows whose image lies in a folder that is called as another label is.

    Only names count, since folders are numbered for other reasons, too.

    Args:
        rows: the path and the label of each row; an empty label is not told.
    """
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[int, str]] = {}
    for row, (path, label) in enumerate(rows, start=1):
        folder = path.replace("\\", "/").rpartition("/")[0]
        if folder and label:
            counts[folder, label] += 1
            first.setdefault((folder, label), (row, path))
    same: dict[str, str | Decimal] = {label: likeness(label) for _, label in counts}
    names = {kind for label, kind in same.items() if _is_name(label)}
    found = []
    for place in range(-1, DEEPEST) if len(names) > 1 else ():
        at = {pair: _at(pair[0], place) for pair in counts}
        kinds = {part: likeness(part) for part in at.values()}
        named = [pair for pair, part in at.items() if kinds[part] in names]
        wrong = [pair for pair in named if kinds[at[pair]] != same[pair[1]]]
        of = sum(counts[pair] for pair in named)
        if len({kinds[at[pair]] for pair in named}) < 2 or 2 * of < counts.total():
            continue
        if not wrong:
            return None
        pair = min(wrong, key=lambda one: first[one][0])
        found.append(Differing(*first[pair], pair[1], at[pair], sum(counts[one] for one in wrong), of))
    return min(found, key=lambda one: one.count, default=None)


def _at(folder: str, place: int) -> str:
    parts: Sequence[str] = folder.split("/")
    return parts[place] if place < len(parts) else ""


def _is_name(label: str) -> bool:
    return len(label) > 1 and NUMBER.fullmatch(label) is None and split_alone(label) is None
