"""Splits that data may state where they are not read: columns of flags, folders in paths, and lists beside folders."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from datamodules.reading.folder_names import IMAGE_WORDS, split_alone, words_of
from datamodules.reading.splits import SPLIT_OF, SPLITS

TRUE = frozenset({"true", "1", "yes", "t", "y"})
FALSE = frozenset({"false", "0", "no", "f", "n"})
NUMBERED = frozenset({"split", "splits", "subset", "partition", "set", "dataset", "phase", "datasplit"})
"""Words in names of columns whose numbers may stand for splits; those of folds stand for others."""
LISTS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet")


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
