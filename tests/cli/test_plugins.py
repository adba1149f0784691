"""Datamodules by their short names."""

from importlib.metadata import EntryPoint

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
