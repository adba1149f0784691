"""Links among folders of classes, by which one image would count for two classes or train what is scored."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datamodules.reading.image_files import ImageFiles
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


class Numbered(NamedTuple):
    """The images of a split, and the number that each file has in its file system."""

    images: ImageFiles
    numbers: np.ndarray
    trains: bool


def check(sets: Sequence[Numbered]) -> None:
    """Refuse a file that links of any kind bring into two classes, or into training and another split.

    Args:
        sets: the splits, that of training first.

    Raises:
        InputError: naming both its paths.
    """
    numbers = np.concatenate([one.numbers for one in sets])
    labels = np.concatenate([one.images.labels for one in sets])
    trains = np.repeat([one.trains for one in sets], list(map(len, (one.numbers for one in sets))))
    order = np.argsort(numbers, kind="stable")
    one, other = order[:-1], order[1:]
    known = (labels[one] != IGNORE) & (labels[other] != IGNORE)
    clash = (known & (labels[one] != labels[other])) | (trains[one] != trains[other])
    again = (numbers[one] == numbers[other]) & (numbers[one] != 0)
    paths = _Paths(sets)
    for first, second in zip(one[again & clash].tolist(), other[again & clash].tolist(), strict=True):
        if os.path.samefile(paths[first], paths[second]):  # another file system may give the same number
            raise InputError(
                f"{paths[first]} and {paths[second]} are one through a link; keep it in one class of one split"
            )


def check_other(name: str, folder: Path, train: Path | None) -> None:
    """Refuse to score the folder of the training images, or one around it or in it, as a further one.

    Raises:
        InputError: naming it.
    """
    if train is None:
        return
    ours, theirs = folder.resolve(), train.resolve()
    if ours == theirs or theirs in ours.parents or ours in theirs.parents:
        how = "is" if ours == theirs else "lies in" if theirs in ours.parents else "holds"
        raise InputError(
            f"--data.also {name}: {folder} {how} the folder of the training images, {train}; give images that do not "
            "train"
        )


class _Paths:
    """The paths of the images of some splits, one split after another."""

    def __init__(self, sets: Sequence[Numbered]) -> None:
        self.sets = sets

    def __getitem__(self, place: int) -> str:
        for one in self.sets:
            if place < len(one.images):
                return os.path.join(one.images.root, one.images.keys[place])
            place -= len(one.images)
        raise IndexError
