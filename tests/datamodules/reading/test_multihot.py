"""Several classes of an image as a vector."""

import numpy as np

from datamodules.reading.multihot import MultiHot
from datamodules.reading.shared_sequences import Ragged


class Named(list):
    keys = ("x", "y", "z")


def test_each_image_has_the_classes_of_its_row():
    rows = Ragged.of([[], [2, 0], [4], [1, 2, 3]])
    found = MultiHot(Named([("a", 7), ("b", 7), ("c", 7)]), rows, np.array([3, 0, 1]), 5)
    assert [(image, label.tolist()) for image, label in (found[number] for number in range(len(found)))] == [
        ("a", [0, 1, 1, 1, 0]),
        ("b", [0, 0, 0, 0, 0]),
        ("c", [1, 0, 1, 0, 0]),
    ]
    assert list(found.keys) == ["x", "y", "z"] and not hasattr(found, "labels")
    assert list(MultiHot([("a", 0)], rows, [1], 5).keys) == [0]


def test_labels_that_are_hidden_are_a_vector_that_counts_nowhere():
    rows = Ragged.of([[1], []])
    found = MultiHot([("a", 0), ("b", 0), ("c", 0)], rows, [0, 1, 1], 2, np.array([False, True, False]))
    assert [found[number][1].tolist() for number in range(3)] == [[0, 1], [-100, -100], [0, 0]]
