"""Processes that tests start import the checkout that is tested, wherever they run and whatever is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import vit_lightning
from tests import kill_and_resume, processes

ROOT = Path(__file__).resolve().parents[1]


def test_the_tests_themselves_import_the_checkout():
    assert Path(vit_lightning.__file__).resolve().parents[1] == ROOT


def test_a_child_in_another_folder_imports_the_checkout(tmp_path):
    code = "import vit_lightning; print(vit_lightning.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).resolve().parents[1] == ROOT


STARTS = {
    "kill_and_resume": lambda folder: kill_and_resume.Runs(folder, folder / "x.yaml").start("x"),
    "interrupt": lambda folder: processes.interrupt(folder, 15, ("fit",)),
}


@pytest.mark.parametrize("start", STARTS)
def test_a_fit_in_another_folder_gets_the_checkout(start, tmp_path, monkeypatch):
    """Also where nobody has set PYTHONPATH, as in `python -m tests.kill_and_resume`."""
    given = []

    def popen(command, **settings):
        given.append(settings.get("env", os.environ)["PYTHONPATH"].split(os.pathsep)[0])
        raise OSError("not started")

    monkeypatch.setattr(subprocess, "Popen", popen)
    if start == "kill_and_resume":
        monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(OSError, match="not started"):
        STARTS[start](tmp_path)
    assert Path(given[0]) == ROOT
