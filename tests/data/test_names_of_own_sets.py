"""Names that own sets carry stand wherever those of our own data do: plan, tables, predictions and checkpoints."""

import csv
import json

import pytest
import torch

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule

NAMES = ["ant", "bee", "cat"]
PLUGIN = """
import torch
from vit_lightning.data import ImageDataModule


class Records:
    def __init__(self, classes, as_dicts):
        self.classes, self.as_dicts = classes, as_dicts

    def __len__(self):
        return 12

    def __getitem__(self, index):
        image, label = torch.full((3, 16, 16), 20 * index, dtype=torch.uint8), index % 3
        return {"image": image, "label": label} if self.as_dicts else (image, label)


class Insects(ImageDataModule):
    num_classes = 3

    def __init__(self, names: list[str], as_dicts: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.names, self.as_dicts = names, as_dicts

    def setup(self, stage):
        self.train_set, self.val_set, self.test_set = (Records(self.names, self.as_dicts) for _ in range(3))
"""
WORDS = ("--trainer.accelerator", "cpu", "--data.image_size", 16, "--data.batch_size", 6, "--data.num_workers", 0)
NET = ("--model.net.variant", "mu/8")


@pytest.fixture
def insects(app, tmp_path, monkeypatch):
    """Fit, test or predict with a datamodule of someone else."""
    (tmp_path / "insects.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(verb, *words, names=NAMES, as_dicts=True, data="insects.Insects"):
        own = ("--data", data, "--data.names", json.dumps(names), "--data.as_dicts", str(as_dicts).lower())
        done = app(verb, *own, *WORDS, *words)
        assert "Traceback" not in done.err
        return done

    return run


def column(path, name) -> list[str]:
    with path.open() as file:
        return [row[name] for row in csv.DictReader(file)]


@pytest.mark.parametrize("as_dicts", [True, False])
def test_they_stand_in_all_that_a_run_writes(insects, app, tmp_path, as_dicts):
    done = insects("fit", *NET, as_dicts=as_dicts)
    assert done.code == 0 and "classes  3: ant, bee, cat" in done.out, done.err
    run = tmp_path / "runs/default/0"
    checkpoint = run / "checkpoints/last.ckpt"
    assert torch.load(checkpoint, weights_only=True)["class_names"] == NAMES
    assert app("test", run, *WORDS).code == 0
    assert column(run / "test.classes.csv", "class") == NAMES
    assert set(column(run / "test.mistakes.csv", "predicted")) <= set(NAMES)
    assert app("predict", run, *WORDS).code == 0
    assert set(column(run / "predictions.csv", "label")) == set(NAMES)
    assert app("export", run, tmp_path / "out", "--to", "safetensors").code == 0
    card = "".join(file.read_text() for file in (tmp_path / "out").rglob("*.md"))
    assert "0. ant\n1. bee\n2. cat" in card


def test_they_are_held_against_those_of_a_checkpoint(insects, tmp_path):
    assert insects("fit", *NET).code == 0
    checkpoint = tmp_path / "runs/default/0/checkpoints/last.ckpt"
    assert insects("test", "--ckpt_path", checkpoint, names=["Ant", "bee", "cat"]).code == 0
    for verb in ("test", "predict", "fit"):
        done = insects(verb, "--ckpt_path", checkpoint, names=["cat", "bee", "ant"])
        assert done.code == 1 and "class 0 is 'cat' in the data but 'ant' in the checkpoint" in done.err, verb
    facts = torch.load(checkpoint, weights_only=True)
    facts["class_names"] = ["0", "1", "2"]  # as an earlier version wrote them, beside what its sets carried
    torch.save(facts, tmp_path / "numbered.ckpt")
    assert insects("test", "--ckpt_path", tmp_path / "numbered.ckpt").code == 0
    done = insects("test", "--ckpt_path", tmp_path / "numbered.ckpt", names=["wasp", "bee", "cat"])
    assert done.code == 1 and "the data alone have 'wasp'; the checkpoint alone has 'ant'" in done.err


class Records(list):
    """A set that may name its classes."""

    def __init__(self, classes: list[str] | None = None) -> None:
        super().__init__((torch.zeros(3, 8, 8, dtype=torch.uint8), index % 3) for index in range(6))
        self.classes = classes


class Own(ImageDataModule):
    """A third party's data."""

    num_classes = 3

    def setup(self, stage: str) -> None:
        pass


def test_they_are_known_once_the_sets_are():
    data = Own(image_size=8, augment=Augment(crop="none"))
    assert data.class_names == ["0", "1", "2"]
    for train, test, names in (
        (Records(NAMES), None, NAMES),
        (Records(), Records(["x", "y", "z"]), ["x", "y", "z"]),
        (Records(["ant", "bee"]), None, ["0", "1", "2"]),  # not all classes
        (Records(), None, ["0", "1", "2"]),
        (None, None, ["0", "1", "2"]),
    ):
        data.train_set, data.test_set = train, test
        assert data.class_names == names
        data.class_names.append("not the data's")
        assert data.class_names == names


def test_a_checkpoint_of_numbers_is_taken_by_number(insects, tmp_path):
    """As one that was trained before its set carried names."""
    assert insects("fit", *NET).code == 0
    facts = torch.load(tmp_path / "runs/default/0/checkpoints/last.ckpt", weights_only=True)
    facts["class_names"] = ["0", "1", "2"]
    del facts["seen_labels"]
    torch.save(facts, tmp_path / "numbered.ckpt")
    with pytest.warns(
        UserWarning, match="the checkpoint calls its classes by numbers, and the data ant, bee, cat: they"
    ):
        assert insects("test", "--ckpt_path", tmp_path / "numbered.ckpt").code == 0
