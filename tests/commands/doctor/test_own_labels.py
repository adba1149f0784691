"""The verb doctor on own sets whose labels are wrong in ways that only their records tell."""

import json
from pathlib import Path

import pytest

SOURCE = """
import numpy as np
import torch
from vit_lightning.data import ImageDataModule


class Pairs:
    def __init__(self, records, labels=None):
        self.records = records
        if labels is not None:
            self.labels = labels

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, 256, (3, 16, 16), generator=generator).byte(), self.records[index]


class Own(ImageDataModule):
    num_classes = 3

    def __init__(self, kind: str = "", **kwargs):
        super().__init__(**kwargs)
        self.kind = kind

    def setup(self, stage):
        numbers = [0, 1, 2] * 4
        vectors = list(torch.eye(3)[numbers])
        self.train_set = {
            "contrary": Pairs(numbers, numbers[::-1]),
            "longer": Pairs(numbers, [*numbers, 1]),
            "zeros": Pairs([*vectors[:-1], torch.zeros(3)]),
            "large": Pairs([*numbers[:-1], np.uint64(2**63)]),
            "large list": Pairs(numbers, np.array([*numbers[:-1], 2**63], np.uint64)),
            "sound": Pairs(vectors, numbers),
        }[self.kind]
"""
WRONG = {
    "contrary": "8 training images without a label that a run takes",
    "longer": "labels of the Pairs has 13 numbers for 12 records",
    "zeros": "1 training image without a label that a run takes",
    "large": "1 training image with a label outside the classes 0 to 2",
    "large list": "1 training image without a label that a run takes",
}


@pytest.fixture
def doctor(app, monkeypatch):
    """Run doctor on own data of a kind, and return its exit status and what it finds wrong with labels."""
    Path("own_labels.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(".")

    def run(kind: str, *further: str) -> tuple[int, list[dict]]:
        flags = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.image_size", 16)
        flags += ("--data.batch_size", 4, "--data.num_workers", 0, "--json", "found.json")
        done = app("doctor", *flags, "--data", "own_labels.Own", "--data.kind", kind, *further)
        found = json.loads(Path("found.json").read_text())["findings"]
        return done.code, [one for one in found if one["severity"] == "error" and one["topic"] == "labels"]

    return run


@pytest.mark.parametrize("kind", WRONG)
def test_every_wrong_label_is_an_error(doctor, kind):
    code, (error,) = doctor(kind)
    assert code == 1 and error["text"].startswith(WRONG[kind])


def test_sound_labels_pass(doctor):
    assert doctor("sound") == (0, [])


def test_images_without_a_class_pass_with_sigmoid(doctor):
    _, (error,) = doctor("zeros")
    assert error["items"][0].startswith("11: has a label of zeros, and softmax expects a class")
    assert doctor("zeros", "--model.loss", "sigmoid") == (0, [])
