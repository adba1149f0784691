"""A checkpoint's recipe names what answered classes of unequal size, as it shifts the probabilities."""

from types import SimpleNamespace

import pytest

from vit_lightning.weights.layouts import checkpoint


@pytest.mark.parametrize(
    ("hyper", "told"),
    [
        ({"class_weights": "balanced", "focal_gamma": 2.0, "logit_adjustment": 0.0}, ("class_weights", "focal_gamma")),
        ({"class_weights": [1.0, 5.0], "logit_adjustment": 1.0}, ("class_weights", "logit_adjustment")),
        ({"class_weights": None, "focal_gamma": 0.0}, ()),
    ],
)
def test_only_remedies_that_were_taken_are_told(tmp_path, hyper, told):
    archive = SimpleNamespace(facts={"hyper_parameters": {"loss": "sigmoid", **hyper}}, path=tmp_path / "w.ckpt")
    expected = {"loss": "sigmoid"} | {name: hyper[name] for name in told}
    assert checkpoint._training(archive)["recipe"] == expected
