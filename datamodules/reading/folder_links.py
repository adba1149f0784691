"""Links among folders of classes, by which one image would count for two classes or train what is scored."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from vit_lightning.data.images import is_hidden
from vit_lightning.errors import InputError


class Place(NamedTuple):
    """A folder of a class in a split."""

    split: str
    name: str


def check(folders: Mapping[Place, Path]) -> None:
    """Refuse a folder, or a file right in it, that links bring into two classes, or into training and another split.

    Args:
        folders: where the images of each class lie, by split.

    Raises:
        InputError: naming both.
    """
    seen: dict[str, tuple[Place, Path]] = {}
    for place, folder in folders.items():
        _add(seen, os.path.realpath(folder), place, folder)
    for place, folder in folders.items():
        for entry in _links(folder):
            target = os.path.normpath(os.path.join(os.path.realpath(folder), os.readlink(entry)))
            source = seen.get(os.path.dirname(target))
            if source is not None and _clash(source[0], place):
                raise _one(Path(entry), source[1] / os.path.basename(target))
            _add(seen, target, place, Path(entry))


def _add(seen: dict[str, tuple[Place, Path]], target: str, place: Place, path: Path) -> None:
    other, first = seen.setdefault(target, (place, path))
    if _clash(other, place):
        raise _one(first, path)


def _clash(one: Place, other: Place) -> bool:
    """Tell whether what two folders share counts twice; validation and test may be one set."""
    return one.name != other.name or (one.split != other.split and "train" in (one.split, other.split))


def _one(first: Path, second: Path) -> InputError:
    return InputError(f"{first} and {second} are one through a link; keep it in one class of one split")


def _links(folder: Path) -> Iterable[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.path for entry in entries if entry.is_symlink() and not is_hidden(entry.name))
