"""Names that folders and files of training, validation and test images go by."""

import re
from collections.abc import Iterable
from pathlib import Path

from vit_lightning.data.images import is_hidden
from vit_lightning.errors import InputError

SPLITS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
SPLIT_OF = {name: split for split, names in SPLITS.items() for name in names}
COUNTED = re.compile(r"(.+)-(\d+)-of-(\d+)")
"""Names of files that say how many there are."""
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
        InputError: if one split has two names.
    """
    entries = sorted(_entries(root))
    files = [path for path in entries if path.name.endswith(ending) and path.is_file()]
    named = [(path, _split_name(path.name)) for path in files]
    for folder in entries:
        if folder.name.lower() in SPLIT_OF and folder.is_dir():
            named += [(path, f"{folder.name}/") for path in sorted(folder.glob(f"*{ending}"))]
    others = [path.name for path, name in named if _first_word(name) not in SPLIT_OF]
    others += [f"{folder.name}/" for folder in entries if _is_other(folder, ending)]
    return _by_split(named), others


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
