"""What a process of a run stands on."""

import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from vit_lightning.runs import environment as module
from vit_lightning.runs.environment import environment


def test_the_commit_is_that_of_the_code_wherever_a_run_starts(tmp_path, monkeypatch):
    clone = Path(module.__file__).parent
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True)
    if head.returncode:
        pytest.skip("the code lies in no clone")
    monkeypatch.chdir(tmp_path)
    assert environment("cpu")["git_commit"] == head.stdout.strip()


def test_the_environment_names_what_a_run_stood_on(monkeypatch):
    monkeypatch.setattr("sys.argv", ["main.py", "fit", "--a"])
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    found = environment("cuda:0", "NVIDIA X")
    assert (found["device"], found["device_name"]) == ("cuda:0", "NVIDIA X")
    assert (found["command"], found["slurm_job"], found["cpus"]) == (*(["main.py", "fit", "--a"], "7", 96),)
    names = ("vit-lightning", "torch", "torchvision", "lightning", "torchmetrics", "einops", "jsonargparse")
    assert set(found["versions"]) >= {"python", *names}
    assert found["versions"]["torch"] == version("torch") and found["versions"]["einops"] == version("einops")
    assert isinstance(found["git_dirty"], bool)


def test_the_environment_names_the_packages_of_plug_ins(monkeypatch, tmp_path):
    info = tmp_path / "birds-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: birds\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text("[vit_lightning.datamodules]\nBirds = birds:Birds\n")
    assert "birds" not in environment("cpu")["versions"]
    monkeypatch.syspath_prepend(tmp_path)
    assert environment("cpu")["versions"]["birds"] == "1.5"


@pytest.mark.parametrize(("changes", "dirty"), [("", False), (" M a.py", True)])
def test_changes_beside_the_commit_are_noted(monkeypatch, changes, dirty):
    said = {"ls-files": "environment.py", "rev-parse": "abc", "status": changes}
    monkeypatch.setattr(module, "_git", lambda verb, *words, folder: said[verb])
    found = environment("cpu")
    assert (found["git_commit"], found["git_dirty"]) == ("abc", dirty)


def test_code_outside_a_clone_has_the_commit_of_the_folder_it_runs_in(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "_git", lambda verb, *words, folder: asked.append((verb, folder)) or None)
    assert environment("cpu")["git_commit"] is None
    assert asked[1:] == [("rev-parse", Path()), ("status", Path())]


def test_git_is_asked_in_the_folder_and_what_it_refuses_is_unknown(tmp_path, monkeypatch):
    for words in (
        ("init", "-q"),
        ("-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "x"),
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, env=os.environ | {"HOME": str(tmp_path)})
    head = module._git("rev-parse", "HEAD", folder=tmp_path)
    assert head is not None and len(head) == 40 and head.isalnum()
    assert module._git("rev-parse", "no-such", folder=tmp_path) is None
    assert module._git("status", "--porcelain", folder=tmp_path) == ""
    (tmp_path / "new").touch()
    assert module._git("status", "--porcelain", folder=tmp_path) == "?? new"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "none" / "environment.py"))
    (tmp_path / "none").mkdir()
    found = environment("cpu")
    assert (found["git_commit"], found["git_dirty"]) == (head, True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert module._git("rev-parse", "HEAD", folder=tmp_path) is None
