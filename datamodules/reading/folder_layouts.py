"""Folders of images that are sorted otherwise than into classes, which would train on something else than classes."""

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from datamodules.reading.splits import SPLIT_OF
from vit_lightning.errors import InputError

ONE_EACH = "ImageFolder reads a folder for each class, as train/cat/1.jpg"


def check(folder: Path, classes: Sequence[str], is_flat: bool) -> None:
    """Refuse folders whose names or contents say that they are no classes.

    Args:
        folder: what holds them.
        classes: their names.
        is_flat: whether the folder is the root, without folders for splits.

    Raises:
        InputError: saying what the folder holds, and what to do.
    """
    _check_detection(folder)
    if is_flat:
        _check_splits_as_classes(folder, classes)
        _check_splits_in_classes(folder, classes)
    elif classes and set(map(str.lower, classes)) <= SPLIT_OF.keys():
        raise InputError(f"{folder} holds the folder {classes[0]}, which is a split's; give --data.root {folder}")


def beside_images(root: Path, folder: Path, others: Sequence[str]) -> str:
    """Say what a folder may be that has a split's name, holds images itself, and lies beside other folders."""
    if folder == root or not others:
        return ""
    return (
        f"; {folder.name} holds no folders and lies beside {others[0]}: if both are classes, move all classes into a "
        f"folder train, as train/{folder.name} and train/{others[0]}"
    )


def _check_detection(folder: Path) -> None:
    """Refuse images with files of boxes beside them."""
    if (folder / "JPEGImages").is_dir() and (folder / "Annotations").is_dir():
        raise InputError(f"{folder} holds JPEGImages and Annotations, as Pascal VOC has them; {ONE_EACH}")
    if not ((folder / "images").is_dir() and (folder / "labels").is_dir()):
        return
    texts = chain((folder / "labels").glob("*.txt"), (folder / "labels").glob("*/*.txt"))
    if next(texts, None):
        raise InputError(f"{folder} holds images and labels/*.txt, the boxes of YOLO's detection; {ONE_EACH}")


def _check_splits_as_classes(folder: Path, classes: Sequence[str]) -> None:
    """Refuse classes called train2017 and val2017, or train_images and test_images."""
    words = ((name, re.match("[a-z]*", name.lower())) for name in classes)
    found = {name: SPLIT_OF[word[0]] for name, word in words if word is not None and word[0] in SPLIT_OF}
    if "train" in found.values() and len(set(found.values())) > 1:
        named = " and ".join(found)
        raise InputError(
            f"{folder} holds the folders {named}, which are called as splits are, not as classes; {ONE_EACH}; for "
            "labels in a table give --data Manifest"
        )


def _check_splits_in_classes(folder: Path, classes: Sequence[str]) -> None:
    """Refuse CLASS/train/1.jpg, whose splits would be mixed."""
    for name in classes:
        inside = {path.name for path in (folder / name).iterdir() if path.name.lower() in SPLIT_OF and path.is_dir()}
        train = next((each for each in sorted(inside) if SPLIT_OF[each.lower()] == "train"), None)
        if train:
            raise InputError(
                f"{folder} has the splits inside its classes, as {name}/{train}; move them out, as {train}/{name}, or "
                "rename them if they are none"
            )
