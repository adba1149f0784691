"""Readers for the sets of VTAB that come as image files in folders."""

import json
import lzma
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path

import numpy as np
from torchvision import datasets

from datamodules.reading.damaged_files import read_whole
from datamodules.reading.published import Labelled, PublishedSet, own_folder
from datamodules.vtab import names

PER_CLASS = 30
"""Training images per class of Caltech-101."""


def by_class(folder: Path, classes: Iterable[str]) -> list[tuple[str, int]]:
    """Return class/file and label of every JPEG, sorted; a missing class folder does not shift the labels."""
    return [
        (f"{name}/{file.name}", label)
        for label, name in enumerate(classes)
        for file in sorted((folder / name).glob("*.jpg"))
    ]


def labelled(folder: Path, found: Sequence[tuple[str, int]], key: Callable[[str], str] = str) -> Labelled:
    """Return the set of the files below a folder whose names and labels were found; `key` makes a key of a name."""
    return Labelled(
        [str(folder / name) for name, _ in found], [label for _, label in found], [key(name) for name, _ in found]
    )


def _caltech101(root: Path, split: str) -> Labelled:
    """Choose 30 images of each class for training.

    TensorFlow Datasets draws them from folders in the order in which the file system lists them, so that no two of
    its copies need agree; here the order is that of the names.
    """
    folder = root / "caltech101" / "101_ObjectCategories"
    random = np.random.RandomState(1234)
    chosen = set()
    found = by_class(folder, names.CALTECH101)
    for name in sorted(names.CALTECH101):
        files = [file for file, _ in found if file.startswith(f"{name}/")]
        chosen.update(random.choice(files, min(PER_CLASS, len(files)), replace=False) if files else ())
    return labelled(folder, [record for record in found if (record[0] in chosen) == (split == "train")])


CALTECH101 = PublishedSet(
    "Caltech-101",
    "caltech101/101_ObjectCategories/<class>/image_<number>.jpg with BACKGROUND_Google among the classes",
    {"train": 3_060, "test": 6_084},
    _caltech101,
    fetch=lambda root: datasets.Caltech101(root, download=True),
)


def _dtd(root: Path, split: str) -> Labelled:
    folder = root / "dtd" / "dtd"
    lines = read_whole(folder / "labels" / f"{split.removesuffix('idation')}1.txt").decode().split()
    found = [(line, names.DTD.index(line.partition("/")[0])) for line in lines]
    return labelled(folder / "images", found)


DTD = PublishedSet(
    "Describable Textures",
    "dtd/dtd/{images/<class>/<image>.jpg,labels/{train1,val1,test1}.txt}",
    {"train": 1_880, "validation": 1_880, "test": 1_880},
    _dtd,
    fetch=lambda root: datasets.DTD(root, download=True),
)


def _sun397(root: Path, split: str) -> Labelled:
    folder = root / "SUN397"
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}")
    number = {name: label for label, name in enumerate(names.SUN397)}
    found = [(key[1:], number[key[3:].rpartition("/")[0]]) for key in sun397_keys(split)]
    return labelled(folder, found, key=lambda name: f"/{name}")


def sun397_keys(split: str) -> list[str]:
    """Return the images of a split as TensorFlow Datasets (Apache-2.0) drew it; the publisher has no such split."""
    packed = resources.files("datamodules.vtab").joinpath("sun397.txt.xz").read_bytes()
    lists = lzma.decompress(packed).decode().split("\n\n")
    return lists[("train", "validation", "test").index(split)].split()


SUN397 = PublishedSet(
    "SUN397",
    "SUN397/<letter>/<class>/sun_<letters>.jpg",
    {"train": 76_128, "validation": 10_875, "test": 21_750},
    _sun397,
    fetch=lambda root: datasets.SUN397(root, download=True),
)


def _one_split(place: Callable[[Path], Path], classes: Sequence[str], root: Path, split: str) -> Labelled:
    """Read a set without a split of its own, whose keys are <class>_<file name> since TensorFlow Datasets of 2021."""
    folder = place(root)
    return labelled(folder, by_class(folder, classes), key=lambda name: name.replace("/", "_"))


EUROSAT = PublishedSet(
    "EuroSAT",
    "eurosat/2750/<class>/<class>_<number>.jpg",
    {"train": 27_000},
    partial(_one_split, lambda root: root / "eurosat" / "2750", names.EUROSAT),
    fetch=lambda root: datasets.EuroSAT(root, download=True),
)

RESISC45 = PublishedSet(
    "RESISC45",
    "NWPU-RESISC45/<class>/<class>_<number>.jpg",
    {"train": 31_500},
    partial(_one_split, lambda root: own_folder(root, "resisc45") / "NWPU-RESISC45", names.RESISC45),
)


def clevr(label: Callable[[dict], int]) -> PublishedSet:
    """Return CLEVR with the label that a function gives to each scene."""

    def read(root: Path, split: str) -> Labelled:
        folder = root / "clevr" / "CLEVR_v1.0"
        short = split.removesuffix("idation")
        scenes = json.loads(read_whole(folder / "scenes" / f"CLEVR_{short}_scenes.json"))["scenes"]
        found = [(scene["image_filename"], label(scene)) for scene in scenes]
        return labelled(folder / "images" / short, found)

    return PublishedSet(
        "CLEVR",
        "clevr/CLEVR_v1.0/{images/{train,val}/CLEVR_<split>_<number>.png,scenes/CLEVR_{train,val}_scenes.json}",
        {"train": 70_000, "validation": 15_000},
        read,
        fetch=lambda root: datasets.CLEVRClassification(root, download=True),
    )
