"""Folders in paths that are called as the labels beside them: where both differ, one column may have been sorted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from datamodules.reading.folder_names import split_alone
from datamodules.reading.label_text import NUMBER, likeness
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted

Kind = str | Decimal
"""What equals for all spellings of a label."""
DEEPEST = 8
"""Folders of a path that are looked at."""
MANY = 0.1
"""Share of such rows that differ by more than a few corrected labels do."""
AGREEING = 0.5
"""Agreement beyond chance (Cohen's kappa) from which on folders and labels mean the same, and some were corrected."""
ONE_SIDED = 0.5
"""Share of such rows by which labels and folders differ in their counts, from which on images changed their class."""
PLACES = frozenset(
    {"left", "right", "front", "back", "rear", "top", "bottom", "up", "down", "side", "center", "centre", "middle"}
    | {"upper", "lower", "inside", "outside", "north", "south", "east", "west"}
)
"""Names that say of folders from where an image was taken, and of labels something else."""


MOVED = "see whether one column alone was sorted or moved"


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
    is_mixed: bool = True
    """Whether folders and labels differ as they do where one column was sorted or moved alone."""
    fix: str = MOVED

    def said(self, table: str, column: str, is_given: bool) -> str:
        """Say what differs, and what to do.

        Args:
            table: what to call the table.
            column: the column of labels.
            is_given: whether it was given, so that it counts whatever the folders say.

        Raises:
            InputError: it was not, and too many rows differ, as they do where a column was sorted.
        """
        what = (
            f"{table} has in row {self.row} the label {self.label!r:.60} in the column {column!r} for {self.path}, "
            f"whose folder is called as another label is; so it is in {self.count} of {counted(self.of, 'such row')}"
        )
        if is_given or not self.is_mixed or self.count < MANY * self.of:
            return f"{what}, and the column counts; {self.fix}"
        raise InputError(f"{what}; {self.fix}; if the labels are right, --data.label_column {column} says so")


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
    same: dict[str, Kind] = {label: likeness(label) for _, label in counts}
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
        table = Counter[tuple[Kind, Kind]]()
        for one in named:
            table[kinds[at[one]], same[one[1]]] += counts[one]
        wrongs = sum(counts[one] for one in wrong)
        found.append(Differing(*first[pair], pair[1], at[pair], wrongs, of, _is_mixed(table)))
    return min(found, key=lambda one: one.count, default=None)


def _is_mixed(counts: Counter[tuple[Kind, Kind]]) -> bool:
    """Tell whether a column may have been sorted or moved alone, which keeps its counts.

    Then a label has as many rows as the folder called so; or about as many where some rows came or went, and both agree
    hardly more than by chance. Corrected labels agree with most folders, or take images from one class to another.

    Args:
        counts: rows of each folder and label, by what equals for all spellings of one.
    """
    total = counts.total()
    folders, labels = Counter[Kind](), Counter[Kind]()
    for (folder, label), count in counts.items():
        folders[folder] += count
        labels[label] += count
    if all(kind in PLACES for kind in (*folders, *labels)):
        return False
    agree = sum(count for (folder, label), count in counts.items() if folder == label) / total
    by_chance = sum(count * labels[kind] for kind, count in folders.items()) / total**2
    more = sum(max(0, labels[kind] - folders[kind]) for kind in labels)
    is_by_chance = agree - by_chance < AGREEING * (1 - by_chance)
    return more == 0 or (is_by_chance and more < ONE_SIDED * (1 - agree) * total)


def _at(folder: str, place: int) -> str:
    parts: Sequence[str] = folder.split("/")
    return parts[place] if place < len(parts) else ""


def _is_name(label: str) -> bool:
    return len(label) > 1 and NUMBER.fullmatch(label) is None and split_alone(label) is None
