"""What a run was told of its data, from configs made by hand."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.cli import run_data
from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.run_data import is_own, leave_split, overridden, place, source_of
from vit_lightning.errors import InputError


class Line:
    """A command line of a verb with some flags."""

    def __init__(self, verb: str = "test", **flags: str) -> None:
        self.verb, self.flags = verb, {f"--data.{name}": value for name, value in flags.items()}

    def value(self, name: str) -> str | None:
        return self.flags.get(name)

    def has(self, name: str) -> bool:
        return name in self.flags


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that was started in `there`, while we are in `here`."""
    for name in ("there/pets", "here", "run"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "run/config.yaml").write_text(
        "data:\n  class_path: Manifest\n  init_args: {root: pets, train: t.csv}\n"
    )
    (tmp_path / "run/env.json").write_text(json.dumps({"folder": str(tmp_path / "there")}))
    return tmp_path / "run"


def placed(run, line: Line | None = None, **told) -> dict:
    data = {"init_args": told}
    place(data, run, line or Line())
    return data["init_args"]


def test_paths_start_where_the_run_was_started(run, tmp_path):
    there = tmp_path / "there"
    (there / "map.txt").touch()
    assert placed(run, root="pets", class_map="map.txt") == {
        "root": str(there / "pets"),
        "class_map": str(there / "map.txt"),
    }
    for given in ("s3://bucket/pets", str(tmp_path / "pets"), "~/pets", None):
        assert placed(run, root=given) == {"root": given}
    (tmp_path / "here/only").mkdir()
    assert placed(run, root="only") == {"root": "only"}
    with pytest.raises(InputError, match=r"the run's data lie in gone, which is neither in .*there, where it was"):
        placed(run, root="gone")
    assert placed(run, Line(root="other"), root="gone") == {"root": "gone"}
    assert placed(run, class_map="gone.txt") == {"class_map": "gone.txt"}
    (run / "env.json").write_text("{}")
    assert placed(run, root="pets") == {"root": "pets"}


@pytest.mark.parametrize(("verb", "takes_own"), [("test", True), ("fit", False)])
def test_a_split_that_the_run_has_kept_takes_the_place_of_the_file(run, tmp_path, verb, takes_own):
    (tmp_path / "there/s.csv").touch()
    (run / "split.csv").touch()
    found = placed(run, Line(verb), split_file="s.csv")["split_file"]
    assert found == str(run / "split.csv" if takes_own else tmp_path / "there/s.csv")
    assert placed(run, Line(verb), split_file=None) == {"split_file": None}
    assert placed(run, Line(verb), split_file="gone.csv") == {"split_file": str(run / "split.csv")}


TOLD = {"root": "pets", "train": "t.csv", "test": "own.csv", "split_seed": 3, "group_column": "dog", "image_size": 8}


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ({}, False),
        ({"test": "own.csv"}, False),
        ({"test": "./own.csv"}, False),
        ({"test": "null"}, False),
        ({"test": "else.csv"}, True),
        ({"val": "else.csv"}, True),
        ({"test": "own.csv", "root": "other"}, True),
    ],
)
def test_a_table_of_other_data_is_scored_without_the_runs_split(flags, left):
    data = {"init_args": {"val": "v.csv"} | TOLD}
    leave_split(Line(**flags), data)
    expected = {"root": "pets", "train": None, "image_size": 8} if left else {"val": "v.csv"} | TOLD
    assert data["init_args"] == expected


def test_data_without_a_training_table_keep_their_split():
    data = {"init_args": {"root": "pets", "split_seed": 3}}
    leave_split(Line(test="else.csv"), data)
    assert data["init_args"] == {"root": "pets", "split_seed": 3}


def test_data_are_known_by_their_root_tables_and_split(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = SimpleNamespace(init_args={"root": "pets", "test": "t.csv", "split_file": "s.csv", "batch_size": 4})
    assert source_of(data) == {"root": str(tmp_path / "pets"), "test": "t.csv", "split_file": "s.csv"}
    assert source_of(SimpleNamespace(init_args={"root": "s3://pets"})) == {"root": "s3://pets"}
    assert source_of(None) == {}
    further = SimpleNamespace(init_args={"also": {"night": "night", "dusk": "/dusk"}})
    assert source_of(further) == {"also.night": str(tmp_path / "night"), "also.dusk": "/dusk"}
    assert source_of(SimpleNamespace(init_args={"also": ("real", "v2")})) == {}


@pytest.mark.parametrize(
    ("kind", "told", "own"),
    [
        ("datamodules.manifest.Manifest", {"root": "{there}/pets", "train": "t.csv"}, True),
        ("Manifest", {"root": "{there}/pets", "train": "{there}/pets/t.csv", "split_file": "s.csv"}, True),
        ("Manifest", {"root": "{there}/pets", "train": "t.csv", "test": "else.csv"}, False),
        ("Manifest", {"root": "{there}/pets", "train": "u.csv"}, False),
        ("Manifest", {"root": "{there}", "train": "t.csv"}, False),
        ("ImageFolder", {"root": "{there}/pets", "train": "t.csv"}, False),
    ],
)
def test_the_runs_own_data_are_known_whichever_way_they_are_named(run, tmp_path, kind, told, own):
    told = {name: value.format(there=tmp_path / "there") for name, value in told.items()}
    assert is_own(SimpleNamespace(class_path=kind, init_args=told), run) == own
    assert is_own(SimpleNamespace(class_path=kind, init_args=told | {"also": {"night": "x"}}), run) == own


def test_where_nobody_knows_or_the_data_were_moved_they_are_the_runs_own(run, tmp_path):
    moved = SimpleNamespace(class_path="Manifest", init_args={"root": str(tmp_path / "moved"), "train": "t.csv"})
    assert not is_own(moved, run) and is_own(moved, None)
    (tmp_path / "there/pets").rmdir()
    assert is_own(moved, run)


TRAINED = "image_size: 16, channels: null, window: [0, 4095], mean: null, augment: {evaluation: resize, zoom: 0.9}"


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"image_size": 16, "channels": None, "window": [0, 4095], "mean": None}, {}),
        ({"image_size": [16, 16], "channels": 3, "window": (0.0, 4095.0), "std": None, "batch_size": 7}, {}),
        ({"image_size": None, "window": None}, {}),
        ({"window": [0.0, 65535.0]}, {"window": "[0.0, 65535.0]"}),
        ({"image_size": (16, 24), "channels": 1, "mean": [0.4]}, None),
        ({"augment": {"evaluation": "resize", "zoom": 0.9, "flip": False}}, {}),
        ({"augment": SimpleNamespace(evaluation="center", zoom=0.9)}, {"augment.evaluation": "center"}),
    ],
)
def test_images_that_are_seen_otherwise_than_in_training_are_told(run, told, found):
    (run / "config.yaml").write_text(f"data:\n  class_path: Manifest\n  init_args: {{{TRAINED}}}\n")
    found = {"image_size": "[16, 24]", "channels": "1", "mean": "[0.4]"} if found is None else found
    data = SimpleNamespace(class_path="Manifest", init_args=told)
    assert overridden(data, run) == found and overridden(data, None) == {}


@pytest.mark.parametrize("flag", ["--data.augment.evaluation", "--data.augment", ""])
def test_what_brings_images_to_size_may_be_typed_for_all_runs(monkeypatch, flag):
    ways = {"a.ckpt": "evaluation resize", "b.ckpt": "evaluation center"}
    monkeypatch.setattr(run_data, "_brought_to_size", lambda source: ways[source.name])
    line = CommandLine(["test", *([flag, "center"] if flag else [])])
    with (
        nullcontext()
        if flag
        else pytest.raises(InputError, match=r"images of b\.ckpt were .*center, and those of a\.ckpt")
    ):
        run_data.check_brought_to_size(line, Path("a.ckpt"), ["b.ckpt"])
