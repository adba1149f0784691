"""The verb doctor on data whose sets, module and weights number the classes differently."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.classifier import Classifier
from vit_lightning.models import NetConfig

SOURCE = """
from torch.utils.data import Subset
from torchvision.datasets import ImageFolder
from vit_lightning.data import ImageDataModule


class Own(ImageDataModule):
    num_classes = 3

    def setup(self, stage):
        self.train_set = ImageFolder(self.root / "train")
        held = ImageFolder(self.root / "held")
        parts = {"val": Subset(held, range(len(held))), "test": held, "none": None}
        self.val_set = parts["val"] if "val" in str(self.root) else None
        self.test_set = parts["test"] if "test" in str(self.root) else None


class Naming(Own):
    class_names = ("cat", "bee", "ant")


class Nameless(Own):
    def setup(self, stage):
        super().setup(stage)
        self.train_set = [self.train_set[number] for number in range(len(self.train_set))]
"""


@pytest.fixture
def doctor(app, monkeypatch):
    """Run doctor on own data under a folder, and return its errors and what else it printed."""
    Path("own_sets.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(".")

    def run(root: Path, kind: str = "Own", *further) -> tuple[int, list[str]]:
        flags = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.image_size", 16)
        flags += ("--data.batch_size", 4, "--data.num_workers", 0, "--json", "found.json")
        done = app("doctor", *flags, "--data", f"own_sets.{kind}", "--data.root", root, *further)
        found = json.loads(Path("found.json").read_text())["findings"]
        return done.code, [finding["text"] for finding in found if finding["severity"] == "error"]

    return run


def sets(root: Path, held: tuple[str, ...]) -> Path:
    chance = np.random.default_rng(0)
    for split, names in (("train", ("ant", "bee", "cat")), ("held", held)):
        for name in names:
            (root / split / name).mkdir(parents=True)
            for number in range(2):
                pixels = chance.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / name / f"{number}.png")
    return root


@pytest.mark.parametrize("split", ["val", "test"])
def test_sets_that_number_their_own_classes(doctor, split):
    code, (error,) = doctor(sets(Path(split), held=("bee", "cat")))
    assert (
        code == 1 and error.startswith("class 'bee' has the label 0 in the ") and "and 1 in the training set" in error
    )
    assert doctor(sets(Path(f"{split}_whole"), held=("ant", "bee", "cat"))) == (0, [])


def test_a_module_whose_names_are_in_another_order(doctor):
    code, (error,) = doctor(sets(Path("none"), held=("ant",)), "Naming")
    assert code == 1 and "label 0 is 'cat' in class_names of Naming and 'ant' in the training set" in error


def weights(*names: str) -> Path:
    model = Classifier(net=NetConfig(variant="mu/8"), num_classes=len(names), image_size=16)
    content = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams), "class_names": list(names)}
    torch.save(content | {"pytorch-lightning_version": "2.5.0"}, "named.ckpt")
    return Path("named.ckpt")


@pytest.mark.parametrize(
    ("kind", "names", "said"),
    [
        ("Own", ["ant", "bee", "cat"], None),
        ("Own", ["cat", "bee", "ant"], "class 0 is 'ant' in the data but 'cat' in the weights"),
        ("Nameless", ["0", "1", "2"], None),
        ("Nameless", ["ant", "bee", "cat"], "Nameless names no classes, and the weights do (ant, bee, cat)"),
    ],
)
def test_weights_with_names_and_a_module_without(doctor, kind, names, said):
    code, errors = doctor(sets(Path("none"), held=("ant",)), kind, "--model.weights", weights(*names))
    assert code == (said is not None), errors
    assert (said or "") in "".join(errors)
    again = "--model.weights", weights(*names), "--model.weights_head", "reset"
    assert doctor(Path("none"), kind, *again) == (0, [])
