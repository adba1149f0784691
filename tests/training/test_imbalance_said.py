"""What the plan says of class weights: those of each class by its name."""

from types import SimpleNamespace

import numpy as np
import pytest

from vit_lightning.data.subsets import ClassCounts
from vit_lightning.training import imbalance
from vit_lightning.training.imbalance import ImbalanceLoss, described

NAMES = ["effusion", "fibrosis", "nodule"]


def said(weights, names=NAMES, kind="sigmoid", **more) -> str:
    classes = len(weights) if isinstance(weights, list) else 3
    settings = {"loss": kind, "num_classes": classes, "class_weights": weights, "focal_gamma": 0, "logit_adjustment": 0}
    loss, _ = imbalance.remedy(settings | more, SimpleNamespace(class_names=names))
    return described(settings | more, loss, names)


def test_weights_as_given_stand_by_name():
    assert said([1.0, 5.0, 20.0]) == ", class weights effusion 1, fibrosis 5, nodule 20"
    assert said([1.0, 0.25, 1e-3], names=[], focal_gamma=2) == ", class weights 0 1, 1 0.25, 2 0.001, focal gamma 2"


@pytest.mark.parametrize(("kind", "weights"), [("sigmoid", "9, fibrosis 1, nodule 0.25"), ("softmax", None)])
def test_those_that_follow_the_counts_stand_by_name(monkeypatch, kind, weights):
    """Of 100 images 10, 50 and 80: by sigmoid the others over those; by softmax 100 / (3 * those)."""
    monkeypatch.setattr(imbalance, "_counts", lambda data, flag: ClassCounts(100, np.array([10.0, 50.0, 80.0])))
    weights = weights or "3.333, fibrosis 0.6667, nodule 0.4167"
    assert said("balanced", kind=kind) == f", class weights balanced (effusion {weights})"


def test_many_weights_are_counted():
    found = said([1.0] * 10, names=[f"{number}{'x' * 40}" for number in range(10)])
    assert found.count("x" * 29) == 8 and "x" * 30 not in found and found.endswith(" 1 and 2 more")


def test_before_the_data_are_known_no_weight_is_said():
    settings = {"focal_gamma": 0, "logit_adjustment": 0}
    assert described(settings | {"class_weights": "balanced"}) == ", class weights balanced"
    assert described(settings | {"class_weights": [1.0, 2.0]}, ImbalanceLoss("softmax", None, 0, None)) == (
        ", class weights as given"
    )
