"""Splits that data may state where they are not read: columns of flags, folders in paths, and lists beside folders."""

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from datamodules.reading.folder_names import IMAGE_WORDS, is_image_word, split_alone, words_of
from datamodules.reading.splits import BOTH, SPLIT_OF, SPLITS

TRUE = frozenset({"true", "1", "yes", "t", "y"})
FALSE = frozenset({"false", "0", "no", "f", "n"})
NUMBERED = frozenset({"split", "splits", "subset", "partition", "set", "dataset", "phase", "datasplit"})
"""Words in names of columns whose numbers may stand for splits; those of folds stand for others."""
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


def may_state(column: str) -> bool:
    """Tell whether numbers or flags in a column may state splits, by its name."""
    return _flagged(column) is not None or _is_numbered(column)


def said_of_columns(table: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Say which columns may state splits by numbers or flags.

    Args:
        table: what to call it.
        names: columns of which `may_state` holds.
        rows: their cells, row after row.
    """
    found: dict[str, dict[str, None]] = {name: {} for name in names}
    for cells in rows if names else ():
        for name, cell in zip(names, cells, strict=True):
            if name in found:
                found[name][str(cell).strip()] = None
                if len(found[name]) > len(SPLITS):
                    del found[name]
    said = []
    for name, words in found.items():
        if meant := _meant(name, sorted(words)):
            pairs = ", ".join(f"{word}: {split}" for word, split in meant.items())
            said.append(
                f"{table} has the column {name!r} of {' and '.join(meant)}, which may state each image's split and is "
                f"left alone; if it does, give --data.split_column {shlex.quote(name)} and --data.split_names "
                f"'{{{pairs}}}', or what each stands for; --data.split_column false leaves it alone without this line"
            )
    return said


def said_of_paths(table: str, paths: Iterable[str]) -> str | None:
    """Say that a table lists images in folders that are called as several splits are.

    Args:
        table: what to call it.
        paths: those of the images.
    """
    found: dict[int, dict[str, str]] = {}
    for path in paths:
        for place, split in _splits_in(path.replace("\\", "/").rpartition("/")[0]):
            found.setdefault(place, {}).setdefault(split, path)
    several = next((some for some in found.values() if len(some) > 1), None)
    if several is None:
        return None
    return (
        f"{table} lists {' and '.join(list(several.values())[:2])}, in folders called as splits are, and all of its "
        "images train; if the folders are splits, write each row's into a column, for --data.split_column, or give a "
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


def said_of_lists(folder: Path, lacking: Collection[str]) -> str | None:
    """Say which files beside folders of classes may list the images of splits that are drawn.

    They lie in the folder, in a folder of lists there, or beside it where it is called images.

    Args:
        folder: what holds the folders.
        lacking: the splits that are drawn.
    """
    place = folder.resolve()
    around = [folder, place.parent] if is_image_word(place.name) else [folder]
    some = [lists_in(each) for one in around for each in (one, *_folders_of_lists(one))]
    lists = next((each for each in some if not each.keys().isdisjoint(lacking)), {})
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


def _meant(column: str, words: Sequence[str]) -> Mapping[str, str] | None:
    """Return the split that each word of a column may stand for; None where they are no flags or numbers of splits."""
    low = [word.lower() for word in words]
    flagged = _flagged(column)
    if flagged and len(words) == 2 and {*low} & TRUE and {*low} & FALSE:
        other = "test" if flagged == "train" else "train"
        return {word: flagged if word.lower() in TRUE else other for word in words}
    if _is_numbered(column) and len(words) > 1:
        if {*low} <= {"0", "1", "2"} and "0" in low:
            return {word: ("train", "test" if len(words) == 2 else "val", "test")[int(word)] for word in words}
        if {*low} <= TRUE | FALSE and len(words) == 2:
            return {word: "train" if word.lower() in TRUE else "test" for word in words}
    return None


def _flagged(column: str) -> str | None:
    """Return the split that a column is called after, as is_valid and is_training_image are."""
    words = [word for word in words_of(column) if word not in IMAGE_WORDS | {"is", "in", "set", "for"}]
    return SPLIT_OF.get(words[0]) if len(words) == 1 else None


def _is_numbered(column: str) -> bool:
    return bool(NUMBERED & {*words_of(column)})


@lru_cache(maxsize=4096)
def _splits_in(folder: str) -> list[tuple[int, str]]:
    """Return the place and split of each folder around an image that is called as a split is."""
    parts = enumerate(folder.split("/"))
    return [
        (place, split)
        for place, part in parts
        if (split := split_alone(part)) and not SPLIT_OF.keys().isdisjoint(words_of(part))
    ]
