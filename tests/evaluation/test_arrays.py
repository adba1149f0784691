"""Features and labels that probes take, and those that they refuse."""

import numpy as np
import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.evaluation import arrays, knn
from vit_lightning.evaluation.calibration import calibration_error
from vit_lightning.evaluation.confusion import mean_of_known
from vit_lightning.evaluation.ranking import rank


@pytest.mark.parametrize(
    ("kind", "found"), [(np.float32, torch.float32), (np.float64, torch.float64), (np.int32, torch.float64)]
)
def test_features_keep_their_precision(kind, found):
    tensor = arrays.as_features(np.arange(6, dtype=kind).reshape(2, 3))
    assert tensor.dtype == found and tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays.as_features(torch.ones(2, 2, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (np.zeros(3), r"features have the shape \(3,\); expected \(images, features\)"),
        (np.zeros((1, 2, 3)), r"features have the shape \(1, 2, 3\)"),
        (np.array([[1, np.nan], [1, 1], [np.inf, np.nan]]), "the features of 2 of 3 images are not finite"),
    ],
)
def test_what_are_no_features(features, said):
    with pytest.raises(InputError, match=said):
        arrays.as_features(features)


@pytest.mark.parametrize("labels", [np.zeros((2, 1), int), np.zeros(2), torch.zeros(2)])
def test_what_are_no_labels(labels):
    with pytest.raises(InputError, match="expected a class per image"):
        arrays.as_labels(labels)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1], "3 images have features, but 2 a label"),
        ([0, 1, 2, 0], "3 images have features, but 4 a label"),
        ([0, 3, 4], "an image has label 3, outside the 3 classes"),
        ([2, 0, -1], "an image has label -1, outside the 3 classes"),
    ],
)
def test_labels_that_are_no_classes(labels, said):
    with pytest.raises(InputError, match=said):
        arrays.as_classes(np.array(labels), 3, 3)
    assert arrays.as_classes(np.array([0, 2, 1], np.uint8), 3, 3).dtype == torch.int64


@pytest.mark.parametrize(
    ("rows", "columns", "sizes"), [(10, 3, [4, 4, 2]), (3, 100, [1, 1, 1]), (13, 1, [12, 1]), (5, 0, [5]), (0, 3, [])]
)
def test_parts_of_a_matrix_cover_its_rows_once(monkeypatch, rows, columns, sizes):
    assert arrays.AT_ONCE == 16_777_216
    monkeypatch.setattr(arrays, "AT_ONCE", 12)
    parts = [list(range(rows))[part] for part in arrays.chunks(rows, columns)]
    assert list(map(len, parts)) == sizes and [row for part in parts for row in part] == list(range(rows))


@pytest.mark.parametrize("fails", [False, True])
def test_products_are_whole_inside_alone(fails):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(ZeroDivisionError) if fails else arrays.whole_products(), arrays.whole_products():
            assert torch.get_float32_matmul_precision() == "highest"
            assert 1 / (not fails)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_defaults_are_dinos():
    assert (knn.NEIGHBOURS, knn.TEMPERATURE) == ((10, 20, 100), 0.07)


def test_features_of_half_precision_are_compared_in_single():
    train = torch.tensor([[1.0, 0.0], [1.0, 0.03]]).bfloat16()
    assert knn.predict(train, torch.tensor([0, 1]), torch.tensor([[1.0, 0.02]]), 2, (1,)).item() in (0, 1)
    found = knn.predict(train, torch.tensor([0, 1]), torch.tensor([[1.0, 0.029]]).double(), 2, (1,))
    assert found.item() == 1 and found.dtype == torch.int64


def test_a_confidence_of_0_stands_in_the_first_bin():
    """Gaps of 0 and of 1 - 0.5 in one bin of two: (1 - 0.5 - 0) / 2; apart they would make the same only by chance."""
    assert calibration_error(np.array([0.0, 0.5]), np.array([True, False]), bins=2) == pytest.approx(0.25)
    assert calibration_error(np.array([0.0, 0.4, 0.5]), np.array([False, True, False]), bins=2) == pytest.approx(
        0.1 / 3
    )


def test_means_of_nothing_are_no_number():
    assert np.isnan(mean_of_known(np.array([np.nan]))) and mean_of_known(np.array([np.nan, 2.0, 4.0])) == 3
    found = rank(np.zeros((3, 2)), np.zeros((3, 2), bool))
    assert np.isnan([found.map_micro, found.map_macro, found.mean_auroc]).all() and isinstance(found.map_micro, float)
