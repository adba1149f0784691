"""Datamodules by their short names."""

from importlib.metadata import EntryPoint

import pytest

from vit_lightning.cli import plugins


def test_a_clone_that_is_not_installed_has_our_own_datamodules(monkeypatch):
    installed = plugins.datamodule_names()
    theirs = EntryPoint("Theirs", "their_package:Theirs", plugins.DATAMODULES)
    monkeypatch.setattr(plugins, "entry_points", lambda group: (theirs,))
    assert set(plugins.datamodule_names()) == {*installed, "Theirs"}
    assert "data.task" in plugins.data_flags("VTAB")


def test_beside_another_project_there_are_only_the_installed(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    monkeypatch.setattr(plugins, "PROJECT", tmp_path / "pyproject.toml")
    monkeypatch.setattr(plugins, "entry_points", lambda group: ())
    assert plugins.datamodule_names() == []


INCOMPLETE = """
from vit_lightning.data import ImageDataModule


class NoSetup(ImageDataModule):
    num_classes = 2


class Nothing(ImageDataModule):
    pass
"""


@pytest.mark.parametrize(("name", "lacking"), [("NoSetup", "setup"), ("Nothing", "num_classes and setup")])
def test_a_datamodule_that_lacks_something_is_told_what(app, tmp_path, monkeypatch, name, lacking):
    (tmp_path / "incomplete.py").write_text(INCOMPLETE)
    monkeypatch.syspath_prepend(tmp_path)
    done = app("fit", "--data", f"incomplete.{name}")
    assert done.code == 1
    assert done.err == f"error: --data incomplete.{name} lacks {lacking}, which every class of its kind defines\n"


@pytest.mark.parametrize(
    ("flag", "name", "near"), [("data", "CIFR10", "CIFAR10"), ("model", "Clasifier", "Classifier")]
)
def test_help_of_a_misspelt_class_names_the_near_one(app, flag, name, near):
    done = app("fit", f"--{flag}.help", name)
    assert done.code == 1 and done.err.startswith(f"error: --{flag} {name}: no such ") and f"mean {near}?" in done.err


def test_a_folder_is_no_experiment(app, tmp_path):
    (tmp_path / "experiments").mkdir()
    done = app("fit", "-c", "experiments")
    assert done.code == 1 and done.err == "error: -c experiments is a folder; name a file in it\n"
