"""Which images a file of scores says it is of, and of which state of a net."""

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from datamodules.synthetic import Synthetic
from vit_lightning.callbacks.score_file import ScoreFile
from vit_lightning.callbacks.scored_sets import scored_sets
from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule
from vit_lightning.runs.checkpoint_names import fingerprint


class Named:
    """Images that have names and labels."""

    def __init__(self, keys, labels, **more):
        self.keys, self.labels = keys, np.array(labels)
        self.__dict__ |= more

    def __len__(self):
        return len(self.keys)


class Data(ImageDataModule):
    """Data of which a test set is given."""

    class_names = ["cat", "dog"]  # noqa: RUF012
    num_classes = 2

    def setup(self, stage):
        pass

    def __init__(self, test, **further):
        super().__init__(image_size=8)
        self.test_set, self.further_sets = test, further


def digest(keys=("a.jpg", "b.jpg"), labels=(0, 1)):
    return scored_sets(Data(Named(list(keys), labels)), "test")["split"]["sha256"]


def test_names_and_labels_tell_images_apart():
    assert digest() == digest() and len(digest()) == 64
    assert len({digest(), digest(keys=("a.jpg", "c.jpg")), digest(labels=(1, 0)), digest(("a.jpg",), (0,))}) == 4


def test_every_set_stands_by_itself_and_images_without_names_have_no_hash():
    own, night = Named(["a", "b"], [0, 1]), Named(["c"], [1])
    found = scored_sets(Data(own, night=night), "test")
    assert list(found) == ["split", "night"] and found["split"]["sha256"] != found["night"]["sha256"]
    assert found["night"]["published"] is False
    for unnamed in (Named(range(2), [0, 1]), Named(["a", "b"], [0, 1], blocks=np.zeros(2, int))):
        assert scored_sets(Data(unnamed), "test")["split"]["sha256"] is None
    assert scored_sets(Data(None), "test") == {} and scored_sets(object(), "test") == {}


def scored(folder: Path, flip: bool = False, members: tuple[str, ...] = ()) -> dict:
    """What a test of a checkpoint, alone or with others, leaves."""
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8, flip=flip)
    if members:
        model.answering.members = SimpleNamespace(paths=list(members))
        model.answering.prepare(fits=False)
        model.answering.names["member1"] = str(folder / "best.ckpt")
        alone = {f"member{number}": SimpleNamespace(scores={"top1": 0.5}) for number in range(1 + len(members))}
        model.answering.alone = {"test": alone}
    trainer = SimpleNamespace(is_global_zero=True, callback_metrics={"test/top1": torch.tensor(0.5)})
    trainer.datamodule = Synthetic()
    ScoreFile(folder, str(folder / "best.ckpt")).on_test_end(trainer, model)
    return json.loads((folder / f"test{'.mean' * bool(members)}.json").read_text())


@pytest.mark.parametrize("flip", [False, True])
def test_an_ensemble_says_whether_mirror_images_have_answered(tmp_path, flip):
    assert scored(tmp_path, flip, ("hf://owner/net",)).get("flip", False) is flip


def save(path: Path, value: float) -> str | None:
    torch.save({"weight": torch.full((9,), value)}, path)
    return fingerprint(path)


def test_a_checkpoint_is_known_by_what_it_holds(tmp_path):
    first, other = save(tmp_path / "best.ckpt", 1.0), save(tmp_path / "b.ckpt", 2.0)
    assert first and other and first != other and save(tmp_path / "c.ckpt", 1.0) == first
    assert scored(tmp_path)["fingerprint"] == first
    members = scored(tmp_path, members=(str(tmp_path / "b.ckpt"), "hf://owner/net"))["members"]
    assert [member.get("fingerprint") for member in members] == [first, other, None]
    (tmp_path / "cut.ckpt").write_bytes((tmp_path / "b.ckpt").read_bytes()[:400])
    assert fingerprint(tmp_path / "cut.ckpt") is None and fingerprint(tmp_path / "gone.ckpt") is None


def test_a_sharded_checkpoint_is_known_by_its_facts(tmp_path):
    (tmp_path / ".metadata").touch()
    with zipfile.ZipFile(tmp_path / "meta.pt", "w") as file:
        file.writestr("a", "b")
    first = fingerprint(tmp_path)
    (tmp_path / "meta.pt").write_bytes(b"other")
    assert first and fingerprint(tmp_path) not in (None, first)
