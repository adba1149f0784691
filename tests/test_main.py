"""The door: with which status it ends, and what it does with garbage."""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

from vit_lightning import __main__ as door

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
