"""Folders in paths beside labels, where a class map calls either otherwise."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from datamodules.reading import labelled_folders
from datamodules.reading.label_text import NUMBER, whole_number
from datamodules.reading.labelled_folders import Differing

ORDER = "see whether --data.class_map lists the classes in the order of the numbers"
MOST = 0.9
"""Share of a number's images in one folder from which on they belong together."""


def differing(
    rows: Iterable[tuple[str, str]], renamed: Mapping[str, str], by_place: Mapping[str, str] | None = None
) -> Differing | None:
    """Return the rows whose image lies in a folder that is called as another class is.

    Args:
        rows: the path and the label of each row; an empty label is not told.
        renamed: the class of each label, and of each folder with a name, that a class map calls otherwise.
        by_place: the class of each number, by a class map that lists them.
    """
    if by_place:
        return _out_of_order(list(rows), by_place)
    if not renamed:
        return labelled_folders.differing(rows)
    rows = list(rows)
    folders = {label: name for label, name in renamed.items() if not NUMBER.fullmatch(label)}
    found = labelled_folders.differing(
        (_renamed(path, folders) if folders else path, renamed.get(label, label)) for path, label in rows
    )
    return None if found is None else found._replace(path=rows[found.row - 1][0])


def _out_of_order(rows: Sequence[tuple[str, str]], by_place: Mapping[str, str]) -> Differing | None:
    """Return the rows whose number stands for another class than the folder of their image is called after.

    Numbers that a list lacks, or that may count from 1, are other errors.
    """
    numbers = {label: whole_number(label) for _, label in rows if label}
    known = {*numbers.values()}
    if not known <= by_place.keys() or ("1" in known and "0" not in known):
        return labelled_folders.differing(rows)
    named = [(path, by_place[numbers[label]] if label else "") for path, label in rows]
    found = labelled_folders.differing(named)
    if found is None:
        return None
    label = rows[found.row - 1][1]
    is_mixed = found.is_mixed or (found.count > 2 * (1 - MOST) * found.of and _are_exchanged(named))
    return found._replace(label=f"{label} ({found.label})", is_mixed=is_mixed, fix=ORDER)


def _are_exchanged(rows: Iterable[tuple[str, str]]) -> bool:
    """Tell whether the images of each class lie in one folder, and those of any in that of another."""
    folders: dict[str, Counter[str]] = {}
    for path, label in rows:
        if label:
            folders.setdefault(label, Counter())[path.replace("\\", "/").rpartition("/")[0]] += 1
    first = {label: counts.most_common(1)[0] for label, counts in folders.items()}
    are_apart = len({folder for folder, _ in first.values()}) == len(first)
    return are_apart and all(count >= MOST * folders[label].total() for label, (_, count) in first.items())


def _renamed(path: str, folders: Mapping[str, str]) -> str:
    *parts, file = path.replace("\\", "/").split("/")
    return "/".join([*(folders.get(part, part) for part in parts), file])
