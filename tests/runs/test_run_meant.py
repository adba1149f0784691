"""Which run is named where a path names none."""

import os
import warnings
import zipfile
from pathlib import Path

import pytest

from vit_lightning.errors import InputError
from vit_lightning.runs import folders


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """runs/pets/9, older than runs/digits/2 and runs/digits/10."""
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(("pets/9", "digits/2", "digits/10")):
        path = tmp_path / "runs" / name
        (path / "checkpoints").mkdir(parents=True)
        os.utime(path, (age, age))
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("./runs/nosuch", "give a run folder, such as runs/digits/10, the newest there"),
        ("nosuch", "give a run folder, such as runs/digits/10, the newest there"),
        ("runs/digits/7", "give a run folder, such as runs/digits/10, the newest there"),
        ("runs/digit/2", "did you mean runs/digits/2?"),
        ("pets/9", "did you mean runs/pets/9?"),
        ("runs/pets/9/checkpoints/x", "did you mean runs/pets/9?"),
    ],
)
def test_a_run_that_is_there_is_named(runs, word, said):
    assert folders.not_a_run(Path(word)) == f"no such file or folder; {said}"


def test_where_there_is_no_run_none_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert folders.not_a_run(Path("runs/digits/0")) == "no such file or folder; give a run folder"
    assert folders.not_a_run(Path("empty")) == "a folder without config.yaml and checkpoints; give a run folder"


def checkpoint(path: Path, whole: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "x" * 1000)
    if not whole:
        path.write_bytes(path.read_bytes()[:500])
    return path


def test_where_best_and_last_are_damaged_the_state_before_is_named_and_nothing_is_taken(tmp_path):
    for name in ("best", "last"):
        checkpoint(tmp_path / "checkpoints" / f"{name}.ckpt", whole=False)
    checkpoint(tmp_path / "checkpoints/previous.ckpt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"best.ckpt is damaged: .* give previous.ckpt beside it in its place$"):
            folders.trained_checkpoint(tmp_path)
        with pytest.raises(InputError, match=r"give --ckpt_path last to take \S*previous.ckpt$"):
            folders.trained_checkpoint(tmp_path, "best")
