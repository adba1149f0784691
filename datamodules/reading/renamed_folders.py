"""Folders in paths beside labels, where a class map calls either otherwise."""

from collections.abc import Iterable, Mapping

from datamodules.reading import labelled_folders
from datamodules.reading.label_text import NUMBER
from datamodules.reading.labelled_folders import Differing


def differing(rows: Iterable[tuple[str, str]], renamed: Mapping[str, str]) -> Differing | None:
    """Return the rows whose image lies in a folder that is called as another class is.

    Args:
        rows: the path and the label of each row; an empty label is not told.
        renamed: the class of each label, and of each folder with a name, that a class map calls otherwise.
    """
    if not renamed:
        return labelled_folders.differing(rows)
    rows = list(rows)
    folders = {label: name for label, name in renamed.items() if not NUMBER.fullmatch(label)}
    found = labelled_folders.differing(
        (_renamed(path, folders) if folders else path, renamed.get(label, label)) for path, label in rows
    )
    return None if found is None else found._replace(path=rows[found.row - 1][0])


def _renamed(path: str, folders: Mapping[str, str]) -> str:
    *parts, file = path.replace("\\", "/").split("/")
    return "/".join([*(folders.get(part, part) for part in parts), file])
