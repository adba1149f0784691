"""Names that folders and files of training, validation and test images go by."""

import re
from collections.abc import Iterable
from pathlib import Path

from vit_lightning.data.images import is_hidden
from vit_lightning.errors import InputError

SPLITS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
SPLIT_OF = {name: split for split, names in SPLITS.items() for name in names}
SHORT = {
    **{"tr": "train", "trn": "train", "va": "val"},
    **{"ts": "test", "te": "test", "tst": "test", "holdout": "test", "heldout": "test"},
}
"""Words that are splits beside others alone, as in a column: a folder tr may hold Turkish."""
BOTH = {"trainval": "train", "restval": "train"}
"""Words in tables for validation images that train: COCO's of Karpathy and Pascal VOC's."""
CELLS = SPLIT_OF | SHORT | BOTH
"""The split that a cell of a table stands for."""
COUNTED = re.compile(r"(.+)-(\d+)-of-(\d+)")
"""Names of files that say how many there are."""
COPY = re.compile(r"[ _-]*(\(\d+\)|copy|old|backup|bak|new)$", re.IGNORECASE)
"""Ends of the names of copies."""
KNOWN = ", ".join(SPLIT_OF)


def split_folders(root: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the folder of each split in a folder, and the names of the other folders there.

    Raises:
        InputError: naming two folders for one split.
    """
    folders = sorted(path for path in _entries(root) if path.is_dir())
    found = _by_split((path, path.name.lower()) for path in folders)
    one = {split: paths[0] for split, paths in found.items()}
    return one, [path.name for path in folders if path not in one.values()]


def split_files(root: Path, ending: str) -> tuple[dict[str, list[Path]], list[str]]:
    """Return the files of each split in a folder, and the names of other files with that ending and of their folders.

    They are named as train*.parquet is, or lie in a folder train.

    Raises:
        InputError: if one split has two names, or files that may be one set in two writings.
    """
    entries = sorted(_entries(root))
    files = [path for path in entries if path.name.endswith(ending) and path.is_file()]
    named = [(path, _split_name(path.name)) for path in files]
    for folder in entries:
        if folder.name.lower() in SPLIT_OF and folder.is_dir():
            named += [(path, f"{folder.name}/") for path in sorted(folder.glob(f"*{ending}"))]
    others = [path.name for path, name in named if _first_word(name) not in SPLIT_OF]
    others += [f"{folder.name}/" for folder in entries if _is_other(folder, ending)]
    found = _by_split(named)
    _check_writings(named)
    return found, others


def _entries(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if not is_hidden(path.name)] if root.is_dir() else []


def _is_other(folder: Path, ending: str) -> bool:
    """Tell whether a folder holds files, but those of no split; the folder data is looked at by itself."""
    return folder.name.lower() not in (*SPLIT_OF, "data") and folder.is_dir() and any(folder.glob(f"*{ending}"))


def _by_split(named: Iterable[tuple[Path, str]]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    names: dict[str, str] = {}
    for path, name in named:
        split = SPLIT_OF.get(name if path.is_dir() else _first_word(name))
        if split is None:
            continue
        found.setdefault(split, []).append(path)
        first = found[split][0]
        if names.setdefault(split, name) != name or (path.is_dir() and path != first):
            raise InputError(f"{first} and {path} are both named as {split} data are; keep one, or rename it")
    return found


def _check_writings(named: Iterable[tuple[Path, str]]) -> None:
    """Refuse files of one split in one folder that may be one set in two writings, as train and train_old may.

    Those of one writing differ in their numbers alone, as train-0 and train-1 do. In a folder train they may be called
    anything else, but not as copies of each other are.
    """
    series: dict[tuple[Path, str | None], list[Path]] = {}
    for path, name in named:
        if path.is_file():
            series.setdefault((path.parent, SPLIT_OF.get(_first_word(name))), []).append(path)
    for (_, split), files in series.items():
        for path in files if split else ():
            differ = _form(path) != _form(files[0])
            original = path.with_stem(COPY.sub("", path.stem))
            if (differ and _is_of_set(path, files[0])) or (original != path and original in files):
                other = original if original != path and original in files else files[0]
                raise InputError(
                    f"{other} and {path} may be two writings of one set; remove one, or move the files of the set "
                    f"into a folder {other.parent / split}"
                )


def _form(path: Path) -> str:
    """Return a file's name without its numbers."""
    counted = COUNTED.match(path.name)
    return f"{counted[1]}-of" if counted else re.sub(r"\d+", "#", path.name)


def _is_of_set(*paths: Path) -> bool:
    """Tell whether a file is named as that of a split, or says how many there are as another does not."""
    return any(_first_word(path.name) in SPLIT_OF for path in paths) or len({*map(_is_counted, paths)}) > 1


def _is_counted(path: Path) -> bool:
    return COUNTED.match(path.name) is not None


def check_counted(files: Iterable[Path]) -> None:
    """Refuse files such as train-00000-of-00002.parquet that are too few, or left over from another set.

    Raises:
        InputError: naming one of the files, and what is missing or too many.
    """
    counted = [(path, match) for path in files if (match := COUNTED.match(path.name))]
    found: dict[Path, tuple[Path, int]] = {}
    numbers: dict[Path, dict[int, Path]] = {}
    for path, match in counted:
        series, total = path.parent / match[1], int(match[3])
        first, count = found.setdefault(series, (path, total))
        if total != count:
            raise InputError(
                f"{first} is one of {count} files and {path} one of {total}; remove those of the other set"
            )
        other = numbers.setdefault(series, {}).setdefault(int(match[2]), path)
        if other != path:
            raise InputError(f"{other} and {path} are both file {int(match[2])} of {total}; remove one")
    for series, (first, count) in found.items():
        if lacking := sorted(set(range(count)) - numbers[series].keys()):
            raise InputError(
                f"{first} is one of {count} files, of which {len(lacking)} are missing, such as number {lacking[0]}; "
                "fetch them, or rename what is there"
            )


def _split_name(name: str) -> str:
    """Return what Hugging Face calls the split of a file train_extra-00000-of-00001.parquet, else the first word."""
    counted = COUNTED.match(name)
    return counted[1] if counted else _first_word(name)


def _first_word(name: str) -> str:
    word = re.match("[a-z]*", name.lower())
    return word[0] if word else ""
