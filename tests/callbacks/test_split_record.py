"""What a run's folder says of its sets: images, their hash, and the classes without one."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from datamodules.digits import Digits
from vit_lightning.callbacks.split_record import SplitRecord, split_facts


class Images(SimpleNamespace):
    def __len__(self) -> int:
        return 3


def test_the_hash_is_of_the_keys_in_order():
    facts = split_facts(Images(keys=["b", "a", "\udcff"]), [])
    assert facts["images"] == 3 and facts["sha256"] == hashlib.sha256(b"b\na\n\xff\n").hexdigest()
    assert split_facts(Images(keys=["a", "b", "\udcff"]), [])["sha256"] != facts["sha256"]
    assert split_facts(Images(), [])["sha256"] == hashlib.sha256(b"0\n1\n2\n").hexdigest()


@pytest.mark.parametrize(
    ("labels", "absent"),
    [
        ({"labels": [2, 0, 2]}, ["y"]),
        ({"labels": [2, 0, -100]}, ["y"]),
        ({"labels": [2, 0, 1]}, []),
        ({"labels": np.eye(3)}, None),
        ({}, None),
    ],
)
def test_classes_without_an_image_are_named(labels, absent):
    assert split_facts(Images(**labels), ["x", "y", "z"])["absent_classes"] == absent


@pytest.mark.parametrize("published", [True, False])
def test_a_fit_leaves_the_record_of_its_splits_in_its_folder(app, monkeypatch, published):
    monkeypatch.setattr(Digits, "has_published_splits", published)
    words = "--model.net.variant mu/4 --data Digits --data.image_size 8 --data.num_workers 0 --trainer.accelerator cpu"
    done = app("fit", *words.split(), "--trainer.max_steps", 1, "--data.fraction", 0.5)
    assert done.code == 0, done.err
    facts = json.loads(Path("runs/default/0/splits.json").read_text())
    if not published:
        assert list(facts) == ["val"] and facts["val"]["published"] is False
        return
    assert list(facts) == ["train", "val", "test"]
    assert all(len(facts[split]["sha256"]) == 64 and facts[split]["images"] > 50 for split in facts)
    assert len({facts[split]["sha256"] for split in facts}) == 3 and facts["test"]["absent_classes"] == []


class Own(Digits):
    """Data whose three sets differ."""

    has_published_splits = True

    def __init__(self, **sets) -> None:
        super().__init__(image_size=8)
        self.train_set, self.val_set, self.test_set = (sets.get(name) for name in ("train", "val", "test"))


def test_each_set_stands_under_its_own_name_once(tmp_path):
    sets = {
        name: Images(keys=[f"{name}{number}" for number in range(3)], labels=[1, 1, 1]) for name in ("train", "test")
    }
    record = SplitRecord(tmp_path)
    record.on_train_batch_start(SimpleNamespace(datamodule=Own(**sets)), None, None, 0)
    facts = json.loads((tmp_path / "splits.json").read_text())
    names = Own().class_names
    assert facts == {name: split_facts(images, names) for name, images in sets.items()}
    assert facts["test"]["absent_classes"] == [names[0], *names[2:]]
    (tmp_path / "splits.json").write_text("of the run that goes on")
    for again in (record, SplitRecord(tmp_path)):
        again.on_train_batch_start(SimpleNamespace(datamodule=Own(**sets)), None, None, 0)
    assert (tmp_path / "splits.json").read_text() == "of the run that goes on"


class Drawn(Own):
    """The same without published splits."""

    has_published_splits = False


def test_of_other_splits_the_validation_images_are_recorded_by_each_part(tmp_path):
    """Names and labels in the form of a file of scores: class names, an empty line, keys, then labels as int64."""
    path = tmp_path / "splits.json"
    train, labels = Images(keys=["t0", "t1", "t2"], labels=np.array([1, 1, 1])), np.array([1, 0, 2])
    for keys in (["a", "b", "c"], ["a", "b", "d"]):
        data = Drawn(train=train, val=Images(keys=keys, labels=labels))
        SplitRecord(tmp_path).on_train_batch_start(SimpleNamespace(datamodule=data), None, None, 0)
        text = "".join(f"{name}\n" for name in (*data.class_names, "", *keys)).encode()
        digest = hashlib.sha256(text + labels.astype("<i8").tobytes()).hexdigest()
        assert json.loads(path.read_text()) == {"val": {"images": 3, "published": False, "sha256": digest}}
    for sets in ({"train": train}, {"val": Images()}):  # none, and one without names
        SplitRecord(tmp_path).on_train_batch_start(SimpleNamespace(datamodule=Drawn(**sets)), None, None, 0)
        assert not path.exists()
