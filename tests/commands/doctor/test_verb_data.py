"""What `doctor` asks of each set and of the machine, and how it prints what it finds."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.commands.doctor import verb as module
from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.machine import Machine
from vit_lightning.commands.doctor.verb import SHOWN, _data, _examine, _hidden_folders, _lines, _machine, _totals
from vit_lightning.errors import InputError

MODEL = SimpleNamespace(hparams={})


class Data(SimpleNamespace):
    """A datamodule of three sets, of which a test may take some away."""

    def __init__(self, **facts: object) -> None:
        usual = {"train_set": ["a"] * 9, "val_set": ["b"] * 4, "test_set": ["c"] * 2, "train_subset": ["a"] * 9}
        usual |= {
            "size": (8, 16),
            "channels": None,
            "window": None,
            "finds_window": False,
            "scored_alone": (),
            "batch_size": 5,
        }
        usual |= {"workers": 3, "num_classes": 2, "class_names": ["x", "y"], "further_sets": {}, "faults": []}
        usual |= {"pixel_form": "form", "mending": "m", "notices": [], "root": None, "on_error": "raise"}
        super().__init__(**usual | {"max_broken": 0.0, "sampler": "shuffled", "stages": []} | facts)

    def prepare_data(self) -> None:
        self.stages.append("prepare")

    def setup(self, stage: str) -> None:
        self.stages.append(stage)


@pytest.mark.parametrize(
    ("facts", "size", "loaders"),
    [
        ({}, 3 * 8 * 16 * 5, 2),
        ({"channels": 1}, 8 * 16 * 5, 2),
        ({"window": (0, 9)}, 4 * 3 * 8 * 16 * 5, 2),
        ({"finds_window": True}, 4 * 3 * 8 * 16 * 5, 2),
        ({"val_set": None}, 3 * 8 * 16 * 5, 1),
        ({"test_set": None}, 3 * 8 * 16 * 5, 2),
    ],
)
def test_shared_memory_holds_the_batches_of_a_fit_s_two_loaders(monkeypatch, facts, size, loaders):
    asked: list[tuple] = []
    monkeypatch.setattr(
        module.findings,
        "shared_memory",
        lambda machine, workers, batch, loaders: asked.append((workers, batch, loaders)) or [],
    )
    found = _machine(Machine(cores=8), Data(**facts))
    assert asked == [(3, size, loaders)]
    assert [one.topic for one in found] == ["batch", "device"] and "1 batch per epoch" in found[0].text
    assert [one.topic for one in _machine(Machine(cores=2), Data(train_set=None, train_subset=None))][-2:] == [
        "workers",
        "device",
    ]


@pytest.fixture
def examined(monkeypatch):
    looked: list[tuple] = []
    monkeypatch.setattr(module, "survey", lambda images, split, *facts: looked.append((split, len(images), *facts[:1])))
    monkeypatch.setattr(module, "labels_of", lambda images: images.check() if hasattr(images, "check") else None)
    monkeypatch.setattr(module, "names_at_odds", lambda data, *names: data.odds if hasattr(data, "odds") else "")
    monkeypatch.setattr(module, "needs_class", lambda data: True)

    def run(data: Data) -> tuple[list[tuple], list[Finding]]:
        trainer = SimpleNamespace(strategy=SimpleNamespace(connect=lambda model: None))
        surveys, found = _examine(trainer, MODEL, data)
        assert len(surveys) == len(looked) and data.trainer is trainer
        return looked, found

    return run


def test_each_set_is_looked_at_once(examined):
    looked, found = examined(Data())
    assert looked == [("training", 9, 2), ("validation", 4, 2), ("test", 2, 2)] and found == []


@pytest.mark.parametrize(
    ("facts", "stages"),
    [
        ({}, ["prepare", "fit"]),
        ({"test_set": None}, ["prepare", "fit", "test"]),
        ({"num_classes": None}, ["prepare", "predict"]),
    ],
)
def test_sets_that_a_fit_does_not_set_up_are_set_up_too(examined, facts, stages):
    data = Data(**facts)
    examined(data)
    assert data.stages == stages


def test_one_set_that_stands_for_two_is_looked_at_as_the_first(examined):
    held = ["b"] * 4
    looked, _ = examined(Data(val_set=held, test_set=held))
    assert [split for split, *_ in looked] == ["training", "validation"]


def test_equal_sets_that_are_two_are_both_looked_at(examined):
    looked, _ = examined(Data(val_set=["b"], test_set=["b"]))
    assert [split for split, *_ in looked] == ["training", "validation", "test"]


def test_what_is_there_is_looked_at_in_spite_of_errors(examined):
    class Broken(Data):
        def setup(self, stage: str) -> None:
            self.faults.extend(["a fault", "a fault", "another"])
            raise InputError("no test set")

        @property
        def pixel_form(self) -> str:
            raise InputError("no form")

        @pixel_form.setter
        def pixel_form(self, form: str) -> None: ...

    class Set(list):
        def check(self) -> None:
            raise InputError("labels that are none")

    looked, found = examined(Broken(odds="names at odds", val_set=Set("bb")))
    assert [split for split, *_ in looked] == ["training", "test"]
    assert [(one.severity, one.topic, one.text) for one in found] == [
        ("error", "data", "a fault"),
        ("error", "data", "another"),
        ("error", "data", "no test set"),
        ("error", "classes", "names at odds"),
        ("error", "data", "no form"),
        ("error", "labels", "labels that are none"),
    ]


def test_the_set_that_is_trained_on_and_scored_is_told():
    same = ["a"] * 3
    data = Data(train_set=same, train_subset=same, val_set=same, test_set=["c"], notices=["odd layout"])
    found = _data(MODEL, data, [], False)
    assert [(one.topic, one.text.partition(" set")[0]) for one in found] == [
        ("layout", "odd layout"),
        ("splits", "the validation"),
    ]


def test_folders_inside_a_hidden_one_are_not_counted(tmp_path):
    for name in ("a/.x/.deep", ".top/b", "a/b/c", "d/.y"):
        (tmp_path / name).mkdir(parents=True)
    assert sorted(_hidden_folders(tmp_path)) == ["./.top", "a/.x", "d/.y"]
    assert list(_hidden_folders(None)) == list(_hidden_folders(SimpleNamespace())) == []
    assert sorted(_hidden_folders(str(tmp_path))) == sorted(_hidden_folders(Path(tmp_path)))


@pytest.mark.parametrize("count", [0, 1, SHOWN, SHOWN + 1])
def test_the_first_items_of_a_finding_are_shown(count):
    items = tuple(f"{number}.png" for number in range(count))
    first, *rest = _lines([Finding("note", "x", "text", "do it", items)])
    shown = ", ".join(items[:SHOWN]) + ", ..." * (count > SHOWN)
    assert first == "note     text" + f": {shown}" * bool(count) and rest == ["         -> do it"]
    assert list(_lines([Finding("warning", "x", "text")])) == ["warning  text"]


def test_findings_are_counted_by_severity():
    found = [Finding(severity, "x", "y") for severity in ("note", "error", "note")]
    assert _totals(found) == "doctor   1 error, 0 warnings, 2 notes"
    assert _totals([]) == "doctor   0 errors, 0 warnings, 0 notes"
