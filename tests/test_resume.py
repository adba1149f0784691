"""Resuming: the same samples, the same random numbers, the same weights, whenever the run was stopped."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from vit_lightning.optim import Schedule

DATA = ("--data", "Synthetic", "--data.train_size", 72, "--data.eval_size", 24, "--data.batch_size", 8)
NET = ("--model.net.variant", "mu/8", "--model.net.dropout", 0.1, "--data.augment.mixup_alpha", 0.2)
FIT = ("fit", *DATA, *NET, "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1)
THREE = ("--trainer.max_epochs", 3, "--last.every_n_steps", 1)


def last(experiment: str) -> dict:
    return torch.load(f"runs/{experiment}/0/checkpoints/last.ckpt", weights_only=True)


def equal(first: dict, second: dict) -> bool:
    same = all(torch.equal(first["state_dict"][name], second["state_dict"][name]) for name in first["state_dict"])
    return same and first["global_step"] == second["global_step"]


def logged(experiment: str, column: str) -> list[tuple[int, str]]:
    with Path(f"runs/{experiment}/0/metrics.csv").open(newline="") as file:
        return [(int(row["step"]), row[column]) for row in csv.DictReader(file) if row.get(column)]


@pytest.fixture
def named(app):
    """Names an experiment by a file without settings."""

    def run(name: str, *words: object):
        Path(f"{name}.yaml").write_text("{}\n")
        return app(*FIT, "-c", f"{name}.yaml", *words)

    return run


@pytest.fixture
def crashing(tmp_path, monkeypatch):
    """A callback that dies at a step, as a killed process would: nothing is saved on the way out."""
    (tmp_path / "crash.py").write_text(
        "from lightning.pytorch import Callback\n"
        "class Crash(Callback):\n"
        "    def __init__(self, step: int):\n"
        "        self.step = step\n"
        "    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):\n"
        "        if trainer.global_step == self.step:\n"
        "            raise RuntimeError('killed')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda step: ("--trainer.callbacks+=crash.Crash", f"--trainer.callbacks.step={step}")


@pytest.mark.parametrize("step", [1, 8, 9, 10, 17, 26])
def test_a_killed_run_resumes_to_the_same_weights(named, crashing, step):
    """Inside an epoch, at its edge (9 steps an epoch) and just beside it."""
    assert named("whole", *THREE).code == 0
    with pytest.raises(RuntimeError, match="killed"):
        named("killed", *THREE, *crashing(step))
    assert last("killed")["global_step"] == step
    resumed = named("killed", *THREE, "--ckpt_path", "last")
    assert resumed.code == 0, resumed.err
    assert equal(last("whole"), last("killed"))
    for column in ("train/loss", "lr", "val/loss"):
        assert logged("killed", column) == logged("whole", column)


def test_accumulation_resumes_between_optimiser_steps(named, crashing):
    accumulated = (*THREE, "--trainer.accumulate_grad_batches", 2)
    assert named("whole", *accumulated).code == 0
    with pytest.raises(RuntimeError, match="killed"):
        named("killed", *accumulated, *crashing(7))
    assert named("killed", *accumulated, "--ckpt_path", "last").code == 0
    assert equal(last("whole"), last("killed"))


def test_a_run_cut_by_max_steps_goes_on(named):
    constant = ("--model.schedule.decay", "constant")
    assert named("whole", *constant, "--trainer.max_epochs", 3).code == 0
    assert named("cut", *constant, "--trainer.max_epochs", 3, "--trainer.max_steps", 13).code == 0
    assert named("cut", *constant, "--trainer.max_epochs", 3, "--ckpt_path", "last").code == 0
    assert equal(last("whole"), last("cut"))


def test_workers_do_not_change_what_is_seen(named, crashing):
    assert named("whole", *THREE).code == 0
    with pytest.raises(RuntimeError, match="killed"):
        named("killed", *THREE, "--data.num_workers", 2, *crashing(11))
    assert named("killed", *THREE, "--data.num_workers", 2, "--ckpt_path", "last").code == 0
    assert equal(last("whole"), last("killed"))


def test_a_truncated_last_falls_back_to_previous(named):
    assert named("cut", *THREE).code == 0
    checkpoint = Path("runs/cut/0/checkpoints/last.ckpt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    resumed = named("cut", *THREE, "--ckpt_path", "last")
    assert resumed.code == 0, resumed.err
    assert "previous.ckpt" in resumed.err
    assert last("cut")["global_step"] == 27


def test_sigterm_saves_and_leaves_nothing_half_written(tmp_path):
    Path(tmp_path, "term.yaml").write_text("{}\n")
    words = [*FIT, "-c", "term.yaml", "--trainer.max_epochs", 1000]
    process = subprocess.Popen(
        [sys.executable, "-m", "vit_lightning", *map(str, words)], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    metrics = tmp_path / "runs/term/0/metrics.csv"
    deadline = time.monotonic() + 120
    while not metrics.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    process.wait(timeout=60)
    folder = tmp_path / "runs/term/0/checkpoints"
    state = torch.load(folder / "last.ckpt", weights_only=True)
    assert state["global_step"] > 0
    assert not list(folder.glob("*.part"))


def test_a_changed_horizon_is_refused_unless_asked_for(named):
    """Case C10."""
    assert named("short", "--trainer.max_epochs", 1).code == 0
    refused = named("short", "--trainer.max_epochs", 2, "--ckpt_path", "last")
    assert refused.code == 1
    assert "planned for 9 optimiser steps and now has 18" in refused.err
    allowed = ("--ckpt_path", "last", "--model.schedule.allow_horizon_change", "true")
    done = named("short", "--trainer.max_epochs", 2, *allowed)
    assert done.code == 0, done.err
    formula = Schedule()
    curve = [(step, float(lr)) for step, lr in logged("short", "lr")]
    assert [step for step, _ in curve] == list(range(18))
    for step, lr in curve[9:]:
        assert lr == pytest.approx(formula.lr(step, 1e-3, 18), rel=1e-6)


def test_last_learning_rates_follow_the_formula_with_accumulation(app):
    """Case C10: 10 samples, batch 2, accumulation 2, 3 epochs: 9 steps; with 4 batches an epoch 6."""
    data = ("--data", "Synthetic", "--data.train_size", 10, "--data.eval_size", 4, "--data.batch_size", 2)
    fit = ("fit", *data, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.max_epochs", 3)
    fit += ("--trainer.accumulate_grad_batches", 2, "--trainer.log_every_n_steps", 1)
    assert app(*fit, "--model.schedule.warmup_steps", 3).code == 0
    seen = dict(logged("default", "lr"))
    assert {step: float(lr) for step, lr in seen.items()} == pytest.approx(
        {step: Schedule(warmup_steps=3).lr(step, 1e-3, 9) for step in range(9)}
    )
    assert app(*fit, "--trainer.limit_train_batches", 4).code == 0
    assert torch.load("runs/default/1/checkpoints/last.ckpt", weights_only=True)["global_step"] == 6
