"""Splits that data may state where they are not read: in paths, and in lists beside folders."""

import re
import shlex
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from datamodules.reading.folder_names import split_alone, words_of
from datamodules.reading.splits import SPLIT_OF, SPLITS

IN_NAMES = re.compile(rf"({'|'.join(SPLIT_OF)})[-_ ]*\d[^/]*", re.IGNORECASE)
"""Names of images that begin with a split and count on, as train_00001.jpg does."""
LISTS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet")


def said_of_paths(table: str, paths: Iterable[str]) -> str | None:
    """Say that a table lists images in folders that are called as several splits are, or that all are named so.

    Args:
        table: what to call it.
        paths: those of the images.
    """
    found: dict[int, dict[str, str]] = {}
    names: dict[str, str] | None = {}
    for path in paths:
        folder, _, name = path.replace("\\", "/").rpartition("/")
        for place, split in _splits_in(folder):
            found.setdefault(place, {}).setdefault(split, path)
        if names is not None:
            match = IN_NAMES.fullmatch(name)
            names = names if match else None
            if match and names is not None:
                names.setdefault(SPLIT_OF[match[1].lower()], path)
    several, where = next((some for some in found.values() if len(some) > 1), None), "folders"
    if several is None and names and "train" in names:
        several, where = names, "names"
    if several is None or len(several) == 1:
        return None
    are = "in folders called" if where == "folders" else "whose names begin"
    return (
        f"{table} lists {' and '.join(list(several.values())[:2])}, {are} as splits are, and all of its "
        f"images train; if the {where} are splits, write each row's into a column, for --data.split_column, or give a "
        "table for each split; --data.split_column false takes all rows without this line"
    )


def said_of_lists(folder: Path, lacking: Collection[str]) -> str | None:
    """Say which files beside folders of classes may list the images of splits that are drawn.

    Args:
        folder: what holds the folders.
        lacking: the splits that are drawn.
    """
    named = {path: split_alone(path.stem) for path in sorted(folder.iterdir()) if path.suffix.lower() in LISTS}
    lists = {split: path for path, split in reversed(named.items()) if split and path.is_file()}
    found = [lists[split] for split in SPLITS if split in lacking and split in lists]
    if not found:
        return None
    table = ""
    if "train" in lists and all(path.suffix != ".txt" for path in lists.values()):
        flags = " ".join(f"--data.{split} {shlex.quote(str(lists[split]))}" for split in SPLITS if split in lists)
        table = f"give --data Manifest {flags} if they have a path and a label for each image, else "
    return (
        f"{' and '.join(map(str, found))} may list a split's images and {'are' if found[1:] else 'is'} not read; "
        f"another split is drawn; for theirs {table}write a CSV of the columns file and split for --data.split_file"
    )


@lru_cache(maxsize=4096)
def _splits_in(folder: str) -> list[tuple[int, str]]:
    """Return the place and split of each folder around an image that is called as a split is."""
    parts = enumerate(folder.split("/"))
    return [
        (place, split)
        for place, part in parts
        if (split := split_alone(part)) and not SPLIT_OF.keys().isdisjoint(words_of(part))
    ]
