"""What is said of a split, without the data."""

import numpy as np
import pytest

from datamodules.reading import split_sentences as said
from datamodules.reading.drawn_split import LEFT_OUT, TEST, TRAIN, VAL

SPLITS = np.array([TRAIN, VAL, TRAIN, TEST, TRAIN, LEFT_OUT])


def test_classes_that_a_split_does_not_show():
    classes = np.array([0, 0, 1, 1, -1, 2])
    known = ["ant", "bee", "cat", "dog"]
    assert said.absent_classes(classes, SPLITS, [VAL, TEST], known) == [
        "2 of 4 classes have no validation image, since they are small: bee, cat",
        "2 of 4 classes have no test image, since they are small: ant, cat",
    ]
    assert said.absent_classes(classes[:2], SPLITS[:2], [VAL], known) == []


def test_images_of_each_class_in_each_split():
    classes = np.array([0, 0, 1, 1, 12, 2])
    images = [(None, label) for label in classes.tolist()]
    known = [f"c{number}" for number in range(13)]
    shown = ", ".join(f"c{number} 0 + 0 + 0" for number in range(2, 12))
    said_of = said.images_of_classes(images, classes, SPLITS, known)
    assert said_of == f"images of c0 1 + 1 + 0, c1 1 + 0 + 1, {shown} and 1 classes more"
    assert said.counts_of_groups(["p", "q", "p", "r", "q", "s"], SPLITS) == "2 + 1 + 1"


FACTS = {"digest": "a", "train": 6, "val": 2, "test": 1, "val_fraction": 0.2, "test_fraction": None, "split_seed": 0}
UNSET = dict.fromkeys(("val_fraction", "test_fraction", "split_seed"))


@pytest.mark.parametrize(
    ("now", "given", "trains", "beginning", "end"),
    [
        ({}, {"split_seed": 1}, True, "split: --data.split_seed 1 (the checkpoint's: 0); give", "or begin a new run"),
        ({"digest": "b", "val": 3}, {}, False, "split: 6 + 3 + 1 images here, 6 + 2 + 1 images in", "split_file null"),
    ],
)
def test_another_split_than_the_checkpoints(now, given, trains, beginning, end):
    text = said.other_split(FACTS, FACTS | now, UNSET | given, trains)
    assert beginning in text and text.endswith(end)
    assert "give --data.val_fraction 0.2 --data.split_seed 0 and the same files" in text
    assert said.other_split(FACTS, FACTS, UNSET | {"split_seed": 0, "test_fraction": 0.5}, trains) is None
