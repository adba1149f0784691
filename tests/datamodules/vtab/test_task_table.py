"""The table of VTAB's tasks against the rules of google-research/task_adaptation, written down a second time."""

import numpy as np
import pytest

from datamodules.vtab import labels
from datamodules.vtab.tasks import TASKS, Task, part_of, split_of

SIX, EIGHT = ("[:60%]", "[60%:80%]", "[80%:]"), ("[:80%]", "[80%:90%]", "[90%:]")
HELD = ("train", "validation", "test")
SHEET = {
    # name: classes, sizes of the published splits, parts for training, choosing and scoring, may crop, may flip
    "caltech101": (102, {"train": 3_060, "test": 6_084}, ("train[:90%]", "train[90%:]", "test"), True, True),
    "cifar100": (100, {"train": 50_000, "test": 10_000}, ("train[:90%]", "train[90%:]", "test"), True, True),
    "dtd": (47, {"train": 1_880, "validation": 1_880, "test": 1_880}, HELD, True, True),
    "flowers102": (102, {"train": 1_020, "validation": 1_020, "test": 6_149}, HELD, True, True),
    "pets": (37, {"train": 3_680, "test": 3_669}, ("train[:80%]", "train[80%:]", "test"), True, True),
    "sun397": (397, {"train": 76_128, "validation": 10_875, "test": 21_750}, HELD, True, True),
    "svhn": (10, {"train": 73_257, "test": 26_032}, ("train[:90%]", "train[90%:]", "test"), True, True),
    "patch_camelyon": (2, {"train": 262_144, "validation": 32_768, "test": 32_768}, HELD, True, True),
    "eurosat": (10, {"train": 27_000}, tuple(f"train{part}" for part in SIX), True, True),
    "resisc45": (45, {"train": 31_500}, tuple(f"train{part}" for part in SIX), True, True),
    "retinopathy": (5, {"train": 35_126, "validation": 10_906, "test": 42_670}, HELD, True, True),
    "clevr_count": (
        8,
        {"train": 70_000, "validation": 15_000},
        ("train[:90%]", "train[90%:]", "validation"),
        False,
        True,
    ),
    "clevr_distance": (
        6,
        {"train": 70_000, "validation": 15_000},
        ("train[:90%]", "train[90%:]", "validation"),
        False,
        True,
    ),
    "dmlab": (6, {"train": 65_550, "validation": 22_628, "test": 22_735}, HELD, False, True),
    "kitti_distance": (4, {"train": 6_347, "validation": 423, "test": 711}, HELD, False, True),
    "dsprites_location": (16, {"train": 737_280}, tuple(f"train{part}" for part in EIGHT), False, False),
    "dsprites_orientation": (16, {"train": 737_280}, tuple(f"train{part}" for part in EIGHT), True, False),
    "smallnorb_azimuth": (18, {"train": 24_300, "test": 24_300}, ("train", "test[:50%]", "test[50%:]"), True, False),
    "smallnorb_elevation": (9, {"train": 24_300, "test": 24_300}, ("train", "test[:50%]", "test[50%:]"), True, True),
}


@pytest.mark.parametrize("name", SHEET)
def test_a_task_is_what_the_benchmark_says(name):
    task = TASKS[name]
    found = len(task.names), dict(task.source.sizes), (task.train, task.val, task.test), task.crop, task.flip
    assert found == SHEET[name] and task.name == name and list(TASKS) == list(SHEET)


def test_a_task_may_be_cropped_and_mirrored_unless_it_says_otherwise():
    plain = Task("x", "natural", "x", [], None, "train", "validation", "test")
    assert (plain.crop, plain.flip) == (True, True)


@pytest.mark.parametrize(
    ("part", "size", "first", "last", "split"),
    [
        ("train", 11, 0, 10, "train"),
        ("train[:90%]", 3_060, 0, 2_753, "train"),
        ("train[90%:]", 3_060, 2_754, 3_059, "train"),
        ("test[50%:]", 24_301, 12_150, 24_300, "test"),
        ("train[80%:90%]", 737_280, 589_824, 663_551, "train"),
        ("validation[60%:80%]", 7, 4, 4, "validation"),
    ],
)
def test_ends_of_parts_are_rounded_down(part, size, first, last, split):
    found = part_of(part, np.arange(size) * 3)
    assert (found[0] // 3, found[-1] // 3, len(found)) == (first, last, last - first + 1) and split_of(part) == split


def test_an_empty_road_lies_beyond_every_border():
    assert labels.NO_VEHICLE == 1000 and labels.VEHICLES == ("Car", "Van", "Truck")
    assert labels.CLEVR_BANDS == (0, 8, 8.5, 9, 9.5, 10, 100) and labels.KITTI_BANDS == (-100, 8, 20, 999)
