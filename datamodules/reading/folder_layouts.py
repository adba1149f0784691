"""Folders of images that are sorted otherwise than into classes, which would train on something else than classes."""

import os
import re
from collections.abc import Sequence
from itertools import chain, combinations
from pathlib import Path

from datamodules.reading.image_files import is_image
from datamodules.reading.splits import SPLIT_OF
from vit_lightning.data.images import is_hidden
from vit_lightning.errors import InputError

ONE_EACH = "ImageFolder reads a folder for each class, as train/cat/1.jpg"
FOLD = re.compile(r"fold[ _-]?\d+", re.IGNORECASE)
PARTS = ("masks", "mask", "labels", "annotations", "image")
"""What lies beside images, as folders of images too."""


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
        _check_parts(folder, classes)
    elif classes and set(map(str.lower, classes)) <= SPLIT_OF.keys():
        raise InputError(f"{folder} holds the folder {classes[0]}, which is a split's; give --data.root {folder}")
    _check_nested(folder, classes, is_flat)


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


def _check_parts(folder: Path, classes: Sequence[str]) -> None:
    """Refuse folders such as asl_train and asl_test, fold1 and fold2, or images and masks."""
    parts: dict[str, dict[str, str]] = {}
    for name in classes:
        words = re.findall("[a-z]+", name.lower())
        for word in {words[0], words[-1]} & SPLIT_OF.keys() if words else ():
            rest = re.sub("[^a-z]", "", name.lower().replace(word, "", 1))
            parts.setdefault(rest, {}).setdefault(SPLIT_OF[word], name)
    named = next((list(found.values()) for found in parts.values() if len(found) > 1), [])
    if all(map(FOLD.fullmatch, classes)) or {*map(str.lower, classes)} <= {"images", *PARTS}:
        named = list(classes[:2])
    if named:
        raise InputError(
            f"{folder} holds the folders {named[0]} and {named[1]}, which are called as parts of a set are, not as "
            f"classes; {ONE_EACH}; move or link what is to train to {folder / 'train'}, by class"
        )


def _check_nested(folder: Path, classes: Sequence[str], is_flat: bool) -> None:
    """Refuse folders around those of classes, which would be one class each."""
    below = {name: _folders_alone(folder / name) for name in classes}
    for name, inside in below.items():
        if same := sorted(inside & (below.keys() - {name})):
            raise InputError(
                f"{folder} holds the folders {same[0]} and {name}/{same[0]}: if both are one class, move the images of "
                f"the second to the first; else rename one"
            )
    around = [name for name, inside in below.items() if len(inside) > 1]
    if not is_flat and len(classes) == 1 and around:
        inside = sorted(below[around[0]])
        raise InputError(
            f"{folder} holds one folder, {around[0]}, and {inside[0]} and {inside[1]} in it; move them up if they are "
            f"the classes, as {folder.name}/{inside[0]}"
        )
    for one, other in combinations(around, 2) if is_flat else ():
        if len(same := sorted(below[one] & below[other])) > 1:
            raise InputError(
                f"{folder} holds {one} and {other}, each of which holds {same[0]} and {same[1]}: if these are the "
                f"classes, call one folder around them train and the others val and test, or give --data.root "
                f"{folder / one}; if {one} and {other} are the classes, move them into a folder train"
            )


def _folders_alone(folder: Path) -> set[str]:
    """Return the names of the folders in one; none where images lie beside them."""
    found = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_image(entry.name):
                return set()
            if not is_hidden(entry.name) and entry.is_dir():
                found.add(entry.name)
    return found


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
