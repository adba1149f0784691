"""Folders of images that are sorted otherwise than into classes, which would train on something else than classes."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

from datamodules.reading import folder_names, folder_sides
from datamodules.reading.image_files import is_image
from datamodules.reading.label_text import spelled_twice
from datamodules.reading.splits import SPLIT_OF
from vit_lightning.data.images import is_hidden
from vit_lightning.errors import InputError, listing
from vit_lightning.runs.folders import ENVIRONMENT, is_run

DEEPEST = 16
"""Folders around those of classes that are looked into, since links may lead round."""
NUMBERED = (r"(.*[^ ._()-])[ ._(-]+[0-9]+[)]?", r"(.*[^0-9 ._()-])[0-9]+")
"""Names of images that say their class before a number: american_bulldog_100, or cat7."""
TABLES = ("metadata.csv", "metadata.jsonl", "metadata.parquet", "_classes.csv", "labels.csv", "train.csv")
"""Tables of labels beside images, as Hugging Face's imagefolder has them."""
PLAIN = re.compile(r"""[^,"'\\\n/]+""")
"""Names that a table of commas can hold as they are."""
WRITES_LIST = (
    'import json, os; print(json.dumps([name for name in sorted(os.listdir()) if name[0] != "." and '
    "any(files for _, _, files in os.walk(name, followlinks=True))]))"
)
"""Program that lists the folders with files as JSON, which holds names that no line does, as #1."""
ONE_EACH = "ImageFolder reads a folder for each class, as train/cat/1.jpg"
IF_CLASSES = "if they are the classes, list all classes in --data.class_map"


def check(folder: Path, classes: Sequence[str], is_flat: bool, known: Collection[str] = ()) -> None:
    """Refuse folders whose names or contents say that they are no classes.

    Args:
        folder: what holds them.
        classes: their names.
        is_flat: whether the folder is the root, without folders for splits.
        known: names of classes that the user gave, which are classes whatever they are called.

    Raises:
        InputError: saying what the folder holds, and what to do.
    """
    _check_detection(folder)
    are_given = bool(classes) and set(classes) <= set(known)
    if not are_given:
        _check_names(folder, classes, is_flat)
    if is_flat:
        _check_splits_in_classes(folder, classes)
    if not are_given:
        below = {name: inside(folder, name) for name in classes}
        _check_initials(folder, classes)
        _check_nested(folder, below, is_flat)
        if is_flat:
            _check_siblings(folder, below)


class Inside(NamedTuple):
    """The folders in a class that holds nothing else."""

    place: str
    """What holds them: the class, or the last of the folders in it that lie alone, as cat/images."""
    names: set[str]


def inside(folder: Path, name: str) -> Inside:
    """Return the folders in a class; none where images lie beside them."""
    found = Inside(name, _folders_alone(folder / name))
    for _ in range(DEEPEST):
        deeper = f"{found.place}/{next(iter(found.names), '')}"
        if len(found.names) != 1 or not (names := _folders_alone(folder / deeper)):
            break
        found = Inside(deeper, names)
    return found


def taken_together(folder: Path, classes: Sequence[str], known: Collection[str] = ()) -> str | None:
    """Say which folders in classes are read as images of these, and may be the classes; None if there are none.

    Args:
        folder: what holds the classes.
        classes: their names.
        known: names of classes that the user gave.
    """
    below = [] if set(classes) <= set(known) else [inside(folder, name) for name in classes]
    holders = Counter(name for each in below for name in each.names)
    found = [
        each
        for each in below
        if len(each.names) > 1
        and (any(map(folder_names.may_be_class, each.names)) or sum(holders[name] > 1 for name in each.names) > 1)
    ]
    if not found:
        return None
    shown = [f"{listing(sorted(each.names), most=4)} in {each.place}" for each in found]
    return (
        f"{folder}: all images in {listing(shown, most=3, longest=160)} are read as one class each, called as the "
        f"outer folder; if the inner folders are the classes, move them into one folder, or give --data.root "
        f"{folder / found[0].place}; if the outer ones are, list all of these in --data.class_map"
    )


def beside_images(root: Path, folder: Path, others: Sequence[str]) -> str:
    """Say what a folder may be that has a split's name, holds images itself, and lies beside other folders."""
    if folder == root or not others:
        return ""
    return (
        f"; {folder.name} holds no folders and lies beside {others[0]}: if both are classes, move all classes into a "
        f"folder train, as train/{folder.name} and train/{others[0]}, or list all classes in --data.class_map"
    )


def classes_in_names(folder: Path) -> str:
    """Say how to read images whose names begin with their classes, as cat.0.jpg does; nothing where they do not."""
    names = [name for name in (os.listdir(folder) if folder.is_dir() else ()) if is_image(name)]
    endings = sorted({os.path.splitext(name)[1] for name in names})
    form = next((form for form in NUMBERED if all(re.fullmatch(form, os.path.splitext(name)[0]) for name in names)), "")
    found = [re.fullmatch(form, os.path.splitext(name)[0]) for name in names] if form else []
    classes = sorted({match[1] for match in found if match})
    if not 1 < len(classes) <= len(names) // 2 or not all(map(PLAIN.fullmatch, names)):
        return ""
    if pair := spelled_twice(classes):
        return f"; the names of its images begin with {pair[0]} and {pair[1]}, which may be one class; rename these"
    table, place = (shlex.quote(str(path)) for path in (folder.with_name(f"{folder.name}.csv"), folder))
    ending = "|".join(ending.removeprefix(".") for ending in endings)
    return (
        f"; the names of its images begin with {' and '.join(classes[:2])}: if these are classes, write a table by "
        rf"(echo path,label; ls {place} | LC_ALL=C sed -nE 's/^{form}[.]({ending})$/&,\1/p') > {table}, and give "
        f"--data Manifest --data.train {table} --data.image_folder {place}"
    )


def listed_classes(folder: Path, unknown: Sequence[str]) -> str:
    """Say that the classes of a split's images stand in a list beside them, as Tiny ImageNet has it; else nothing.

    Args:
        folder: that of the split.
        unknown: folders in it that training images lack.
    """
    lists = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in (".txt", ".csv", ".tsv"))
    if not lists or not all(map(folder_names.is_image_word, unknown)):
        return ""
    return (
        f"{folder} holds the folder {unknown[0]} and {lists[0]}, which may list the class of each image; move each "
        f"image into a folder called as its class, as {folder.name}/<class>"
    )


def labels_in_table(folder: Path) -> str:
    """Say how to read a folder whose labels stand in a table; nothing where there is none."""
    tables = [name for name in TABLES if (folder / name).is_file()]
    return f"; for the labels in {tables[0]} give --data Manifest --data.train {folder / tables[0]}" if tables else ""


def holds_runs(folder: Path) -> bool:
    """Tell whether a folder holds what training wrote, as runs/default/0 is, and no images beside it."""
    return any(
        _is_of_run(folder / one) or any(_is_of_run(folder / one / other) for other in _folders_alone(folder / one))
        for one in _folders_alone(folder)
    )


def _is_of_run(folder: Path) -> bool:
    return (folder / ENVIRONMENT).is_file() and is_run(folder)


def _check_detection(folder: Path) -> None:
    """Refuse images with files of boxes beside them."""
    if (folder / "JPEGImages").is_dir() and (folder / "Annotations").is_dir():
        raise InputError(f"{folder} holds JPEGImages and Annotations, as Pascal VOC has them; {ONE_EACH}")
    if not ((folder / "images").is_dir() and (folder / "labels").is_dir()):
        return
    texts = chain((folder / "labels").glob("*.txt"), (folder / "labels").glob("*/*.txt"))
    classes = _folders_alone(folder / "images")
    if len(classes) > 1 and not any(map(folder_names.split_alone, classes)) and next(texts, None):
        raise InputError(
            f"{folder} holds images and labels, and in images folders such as {min(classes)}; give --data.root "
            f"{shlex.quote(str(folder / 'images'))} if these are the classes"
        )
    if next(texts, None):
        raise InputError(f"{folder} holds images and labels/*.txt, the boxes of YOLO's detection; {ONE_EACH}")


def _check_names(folder: Path, classes: Sequence[str], is_flat: bool) -> None:
    """Refuse folders that are called as parts of a set are, as trainA and trainB, or images and masks."""
    if not is_flat and classes and set(map(str.lower, classes)) <= SPLIT_OF.keys():
        raise InputError(
            f"{folder} holds the folder {classes[0]}, which is a split's; give --data.root {folder}; {IF_CLASSES}"
        )
    named = folder_names.parts_of_a_set(classes)
    if named and not (folder_names.may_be_kinds(named) and folder_sides.lies_apart(folder, named[1], classes)):
        raise InputError(
            f"{folder} holds the folders {named[0]} and {named[1]}, which are called as parts of a set are, not as "
            f"classes; {ONE_EACH}; for labels in a table give --data Manifest; {IF_CLASSES}"
        )
    if unlabelled := folder_names.unlabelled_beside(classes):
        raise InputError(
            f"{folder} holds the folder {unlabelled}, which is called as images without a class are; move it out of "
            f"{folder}; if it is a class, list all classes in --data.class_map"
        )
    folder_sides.check(folder, classes)


def _check_initials(folder: Path, classes: Sequence[str]) -> None:
    """Refuse folders of letters that hold those of classes, as a/abbey and b/badlands."""
    if len(classes) < 2 or any(len(name) > 1 for name in classes):
        return
    inner = {name: _folders_alone(folder / name) for name in classes}
    if all(found and folder_names.is_initial_of(name, found) for name, found in inner.items()):
        one, other = (f"{name}/{min(inner[name])}" for name in classes[:2])
        raise InputError(
            f"{folder} holds folders of letters, and in them folders that begin with these, such as {one} and {other}; "
            f"move the inner ones up if they are the classes; {IF_CLASSES.replace('they', 'the letters')}"
        )


def _check_nested(folder: Path, below: Mapping[str, Inside], is_flat: bool) -> None:
    """Refuse folders around those of classes, which would be one class each.

    Args:
        folder: what holds them.
        below: the folders in each class.
        is_flat: whether the folder is the root.
    """
    for name, (place, inner) in below.items():
        # classes that hold the same folders, as 0/1, 0/2, 1/1 and 1/2, are divided alike
        if same := sorted(other for other in inner & (below.keys() - {name}) if not inner & below[other].names):
            raise InputError(
                f"{folder} holds the folders {same[0]} and {place}/{same[0]}: if both are one class, move the images "
                f"of the second to the first; else rename one, or list all classes in --data.class_map"
            )
    around = [each for each in below.values() if len(each.names) > 1]
    if not is_flat and len(below) == 1 and around:
        inner, place = sorted(around[0].names), folder / around[0].place
        root = "" if folder_names.split_alone(folder.name) else f", or give --data.root {shlex.quote(str(place))}"
        raise InputError(
            f"{folder} holds one folder, {around[0].place}, and {inner[0]} and {inner[1]} in it; move them up if they "
            f"are the classes, as {folder.name}/{inner[0]}{root}"
        )


def _check_siblings(folder: Path, below: Mapping[str, Inside]) -> None:
    """Refuse folders that hold folders of the same names, which then are the classes of two sets.

    One such name alone, or names that are numbers, may be parts of each class, as cat/2019 and dog/2019; not numbers
    that hold the same folders in turn, as fog/1/cat and blur/1/cat do. Images and masks in each are no classes;
    `check_inside` looks at them.
    """
    deeper: dict[str, Inside] = {}
    for one, other in combinations(below, 2):
        same, either = below[one].names & below[other].names, below[one].names | below[other].names
        if folder_names.are_numbered(same, either):
            for name in (one, other):
                place = f"{below[name].place}/{min(same)}"
                deeper.setdefault(name, Inside(place, _folders_alone(folder / place)))
            if _are_of_two_sets(deeper[one].names, deeper[other].names):
                raise _two_sets(folder, one, other, deeper, below)
        elif _are_of_two_sets(below[one].names, below[other].names):
            raise _two_sets(folder, one, other, below, below)


def _are_of_two_sets(some: set[str], others: set[str]) -> bool:
    """Tell whether the folders in two may be the classes of two sets."""
    same, either = some & others, some | others
    if folder_names.are_numbered(same, either) or all(map(folder_names.is_image_or_side, same)):
        return False
    return len(same) > 1 or (len(either) > 1 and any(map(folder_names.may_be_class, same)))


def _two_sets(folder: Path, one: str, other: str, held: Mapping[str, Inside], classes: Collection[str]) -> InputError:
    """Return the error that names two folders and what both hold."""
    root = folder / held[one].place
    around = "" if held is classes else f"{root.name}/"
    shown = " and ".join(f"{around}{name}" for name in sorted(held[one].names & held[other].names)[:2])
    return InputError(
        f"{folder} holds {one} and {other}, each of which holds {shown}: if these are the classes, call one "
        f"folder around them train and the others val and test, or give --data.root {root}; if {one} "
        f"and {other} are the classes, list all classes in {_list_of(folder, classes)}"
    )


def _list_of(folder: Path, classes: Collection[str]) -> str:
    """Return the flag that takes a list of classes, and the command that writes the list.

    It is one of lines where these can be nothing else, and no folder is empty.
    """
    is_plain = {*classes} == _folders_alone(folder) and all(name[0].isalpha() for name in classes)
    ending, command = ("txt", "LC_ALL=C ls -d -- */ | tr -d /") if is_plain else ("json", f"python -c '{WRITES_LIST}'")
    place, table = (shlex.quote(str(path)) for path in (folder, folder.with_name(f"{folder.name}.{ending}")))
    return f"--data.class_map {table}, written by (cd {place} && {command}) > {table}"


def _folders_alone(folder: Path) -> set[str]:
    """Return the names of the folders in one; none where images lie beside them."""
    found = set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_image(entry.name):
                    return set()
                if not is_hidden(entry.name) and entry.is_dir():
                    found.add(entry.name)
    except OSError:  # it may not be read
        return set()
    return found


def _check_splits_in_classes(folder: Path, classes: Sequence[str]) -> None:
    """Refuse CLASS/train/1.jpg, whose splits would be mixed."""
    for name in classes:
        inside = sorted(path.name for path in (folder / name).iterdir() if path.is_dir())
        train = next((each for each in inside if folder_names.split_alone(each) == "train"), None)
        if train:
            raise InputError(
                f"{folder} has the splits inside its classes, as {name}/{train}; move them out, as {train}/{name}, or "
                "rename them if they are none"
            )
