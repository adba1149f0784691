"""A program as a model: what its metadata say is held against the data, and its outputs become probabilities."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.weights import exported
from vit_lightning.weights.exported import ExportedProgram

INPUT = {
    "name": "images",
    "size": [4, 6],
    "channels": 3,
    "black": 0,
    "white": 255,
    "resize": "whole",
    "resize_to": [4, 6],
}
OUTPUT = {"name": "logits", "holds": "a logit for each class", "probabilities": "softmax"}


def facts(names=("a", "b"), given=None, output=None) -> dict:
    return {"input": INPUT | (given or {}), "output": OUTPUT | (output or {}), "class_names": list(names)}


class Session:
    """onnxruntime's, with outputs that are sums of the images' pixels."""

    def __init__(self, told: dict[str, str], classes: int = 2) -> None:
        self.told, self.classes, self.given = told, classes, None

    def get_modelmeta(self) -> SimpleNamespace:
        return SimpleNamespace(custom_metadata_map=self.told)

    def get_outputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(shape=["batch", self.classes])]

    def run(self, names: list[str], feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        assert names == ["logits"]
        self.given = feed["images"]
        return [self.given.sum((1, 2, 3))[:, None] * np.arange(1, self.classes + 1, dtype=np.float32)]


@pytest.fixture
def opened(monkeypatch):
    """Opens a program with these facts, without a file."""
    onnxruntime = pytest.importorskip("onnxruntime")

    def open_program(told: dict, classes: int = 2) -> ExportedProgram:
        texts = {name: json.dumps(value) for name, value in told.items()}
        monkeypatch.setattr(onnxruntime, "InferenceSession", lambda name, providers: Session(texts, classes))
        return ExportedProgram(Path("net.onnx"))

    return open_program


def test_what_the_metadata_say_is_what_a_checkpoint_would(opened):
    program = opened(facts())
    assert program.class_names == ["a", "b"] and program.weights == "net.onnx"
    expected = {"num_classes": 2, "loss": "softmax", "image_size": (4, 6), "channels": 3, "window": None}
    assert dict(program.hparams) == expected
    assert program.pixel_facts == (3, None) and program.evaluation == Augment()
    assert not hasattr(program, "wants_features")
    program = opened(facts((), {"black": 100, "white": 4000, "channels": 5}), 7)
    assert program.pixel_facts == (5, (100, 4000)) and program.hparams["num_classes"] == 7


@pytest.mark.parametrize(("low", "high"), [(0, 4000), (10, 255)])
def test_a_window_is_stated_unless_it_is_that_of_8_bits(opened, low, high):
    assert opened(facts(given={"black": low, "white": high})).pixel_facts == (3, (low, high))


def test_images_are_covered_as_far_as_the_program_says(opened):
    program = opened(facts(given={"resize": "cover", "resize_to": [6.0, 9.0]}))
    assert program.evaluation == Augment(evaluation="center", zoom=1.5)


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("loss", ["softmax", "sigmoid", None])
def test_outputs_become_probabilities_of_images_from_0_to_1(opened, kind, loss):
    program = opened(facts(output={"probabilities": loss}))
    pixels = torch.randint(0, 3, (2, 3, 4, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images = pixels if kind is torch.uint8 else pixels.to(kind) / 255
    found = program.predict_step((images, torch.zeros(2)), 0)
    assert program.session.given.dtype == np.float32
    np.testing.assert_allclose(program.session.given, pixels.numpy() / np.float32(255), rtol=1e-6)
    total = pixels.double().sum((1, 2, 3)) / 255
    logits = torch.stack([total, 2 * total], dim=1)
    expected = 1 / (1 + (-logits).exp()) if loss == "sigmoid" else logits.exp() / logits.exp().sum(1, keepdim=True)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_what_is_not_finite_stays_seen(opened, loss):
    """A sigmoid would make 1 of an infinite logit."""
    program = opened(facts(output={"probabilities": loss}))
    found = program.predict_step((torch.full((1, 3, 4, 6), torch.inf), torch.zeros(1)), 0)
    assert found.isnan().all()


def test_a_net_without_a_head_gives_features(opened):
    program = opened(facts((), output={"holds": "features", "probabilities": None}), 5)
    assert program.hparams["num_classes"] == 0 and program.wants_features is False
    shares, features = program.predict_step((torch.ones(2, 3, 4, 6), torch.zeros(2)), 0)
    assert shares.shape == (2, 0) and features.shape == (2, 5) and features[0, 1] == 144


def meet(program: ExportedProgram, **data: object) -> ExportedProgram:
    program._trainer = SimpleNamespace(datamodule=SimpleNamespace(**data))
    program.setup("predict")
    return program


@pytest.mark.parametrize("names", [["b", "a"], ["a"], ["a", "b", "c"], ["a", "B"]])
def test_data_of_other_classes_are_refused(opened, names):
    with pytest.raises(InputError, match=r"^the data has other classes than net\.onnx, or another order of them"):
        meet(opened(facts()), class_names=names)


def test_data_without_names_or_with_the_same_are_taken(opened):
    assert meet(opened(facts()), class_names=()).class_names == ["a", "b"]
    assert meet(opened(facts()), class_names=["a", "b"]).class_names == ["a", "b"]
    assert meet(opened(facts())).class_names == ["a", "b"]
    assert meet(opened(facts(())), class_names=["x", "y"]).class_names == ["x", "y"]
    with pytest.raises(InputError, match="other classes"):
        meet(opened(facts(())), class_names=["x", "y", "z"])


def test_data_of_another_size_are_refused(opened):
    meet(opened(facts()), image_size=(4, 6), size=[4, 6])
    meet(opened(facts()), image_size=None, size=(9, 9))  # the data take the program's
    with pytest.raises(InputError, match=r"takes images of 4 x 6; give --data\.image_size '\[4,6\]'$"):
        meet(opened(facts()), image_size=(6, 4), size=(6, 4))


def test_names_for_other_outputs_are_refused(opened):
    with pytest.raises(InputError, match=r"net\.onnx names 2 classes for 3 outputs; export it again"):
        opened(facts(), 3)


ODD = {
    "size of three": {"size": [4, 6, 3]},
    "size of 0": {"size": [0, 6]},
    "size of a fraction": {"size": [4.0, 6]},
    "size of true": {"size": [True, 6]},
    "no channels": {"channels": 0},
    "channels in words": {"channels": "3"},
    "black in words": {"black": "0"},
    "white in words": {"white": None},
    "resized to one": {"resize_to": [4]},
    "resized to words": {"resize_to": ["4", 6]},
    "resized otherwise": {"resize": "crop"},
    "another name": {"name": "pixels"},
}


@pytest.mark.parametrize("odd", ODD)
def test_metadata_of_another_maker_are_refused(opened, odd):
    with pytest.raises(InputError, match=r"^net\.onnx does not say what it takes and gives; make it with the verb"):
        opened(facts(given=ODD[odd]))


@pytest.mark.parametrize(
    "told",
    [
        {},
        {name: value for name, value in facts().items() if name != "class_names"},
        facts() | {"class_names": "ab"},
        facts() | {"class_names": ["a", 1]},
        facts() | {"input": []},
        facts(output={"name": "scores"}),
        facts(output={"holds": 3}),
    ],
)
def test_metadata_that_lack_something_are_refused(opened, told):
    with pytest.raises(InputError, match="does not say what it takes and gives"):
        opened(told)


def test_what_is_no_program_is_said(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "x.onnx").write_bytes(b"no program")
    with pytest.raises(InputError, match=r"x\.onnx cannot be read as an ONNX program"):
        ExportedProgram(tmp_path / "x.onnx")


def test_the_package_that_lacks_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"^x\.onnx needs onnxruntime, .*: pip install 'vit-lightning\[onnx\]'$"):
        exported._open(Path("x.onnx"))
