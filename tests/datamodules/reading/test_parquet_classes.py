"""Classes of Parquet files: which they are, and which of them a label is."""

from pathlib import Path

import numpy as np
import pytest

from datamodules.reading.parquet_classes import class_list, match, shortened
from datamodules.reading.parquet_labels import FileLabels
from tests.datamodules.reading.test_parquet_labels import (
    labels_of,
)
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("files", "listed", "classes"),
    [
        ([], [["zebra", "ant"], ["cat", "ant"]], ["zebra", "ant", "cat"]),
        ([labels_of("b", "x")], [["zebra", "b"]], ["zebra", "b", "x"]),
        ([labels_of("b"), labels_of("a", "c")], [], ["a", "b", "c"]),
        ([labels_of("0", "2", numbered=True)], [], ["0", "1", "2"]),
        ([labels_of("0", numbered=True), labels_of("3")], [], ["0", "1", "2", "3"]),
        ([labels_of("7", numbered=True), labels_of("a", "b")], [], ["a", "b"]),
        ([], [["zebra", "2", "none", "Zebra"]], ["zebra", "2", "none", "Zebra"]),
    ],
)
def test_classes_are_the_listed_ones_then_the_others_sorted(files, listed, classes):
    assert class_list(files, listed, Path("t")) == classes


@pytest.mark.parametrize(
    ("files", "listed", "said"),
    [
        ([labels_of("7", numbered=True), labels_of("a", "3")], [], r"row 2 the label '3' where others are names"),
        ([labels_of("0", "1")], [["a", "b"]], r"row 1 the label '0' where others are names, such as 'a'; correct it"),
        ([labels_of("0", "cat", "1")], [], r"row 2 the label 'cat' where others are numbers"),
        ([labels_of("a", "A1", "a1")], [], r"row 2 the label 'A1'; 'A1' and 'a1' differ in small and large letters"),
        ([labels_of("a1")], [["A1"]], r"row 1 the label 'a1'; 'A1' and 'a1' differ"),
        ([labels_of("a", "None")], [], r"row 2 the label 'None', which stands for a missing one"),
        ([labels_of("cat", "dog", "cat;dog")], [], r"row 3 the label 'cat;dog', whose parts are labels of their own"),
        ([labels_of("cat;dog")], [["cat", "dog"]], r"row 1 the label 'cat;dog', whose parts .*; give --data\.multi_l"),
    ],
)
def test_text_that_is_no_class(files, listed, said):
    with pytest.raises(InputError, match=said):
        class_list(files, listed, Path("t"))


def test_places_become_classes_by_name():
    found = FileLabels(Path("t"), ["ant", "cat", "owl"], np.array([2, 0, -1, 1]), np.arange(5), False)
    assert match(found, ["owl", "ant", "dog", "cat"], "train", False).tolist() == [0, 1, IGNORE, 3]
    numbers = FileLabels(Path("t"), ["0", "2"], np.array([1, 0]), np.arange(3), True)
    assert match(numbers, ["x", "y", "z"], "map", True).tolist() == [2, 0]
    with pytest.raises(InputError, match=r"t has in row 1 the label '2', which train lacks \(3 classes: x, y, z\); it"):
        match(numbers, ["x", "y", "z"], "train", False)
    with pytest.raises(
        InputError, match=r"has in row 1 the label 'owl', which train lacks \(6 classes: cat, ant, 1, 2"
    ):
        match(found, ["cat", "ant", "1", "2", "3", "4"], "train", True)


def test_numbers_may_be_places_or_names_where_names_are_numbers_out_of_place():
    numbers = labels_of("0", "1", numbered=True)
    with pytest.raises(InputError, match=r"t has numbers .* may be places among the classes of train \(1, 0\) or"):
        match(numbers, ["1", "0"], "train", False)
    assert match(numbers, ["0", "1", "x"], "train", False).tolist() == [0, 1]
    assert match(labels_of("0", "1"), ["1", "0"], "train", False).tolist() == [1, 0]


def test_long_lists_of_names_are_cut():
    assert shortened(list("abcde")) == "a, b, c, d, e" and shortened(list("abcdef")) == "a, b, c, d, e, ..."
