"""Code of the user's that fails, or ends the program, in mid-run: one sentence, and never status 0."""

import sys
from pathlib import Path

import pytest

OWN = """
import shutil
import sys

import torch
from lightning.pytorch import Callback
from vit_lightning.data import ImageDataModule


class Fails(Callback):
    def __init__(self):
        raise ValueError("a fault of its own")


class Leaves(Callback):
    def on_train_batch_end(self, *args):
        sys.exit(0)


class Removes(Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == 1:
            shutil.rmtree("runs")


class Generator(ImageDataModule):
    num_classes = 3

    def setup(self, stage):
        self.train_set = self.val_set = (number for number in range(9))
"""
FIT = ("fit", "--trainer.accelerator", "cpu", "--model.net.variant", "mu/8", "--trainer.limit_train_batches", 2)


@pytest.fixture
def own(app, tmp_path, monkeypatch):
    (tmp_path / "own_code.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_code", raising=False)  # that of another test's folder
    return app


@pytest.mark.parametrize("flag", ["--trainer.callbacks", "--trainer.callbacks+"])
def test_a_callback_that_cannot_be_made_says_why(own, flag):
    done = own(*FIT, f"{flag}=own_code.Fails")
    assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert "own_code.Fails cannot be made: a fault of its own" in done.err


def test_a_run_that_was_left_is_no_success(own, tmp_path):
    done = own(*FIT, "--trainer.callbacks", "own_code.Leaves")
    assert done.code == 1
    line = OWN.splitlines().index("        sys.exit(0)") + 1
    assert f"error: {tmp_path}/own_code.py, line {line}, called for the program's end before the run was" in done.err


def test_a_run_folder_that_is_removed_is_one_sentence(own):
    done = own(*FIT, "--trainer.callbacks", "own_code.Removes", "--trainer.max_epochs", 4)
    assert done.code == 1 and "Traceback" not in done.err
    assert "was removed or moved while the run went on; start it again" in done.err.splitlines()[-1]


def test_a_set_that_has_no_length_says_what_a_set_is(own):
    done = own(*FIT, "--data", "own_code.Generator", "--data.image_size", 8)
    assert done.code == 1 and "Traceback" not in done.err
    assert "the training set of Generator is a generator; a set has a length and gives its records by" in done.err


def test_a_held_out_image_is_said_to_be(own, tmp_path):
    from PIL import Image

    (tmp_path / "set/train/cat").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "set/train/cat/one.png")
    done = own(*FIT, "--data", "ImageFolder", "--data.root", "set", "--data.image_size", 8, "--data.batch_size", 1)
    assert done.code == 1 and "ImageFolder has 1 image for training, held out for validation" in done.err
    assert not Path("runs").exists()
