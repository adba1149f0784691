"""Weights and scores that are no numbers end every verb with one sentence."""

import math

import pytest
import torch

from vit_lightning.classifier import Classifier

DATA = '''
import torch
from vit_lightning.data import ImageDataModule


class Partly:
    """Images of which the first `labelled` have a label, of 40."""

    def __init__(self, labelled):
        self.labelled = labelled

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((3, 8, 8), index, dtype=torch.uint8), index % 3 if index < self.labelled else -100


class Some(ImageDataModule):
    num_classes = 3

    def __init__(self, labelled: int = 40, **kwargs):
        super().__init__(**kwargs)
        self.labelled = labelled

    def setup(self, stage):
        self.train_set = Partly(40)
        self.val_set = self.test_set = Partly(self.labelled)
'''
WORDS = ("--data", "some.Some", "--data.image_size", 8, "--data.batch_size", 16, "--data.num_workers", 0)
WORDS += ("--trainer.accelerator", "cpu", "--ckpt_path", "net.ckpt")


def checkpoint(fault: float | None = None, **settings) -> None:
    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8, **settings)
    model.configure_model()
    if fault is not None:
        model.net.head.bias.data[1] = fault
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0"}
    if fault is not None:  # what a fit needs to come as far as the weights
        progress = {key: {} for key in ("epoch_progress", "epoch_loop.batch_progress", "epoch_loop.state_dict")}
        facts |= {"loops": {"fit_loop": progress}, "lr_schedulers": [{}], "callbacks": {}}
        facts["optimizer_states"] = [{"state": {}, "param_groups": [{"params": [0]}]}]
    facts["model"] = "vit_lightning.classifier.Classifier"
    torch.save({"state_dict": model.state_dict()} | facts, "net.ckpt")


@pytest.fixture
def some(app, tmp_path, monkeypatch):
    (tmp_path / "some.py").write_text(DATA)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "some", raising=False)
    return app


@pytest.mark.parametrize("fault", [math.nan, math.inf])
def test_weights_that_are_not_finite_end_every_verb(some, tmp_path, fault):
    checkpoint(fault)
    for words in (
        *((verb, *WORDS) for verb in ("fit", "validate", "test", "predict")),
        ("fit", *WORDS[:-2], "--model.weights", "net.ckpt"),
        ("export", "net.ckpt", "exported", "--to", "safetensors"),
        ("convert", "net.ckpt", "converted", "--to", "timm"),
    ):
        done = some(*words)
        assert done.code == 1, words
        said = done.err.splitlines()[-1]
        assert "holds weights that are not finite: 1 of 3 values of" in said and "head.bias" in said, words
    assert not (tmp_path / "predictions.csv").exists() and not (tmp_path / "exported").exists()


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_outputs_that_are_not_finite_end_every_verb(some, monkeypatch, loss):
    checkpoint(loss=loss)
    forward = Classifier.forward

    def overflow(self, images):
        return torch.where(images[:, :1, 0, 0] == 37, math.inf, forward(self, images))

    monkeypatch.setattr(Classifier, "forward", overflow)
    for verb, said in (("validate", "val/loss is"), ("test", "test/loss is"), ("predict", "outputs for image 37 are")):
        done = some(verb, *WORDS)
        assert done.code == 1 and said in done.err.splitlines()[-1], (verb, done.err)


def test_images_without_a_label_have_no_score(some):
    checkpoint()
    for verb, split in (("validate", "validation"), ("test", "test")):
        done = some(verb, *WORDS, "--data.labelled", 0)
        assert done.code == 1
        assert f"none of the 40 {split} images has a label" in done.err.splitlines()[-1]


def test_labels_of_a_part_are_counted(some):
    checkpoint()
    done = some("test", *WORDS, "--data.labelled", 8)
    assert done.code == 0, done.err
    assert "8 of 40 test images have a label; the others count nothing" in done.out + done.err
    done = some("test", *WORDS)
    assert done.code == 0 and "have a label" not in done.out + done.err
    done = some("fit", *WORDS[:-2], "--model.net.variant", "mu/8", "--data.labelled", 8, "--trainer.max_epochs", 2)
    assert done.code == 0, done.err
    assert (done.out + done.err).count("8 of 40 validation images have a label") == 1
