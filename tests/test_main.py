"""The door: which exceptions are one sentence, with which status it ends, and what it does with garbage."""

import gc
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from vit_lightning import __main__ as door
from vit_lightning.cli.exceptions import memory_error

FAULTS = {
    "operators": 'raise RuntimeError("operator torchvision::nms does not exist")',
    "below": "import torchvision.broken",
    "CUDA": 'raise RuntimeError("PyTorch and torchvision were compiled with different CUDA major versions.")',
}


@pytest.mark.parametrize("fault", FAULTS)
def test_builds_that_do_not_fit_are_named(monkeypatch, capsys, tmp_path, fault):
    """What torchvision itself does without its operators: it fails while it is imported."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision/__init__.py").write_text(FAULTS[fault] + "\n")
    (tmp_path / "torchvision/broken.py").write_text("from torch import no_such_name\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(door, "run", lambda words: __import__("torchvision"))
    monkeypatch.setattr(sys, "argv", ["vit_lightning", "fit"])
    assert door.main() == 1
    (said,) = capsys.readouterr().err.splitlines()
    torch, vision = version("torch"), version("torchvision")
    assert said.startswith(f"error: torchvision {vision} does not fit torch {torch} (")
    assert f"pip install --force-reinstall torch=={torch} torchvision" in said


def test_other_exceptions_are_no_matter_of_torchvision(monkeypatch, tmp_path):
    def fails() -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(door, "run", lambda words: fails())
    monkeypatch.setattr(sys, "argv", ["vit_lightning", "fit"])
    with pytest.raises(RuntimeError, match="shapes differ"):
        door.main()


COUNTS = """
import gc
import os
import signal
from pathlib import Path

from lightning.pytorch import Callback


class Count(Callback):
    def on_train_start(self, trainer, pl_module):
        Path("counted").write_text(f"{gc.isenabled()} {gc.get_freeze_count()} {gc.collect()} {len(gc.get_objects())}")
"""


def test_a_collection_amid_a_run_has_little_to_go_through(app, monkeypatch, tmp_path):
    """What was there before the run is left aside until it ends."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "counts.py").write_text(COUNTS)
    words = ("--data", "Synthetic", "--data.train_size", 16, "--data.batch_size", 8, "--model.net.variant", "mu/8")
    run = app(
        "fit", *words, "--trainer.accelerator", "cpu", "--trainer.max_epochs", 1, "--trainer.callbacks+=counts.Count"
    )
    assert run.code == 0, run.err
    enabled, frozen, _, watched = Path("counted").read_text().split()
    assert enabled == "True" and int(frozen) > 5 * int(watched)
    assert gc.get_freeze_count() == 0 and gc.isenabled()


def test_what_the_system_refuses_anywhere_is_one_sentence(app, monkeypatch):
    def refused(words: list[str]) -> None:
        raise PermissionError(13, "Permission denied", "runs/metrics.csv")

    monkeypatch.setattr(door, "run", refused)
    done = app("fit")
    assert done.code == 1 and done.err.startswith("error: runs/metrics.csv: Permission denied; ")


@pytest.mark.parametrize("words", [("--model.net.depth", 10**11), ("--model.net.variant", f"R50x{10**11}")])
def test_memory_that_does_not_suffice_is_one_sentence(app, words):
    done = app("fit", "--trainer.accelerator", "cpu", *words)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("error: the memory does not suffice")
    assert "--data.batch_size" in done.err.splitlines()[-1]


def test_what_a_gpu_wanted_is_named():
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of")
    assert memory_error(error).startswith("the memory does not suffice for 20.00 MiB; give a smaller net")
    assert memory_error(RuntimeError("shapes differ")) is None and memory_error(ValueError()) is None


def test_a_missing_file_that_we_ask_for_is_a_fault_of_ours(app, monkeypatch):
    def lost(words: list[str]) -> None:
        raise FileNotFoundError(2, "No such file or directory", "x")

    monkeypatch.setattr(door, "run", lost)
    with pytest.raises(FileNotFoundError):
        app("fit")


def interrupted() -> None:
    raise KeyboardInterrupt


def interrupted_in_lightning() -> None:
    try:
        interrupted()
    except KeyboardInterrupt:
        sys.exit(1)


@pytest.mark.parametrize("run", [interrupted, interrupted_in_lightning])
def test_ctrl_c_is_one_word_and_the_status_that_shells_have(monkeypatch, capsys, run):
    monkeypatch.setattr(door, "run", lambda words: run())
    assert door.main() == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_other_ends_keep_their_status(monkeypatch):
    monkeypatch.setattr(door, "run", lambda words: sys.exit(143))
    with pytest.raises(SystemExit) as end:
        door.main()
    assert end.value.code == 143


def test_sigterm_ends_what_scores_with_its_own_status(app, monkeypatch):
    """Lightning would end a test between two batches with 0."""
    from vit_lightning.classifier import Classifier

    words = ("--data", "Synthetic", "--data.train_size", 16, "--data.batch_size", 8, "--model.net.variant", "mu/8")
    assert app("fit", *words, "--trainer.accelerator", "cpu", "--trainer.max_epochs", 1).code == 0
    monkeypatch.setattr(Classifier, "test_step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    handler = signal.getsignal(signal.SIGTERM)
    done = app("test", *words, "--trainer.accelerator", "cpu", "--ckpt_path", "last")
    assert done.code == 143 and done.err.endswith("error: ended by SIGTERM before it was done\n")
    assert signal.getsignal(signal.SIGTERM) is handler
