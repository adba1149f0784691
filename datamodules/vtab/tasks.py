"""The 19 tasks of the Visual Task Adaptation Benchmark."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from datamodules import cifar
from datamodules.flowers import FLOWERS
from datamodules.flowers import NAMES as FLOWER_NAMES
from datamodules.pets import NAMES as PET_NAMES
from datamodules.pets import PETS
from datamodules.reading.published import PublishedSet, tfds_order
from datamodules.vtab import labels, names
from datamodules.vtab.arrays import CIFAR100, PATCH_CAMELYON, SVHN, dsprites, smallnorb
from datamodules.vtab.dmlab import DMLAB
from datamodules.vtab.folders import CALTECH101, DTD, EUROSAT, RESISC45, SUN397, clevr
from datamodules.vtab.kitti import KITTI
from datamodules.vtab.retinopathy import RETINOPATHY

__all__ = ["TASKS", "Task", "part_of", "tfds_order"]


@dataclass(frozen=True)
class Task:
    """One task: a row of the benchmark's table.

    Args:
        name: what the task is called here.
        group: natural, specialised or structured.
        folder: its folder in the widely shared copy whose images were encoded anew.
        names: one per class.
        source: the published data set with this task's labels.
        train: part of the source for training, of which VTAB-1k takes the first 800 records.
        val: part for choosing a recipe, of which VTAB-1k takes the first 200 records.
        test: part for the score.
        crop: False where the place in the image matters, so that training may not crop.
        flip: False where left and right matter, so that training may not mirror.
    """

    name: str
    group: str
    folder: str
    names: Sequence[str]
    source: PublishedSet
    train: str
    val: str
    test: str
    crop: bool = True
    flip: bool = True


PART = re.compile(r"(?P<split>\w+)(?:\[(?:(?P<start>\d+)%)?:(?:(?P<stop>\d+)%)?\])?")


def split_of(part: str) -> str:
    """Return the split that a part such as "train[60%:80%]" is cut from."""
    return PART.fullmatch(part)["split"]


def part_of(part: str, order: np.ndarray) -> np.ndarray:
    """Return the records of a part such as "train[60%:80%]", whose ends are rounded down.

    Args:
        part: name of a split, and perhaps from which to which of its hundredths.
        order: record numbers of the whole split in the order of TensorFlow Datasets, see `tfds_order`.
    """
    cut = PART.fullmatch(part)
    return order[int(cut["start"] or 0) * len(order) // 100 : int(cut["stop"] or 100) * len(order) // 100]


N, SP, ST = "natural", "specialised", "structured"
BANDS = [f"{low:g} to {high:g}" for low, high in pairwise(labels.CLEVR_BANDS)]
ROADS = ["below 8 m", "8 to 20 m", "above 20 m", "no vehicle"]
GRADES = ["none", "mild", "moderate", "severe", "proliferative"]
COUNTS = [f"{count} objects" for count in range(3, 11)]
AZIMUTHS = [f"{20 * step} degrees" for step in range(18)]
ELEVATIONS = [f"{30 + 5 * step} degrees" for step in range(9)]
TEN, SIX, SIXTEEN = ([str(number) for number in range(count)] for count in (10, 6, 16))

COUNT, DISTANCE = clevr(labels.clevr_count), clevr(labels.clevr_distance)
LOCATION, ORIENTATION = dsprites(labels.dsprites_location), dsprites(labels.dsprites_orientation)
AZIMUTH, ELEVATION = smallnorb(labels.smallnorb_azimuth), smallnorb(labels.smallnorb_elevation)

# Source: the tasks of google-research/task_adaptation (Zhai et al. 2019).
# fmt: off
TASKS = {task.name: task for task in (
    Task("caltech101", N, "caltech101", names.CALTECH101, CALTECH101, "train[:90%]", "train[90%:]", "test"),
    Task("cifar100", N, "cifar", cifar.CIFAR100.class_names, CIFAR100, "train[:90%]", "train[90%:]", "test"),
    Task("dtd", N, "dtd", names.DTD, DTD, "train", "validation", "test"),
    Task("flowers102", N, "oxford_flowers102", FLOWER_NAMES, FLOWERS, "train", "validation", "test"),
    Task("pets", N, "oxford_iiit_pet", PET_NAMES, PETS, "train[:80%]", "train[80%:]", "test"),
    Task("sun397", N, "sun397", names.SUN397, SUN397, "train", "validation", "test"),
    Task("svhn", N, "svhn", TEN, SVHN, "train[:90%]", "train[90%:]", "test"),
    Task("patch_camelyon", SP, "patch_camelyon", ["healthy", "tumour"], PATCH_CAMELYON, "train", "validation", "test"),
    Task("eurosat", SP, "eurosat", names.EUROSAT, EUROSAT, "train[:60%]", "train[60%:80%]", "train[80%:]"),
    Task("resisc45", SP, "resisc45", names.RESISC45, RESISC45, "train[:60%]", "train[60%:80%]", "train[80%:]"),
    Task("retinopathy", SP, "diabetic_retinopathy", GRADES, RETINOPATHY, "train", "validation", "test"),
    Task("clevr_count", ST, "clevr_count", COUNTS, COUNT, "train[:90%]", "train[90%:]", "validation", crop=False),
    Task("clevr_distance", ST, "clevr_dist", BANDS, DISTANCE, "train[:90%]", "train[90%:]", "validation", crop=False),
    Task("dmlab", ST, "dmlab", SIX, DMLAB, "train", "validation", "test", crop=False),
    Task("kitti_distance", ST, "kitti", ROADS, KITTI, "train", "validation", "test", crop=False),
    Task("dsprites_location", ST, "dsprites_loc", SIXTEEN, LOCATION,
         "train[:80%]", "train[80%:90%]", "train[90%:]", crop=False, flip=False),
    Task("dsprites_orientation", ST, "dsprites_ori", SIXTEEN, ORIENTATION,
         "train[:80%]", "train[80%:90%]", "train[90%:]", flip=False),
    Task("smallnorb_azimuth", ST, "smallnorb_azi", AZIMUTHS, AZIMUTH, "train", "test[:50%]", "test[50%:]", flip=False),
    Task("smallnorb_elevation", ST, "smallnorb_ele", ELEVATIONS, ELEVATION, "train", "test[:50%]", "test[50%:]"),
)}
# fmt: on
