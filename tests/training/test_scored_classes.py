"""Logits and labels of some of a net's classes, numbered by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vit_lightning.training.scored_classes import ScoredClasses, parts_of

OURS, THEIRS = ["cow", "ant"], ["ant", "bee", "cow"]
LOGITS = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def test_data_of_some_classes_have_columns_in_their_own_order():
    found = ScoredClasses.of_data(OURS, THEIRS)
    assert found.names == OURS and str(found) == "scored on 2 of 3 classes"
    assert found.logits(LOGITS).tolist() == [[3, 1], [6, 4]]
    labels = torch.tensor([0, 1, -100])
    assert found.labels(labels) is labels  # numbers of the data's own classes


@pytest.mark.parametrize(
    ("ours", "in_any_order", "reordered"),
    [(THEIRS, True, False), (THEIRS[::-1], False, False), (THEIRS[::-1], True, True), ([], True, False)],
)
def test_all_classes_are_matched_where_their_order_differs(ours, in_any_order, reordered):
    found = ScoredClasses.of_data(ours, THEIRS, in_any_order)
    assert (found is not None) == reordered
    if reordered:
        assert found.logits(LOGITS).tolist() == [[3, 2, 1], [6, 5, 4]]
        assert str(found) == "the data has the net's classes in another order: they are matched by name"


@pytest.mark.parametrize("names", [THEIRS, []])
def test_a_set_that_says_its_classes_has_labels_among_all(names):
    images = SimpleNamespace(scored_classes=np.array([2, 0]))
    found = ScoredClasses.of_set(images, names, 3)
    assert found.names == (["cow", "ant"] if names else ["2", "0"])
    assert found.logits(LOGITS).tolist() == [[3, 1], [6, 4]]
    assert found.labels(torch.tensor([2, 0, 1, -100, -1])).tolist() == [0, 1, -1, -100, -1]
    assert found.labels(torch.tensor([[0.1, 0.2, 0.7], [-100, -100, -100]])).tolist() == [
        pytest.approx([0.7, 0.1]),
        [-100, -100],
    ]
    assert ScoredClasses.of_set(SimpleNamespace(), THEIRS, 3) is None


def test_classes_are_called_as_the_net_spells_them():
    found = ScoredClasses.of_data(["Cow", "ANT"], THEIRS)
    assert found.names == ["cow", "ant"] and found.columns.tolist() == [2, 0]


def test_a_set_of_all_classes_in_their_order_needs_no_part_of_its_own():
    assert ScoredClasses.of_set(SimpleNamespace(scored_classes=np.arange(3)), THEIRS, 3) is None
    found = ScoredClasses.of_set(SimpleNamespace(scored_classes=np.array([1, 0, 2])), THEIRS, 3)
    assert str(found) == "the data has the net's classes in another order: they are matched by name"


def test_each_set_of_each_split_has_its_part():
    part, whole = SimpleNamespace(scored_classes=np.array([1, 2])), SimpleNamespace()
    data = SimpleNamespace(val_set=whole, test_set=part, further_sets={"real": whole, "r": part})
    found = parts_of(data, ["real", "r"], THEIRS, 3)
    assert sorted(found) == [("test", 0), ("test", 2), ("val", 2)]
    assert found["val", 2].names == ["bee", "cow"]
