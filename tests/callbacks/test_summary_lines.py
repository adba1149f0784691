"""Each line of a fit's end, from facts made by hand."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from datamodules.synthetic import Synthetic
from vit_lightning.callbacks import summary as module
from vit_lightning.callbacks.summary import RunSummary
from vit_lightning.callbacks.throughput import Throughput

ONE, SEVERAL = (torch.zeros(2, 3), torch.zeros(2)), (torch.zeros(2, 3), torch.zeros(2, 4))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of ten steps with its best and last checkpoint, and its lines by their first word."""
    monkeypatch.chdir(tmp_path)
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints/last.ckpt").touch()
    best = ModelCheckpoint(monitor="val/top1", mode="max")
    best.best_model_path, best.best_model_score = str(folder / "checkpoints/best.ckpt"), torch.tensor(0.75)
    data = Synthetic()
    data.test_set = [1]
    trainer = SimpleNamespace(
        is_global_zero=True,
        global_step=10,
        sanity_checking=False,
        checkpoint_callbacks=[SimpleNamespace(), best],
        callbacks=[],
        callback_metrics={"val/top1": torch.tensor(0.5)},
        datamodule=data,
        lightning_module=None,
        world_size=1,
    )
    return SimpleNamespace(summary=RunSummary(folder), trainer=trainer, best=best, clock=clock, folder=folder)


def lines(run, capsys, batches: int = 1, validated: int | None = 10) -> dict[str, str]:
    run.summary.on_fit_start(run.trainer, None)
    run.clock.now += 90
    if batches:
        run.summary.on_train_batch_end(run.trainer, None, None, None, 0)
    if validated is not None:
        end, run.trainer.global_step = run.trainer.global_step, validated
        run.summary.on_validation_end(run.trainer, None)
        run.trainer.global_step = end
    run.summary.on_fit_end(run.trainer, None)
    out = capsys.readouterr().out.splitlines()
    return {line[:9].strip(): line[9:] for line in out}


def test_the_best_and_the_last_score_are_their_own(run, capsys):
    assert lines(run, capsys) == {
        "best": "run/checkpoints/best.ckpt (top-1 75.00 %)",
        "last": "run/checkpoints/last.ckpt (top-1 50.00 %)",
        "time": "1 min 30 s",
        "run": "run",
        "next": "python -m vit_lightning test run",
    }


@pytest.mark.parametrize("validated", [9, None])
def test_a_score_of_other_weights_is_not_the_last_s(run, capsys, validated):
    assert lines(run, capsys, validated=validated)["last"] == "run/checkpoints/last.ckpt"


def test_a_check_before_training_is_no_validation(run, capsys):
    run.trainer.sanity_checking = True
    assert lines(run, capsys)["last"] == "run/checkpoints/last.ckpt"


def test_scores_are_named_after_the_first_set(run, capsys):
    for number, batch in ((0, SEVERAL), (1, ONE)):
        run.summary.on_validation_batch_end(run.trainer, None, None, batch, 0, number)
    assert lines(run, capsys)["best"].endswith("(precision at 1 75.00 %)")


def test_a_metric_of_ones_own_and_patches_have_their_names(run, capsys):
    run.best.monitor = "val/mine"
    run.trainer.callback_metrics["val/mine"] = torch.tensor(1234.5)
    found = lines(run, capsys)
    assert found["best"].endswith("(val/mine 0.75)") and found["last"].endswith("(val/mine 1,234)")
    run.best.monitor, run.trainer.lightning_module = "val/top1", SimpleNamespace(scored_unit="patch")
    assert lines(run, capsys)["best"].endswith("(patch top-1 75.00 %)")
    run.best.monitor = "val/loss"
    assert lines(run, capsys)["best"].endswith("(loss 0.75)")


def test_without_a_best_the_last_is_tested_and_without_both_nothing(run, capsys):
    run.best.best_model_path = ""
    found = lines(run, capsys)
    assert "best" not in found and found["next"] == "python -m vit_lightning test run/checkpoints/last.ckpt"
    (run.folder / "checkpoints/last.ckpt").unlink()
    assert list(lines(run, capsys)) == ["time", "run"]


def test_without_a_test_set_it_is_validated(run, capsys):
    run.trainer.datamodule.test_set = None
    assert lines(run, capsys)["next"] == "python -m vit_lightning report run"  # nor a validation set
    run.trainer.datamodule.val_set = [(None, 0)]
    assert lines(run, capsys)["next"] == "python -m vit_lightning validate run"
    run.trainer.datamodule = None
    assert lines(run, capsys)["next"] == "python -m vit_lightning test run"


def test_a_run_that_falls_short_has_no_next(run, capsys, monkeypatch):
    falls = [False, True]
    monkeypatch.setattr(
        module, "bounds", lambda trainer: [SimpleNamespace(falls_short=lambda t, f=f: f) for f in falls]
    )
    assert "next" not in lines(run, capsys)
    falls[1] = False
    assert "next" in lines(run, capsys)


def test_where_nothing_was_left_it_is_said(run, capsys):
    found = lines(run, capsys, batches=0)
    assert any("the checkpoint has 10 optimiser steps; to go on, raise" in f"{a}{b}" for a, b in found.items())
    assert not any("allow_horizon_change" in rest for rest in found.values())


def test_other_processes_and_a_fit_without_a_step_say_nothing(run, capsys):
    run.trainer.is_global_zero = False
    assert lines(run, capsys) == {}
    run.trainer.is_global_zero, run.trainer.global_step = True, 0
    assert lines(run, capsys, validated=None) == {}


def test_time_speed_and_cost_are_those_of_the_throughput(run, capsys):
    throughput = Throughput()
    throughput.load_state_dict({"exaflops": 2.0, "device_hours": 1.0})
    throughput._timed_images, throughput._timed_seconds, throughput._timed_wait = 500, 2.0, 0.5
    run.trainer.callbacks, run.trainer.world_size = [throughput], 2
    found = lines(run, capsys)
    assert found["time"] == "1 min 30 s, 30 min 00 s with what came before, 250 images/s, waiting for data 25 %"
    assert found["cost"] == "2 exaFLOPs, 1 device hours"
    assert Path(found["run"]) == Path("run")
