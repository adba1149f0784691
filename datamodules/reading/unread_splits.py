"""Splits that data may state where they are not read: in paths, and in lists beside folders and tables."""

import os
import re
import shlex
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from datamodules.reading.folder_names import IMAGE_WORDS, is_image_word, split_alone, words_of
from datamodules.reading.splits import BOTH, SPLIT_OF, SPLITS

IN_NAMES = re.compile(rf"({'|'.join(SPLIT_OF)})[-_ ]*\d[^/]*", re.IGNORECASE)
"""Names of images that begin with a split and count on, as train_00001.jpg does."""
LISTS = (".csv", ".tsv", ".txt", ".lst", ".list", ".json", ".jsonl", ".parquet")
WHOLE = frozenset({"split", "splits", "partition", "partitions"})
"""Names of files that state the split of every image."""
LISTING = frozenset({"list", "lists", "filelist", "file", "files", "filename", "filenames", "ids", "paths"})
"""Words beside that of a split in the name of a file that lists its images, whatever else it says."""
OF_CLASSES = frozenset({"class", "classes", "category", "categories", "synset", "synsets", "wnids"})
FUSED_LIST = re.compile(f"({'|'.join(SPLIT_OF)})(?:image|img|file)?(?:lists?|files|ids)")
"""A split's word and one of a list written together, as in trainlist01."""
LIST_FOLDERS = WHOLE | LISTING | {"meta", "metadata", "label", "labels", "annotation", "annotations", "set", "sets"}
"""Words in the names of folders that hold such files, beside those of splits and images."""


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


def listed_split(name: str) -> str | None:
    """Return the split whose images a file may list by its name, as test_list.txt does; None if it says nothing.

    Lists of training images may hold those for validation as well, as train_val_list.txt does; a list of several
    splits with the test, as train_test_split.txt, counts as the test's.
    """
    stem, ending = os.path.splitext(name)
    if ending.lower() not in LISTS:
        return None
    words = _long_words(stem)
    if words and {*words} <= WHOLE:
        return "test"
    fused = [match[1] for word in words if (match := FUSED_LIST.fullmatch(word))]
    is_list = bool(fused) or not LISTING.isdisjoint(words)
    if not (is_list and OF_CLASSES.isdisjoint(words)) and not split_alone(stem) and {*words} - BOTH.keys():
        return None
    found = {known[word] for known in (SPLIT_OF, BOTH) for word in (*words, *fused) if word in known}
    return next((split for split in ("test", "train", "val") if split in found), None)


def lists_in(folder: Path) -> dict[str, Path]:
    """Return the file in a folder that may list each split's images, the first by name of several."""
    try:
        paths = sorted(path for path in folder.iterdir() if listed_split(path.name) and path.is_file())
    except OSError:  # it is not there, or may not be read
        return {}
    return {split: path for path in reversed(paths) if (split := listed_split(path.name))}


def lists_around(folder: Path, lacking: Collection[str]) -> dict[str, Path]:
    """Return the file that may list each split's images, of those that list one of some splits.

    They lie in the folder, in a folder of lists there, or beside it where it is called images.

    Args:
        folder: what holds the images.
        lacking: the splits that are wanted.
    """
    place = folder.resolve()
    around = [folder, place.parent] if is_image_word(place.name) else [folder]
    some = [lists_in(each) for one in around for each in (one, *_folders_of_lists(one))]
    return next((each for each in some if not each.keys().isdisjoint(lacking)), {})


def said_of_lists(folder: Path, lacking: Collection[str]) -> str | None:
    """Say which files beside folders of classes may list the images of splits that are drawn.

    Args:
        folder: what holds the folders.
        lacking: the splits that are drawn.
    """
    lists = lists_around(folder, lacking)
    found = [lists[split] for split in SPLITS if split in lacking and split in lists]
    if not found:
        return None
    table = ""
    if "train" in lists and not {path.suffix for path in lists.values()} & {".txt", ".lst", ".list"}:
        flags = " ".join(f"--data.{split} {shlex.quote(str(lists[split]))}" for split in SPLITS if split in lists)
        table = f"give --data Manifest {flags} if they have a path and a label for each image, else "
    return (
        f"{' and '.join(map(str, found))} may list a split's images and {'are' if found[1:] else 'is'} not read; "
        f"another split is drawn; for theirs {table}write a CSV of the columns file and split for --data.split_file"
    )


def _folders_of_lists(folder: Path) -> list[Path]:
    """Return the folders in one that are called as those of lists are, as meta, splits and ImageSets."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # it may not be read
        return []
    words = {name: {*_long_words(name)} - IMAGE_WORDS - SPLIT_OF.keys() for name in names}
    return [folder / name for name in names if words[name] and words[name] <= LIST_FOLDERS]


def _long_words(name: str) -> list[str]:
    return [word for word in words_of(name) if len(word) > 1 and not word.isdigit()]


@lru_cache(maxsize=4096)
def _splits_in(folder: str) -> list[tuple[int, str]]:
    """Return the place and split of each folder around an image that is called as a split is."""
    parts = enumerate(folder.split("/"))
    return [
        (place, split)
        for place, part in parts
        if (split := split_alone(part)) and not SPLIT_OF.keys().isdisjoint(words_of(part))
    ]
