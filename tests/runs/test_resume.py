"""Resuming: the same samples, the same random numbers, the same weights, whenever the run was stopped."""

import csv
from pathlib import Path

import pytest
import torch

from vit_lightning.training.optim import Schedule

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
    """A callback that dies in the step after a given one, with nothing saved on the way out."""
    (tmp_path / "crash.py").write_text(
        "from lightning.pytorch import Callback\n"
        "class Crash(Callback):\n"
        "    def __init__(self, step: int):\n"
        "        self.step = step\n"
        "    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):\n"
        "        if trainer.global_step > self.step:\n"
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
    cost, whole = logged("killed", "cost/exaflops"), logged("whole", "cost/exaflops")
    assert cost[-1] == whole[-1] and set(cost) <= set(whole)  # no speed, and no cost beside it, of a part's first steps


def test_masked_patches_are_the_same_after_a_resume(named, crashing):
    masked = ("--model", "vit_lightning.masked_patch.MaskedPatch", "--model.net.variant", "mu/8", *THREE)
    assert named("whole", *masked).code == 0
    with pytest.raises(RuntimeError, match="killed"):
        named("killed", *masked, *crashing(12))
    assert named("killed", *masked, "--ckpt_path", "last").code == 0
    assert equal(last("whole"), last("killed"))


def test_accumulation_resumes_between_optimiser_steps(named, crashing):
    accumulated = (*THREE, "--trainer.accumulate_grad_batches", 2)
    assert named("whole", *accumulated).code == 0
    with pytest.raises(RuntimeError, match="killed"):
        named("killed", *accumulated, *crashing(7))
    assert named("killed", *accumulated, "--ckpt_path", "last").code == 0
    assert equal(last("whole"), last("killed"))


@pytest.mark.parametrize(
    ("step", "change", "message"),
    [
        (3, ("--data.batch_size", 4, "--trainer.accumulate_grad_batches", 2), "images per batch: 8 -> 4"),
        (3, ("--seed_everything", 7), "seed: 0 -> 7"),
        (9, ("--seed_everything", 7), None),
    ],
)
def test_inside_an_epoch_the_order_of_images_must_stay(named, crashing, step, change, message):
    with pytest.raises(RuntimeError, match="killed"):
        named("killed", *THREE, *crashing(step))
    resumed = named("killed", *THREE, *change, "--ckpt_path", "last")
    if message is None:
        assert resumed.code == 0
        assert "differs from the checkpoint: seed: 0 -> 7" in resumed.out + resumed.err
    else:
        assert resumed.code == 1
        assert f"lies inside an epoch, which goes on with the same {message}" in resumed.err


@pytest.mark.parametrize("interval", [1, 5], ids=["before the epoch's first step", "between two steps"])
def test_the_best_checkpoint_goes_on_from_its_last_step(named, interval):
    """Validation after 1 or 5 of 9 batches, while gradients of 3 accumulate: those that wait are computed again."""
    words = (*THREE, "--model.net.dropout", 0, "--trainer.accumulate_grad_batches", 3)
    words += ("--trainer.val_check_interval", interval, "--checkpoint.monitor", "lr", "--checkpoint.mode", "max")
    assert named("whole", *words).code == 0
    whole, best = last("whole"), "runs/whole/0/checkpoints/best.ckpt"
    assert torch.load(best, weights_only=True)["global_step"] < whole["global_step"]
    resumed = named("whole", *words, "--ckpt_path", "best")
    assert resumed.code == 0, resumed.err
    assert equal(whole, last("whole"))
    assert dict(logged("whole", "lr")).keys() == set(range(9))


def test_a_run_cut_by_max_steps_goes_on(named):
    constant = ("--model.schedule.decay", "constant")
    assert named("whole", *constant, "--trainer.max_epochs", 3).code == 0
    assert named("cut", *constant, "--trainer.max_epochs", 3, "--trainer.max_steps", 13).code == 0
    assert named("cut", *constant, "--trainer.max_epochs", 3, "--ckpt_path", "last").code == 0
    assert equal(last("whole"), last("cut"))


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_run_that_stands_at_its_end_says_so(named, epochs):
    assert named("ended", "--trainer.max_epochs", 2).code == 0
    done = named("ended", "--trainer.max_epochs", epochs, "--ckpt_path", "last")
    assert done.code == 0 and "nothing was left to train: the checkpoint has 18 optimiser steps" in done.out
    required = ("--trainer.callbacks+=vit_lightning.callbacks.Require", "--trainer.callbacks.metric=val/top1")
    done = named(
        "ended", "--trainer.max_epochs", 2, "--ckpt_path", "last", *required, "--trainer.callbacks.at_least=0.1"
    )
    assert done.code == 1 and "val/top1 was not logged, since nothing was left to train" in done.err
    done = named(
        "ended", "--trainer.max_epochs", 3, "--ckpt_path", "last", "--model.schedule.allow_horizon_change", "true"
    )
    assert done.code == 0 and "left to train" not in done.out


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
    assert "resume   runs/cut/0/checkpoints/previous.ckpt at step " in resumed.out
    assert last("cut")["global_step"] == 27


def test_a_save_that_dies_leaves_what_was_there(named, monkeypatch):
    assert named("cut", *THREE).code == 0
    save = torch.save

    def dies(content, path):
        save(content, path)
        Path(path).write_bytes(Path(path).read_bytes()[:1000])
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", dies)
    more = ("--trainer.max_epochs", 4, "--model.schedule.allow_horizon_change", "true", "--ckpt_path", "last")
    done = named("cut", *more)
    assert done.code == 1
    assert "last.ckpt cannot be written" in done.err.replace("new.ckpt", "last.ckpt")
    assert "no space left; free space there, then python -m vit_lightning fit runs/cut/0 goes on" in done.err
    assert not list(Path("runs/cut/0/checkpoints").glob("*.part"))
    for name in ("last", "best", "previous"):
        assert torch.load(f"runs/cut/0/checkpoints/{name}.ckpt", weights_only=True)["global_step"] > 0


EIGHT = """
import torch
from lightning.pytorch import Callback
from vit_lightning.data import ImageDataModule


class Eight(ImageDataModule):
    num_classes = 8

    def setup(self, stage):
        self.train_set = self.val_set = [(torch.full((3, 8, 8), n, dtype=torch.uint8), n) for n in range(8)]


class Seen(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        with open(f"{trainer.loggers[0].log_dir}/seen", "a") as file:
            print(trainer.global_step, *batch[1].tolist(), file=file)
"""


def test_case_c3_every_sample_is_seen_once(app, crashing, tmp_path, monkeypatch):
    """8 samples, batch 2, a checkpoint every 2 steps: killed in step 3, resumed from step 2."""
    (tmp_path / "eight.py").write_text(EIGHT)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("fit", "--data", "eight.Eight", "--data.image_size", 8, "--data.augment.crop", "none")
    words += ("--data.batch_size", 2, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    words += ("--trainer.max_epochs", 2, "--last.every_n_steps", 2, "--trainer.log_every_n_steps", 1)
    watched = ("--trainer.callbacks+=eight.Seen",)
    seen = {}
    for run in ("whole", "killed"):
        Path(f"{run}.yaml").write_text("{}\n")
        if run == "killed":
            with pytest.raises(RuntimeError, match="killed"):
                app(*words, "-c", "killed.yaml", *watched, *crashing(2))
            assert last("killed")["global_step"] == 2
        resume = ("--ckpt_path", "last") if run == "killed" else ()
        assert app(*words, "-c", f"{run}.yaml", *watched, *resume).code == 0
        lines = [[int(word) for word in line.split()] for line in Path(f"runs/{run}/0/seen").read_text().splitlines()]
        seen[run] = {step: samples for step, *samples in lines}  # step 3 was lost with the process and done again
    assert seen["whole"] == seen["killed"]
    order = [sample for step in sorted(seen["killed"]) for sample in seen["killed"][step]]
    assert sorted(order[:8]) == sorted(order[8:]) == list(range(8))
    assert equal(last("whole"), last("killed"))
    assert logged("whole", "lr") == logged("killed", "lr")


def test_larger_batches_that_leave_no_step_are_refused_however_many_epochs_seem_left(named):
    assert named("larger", "--trainer.max_epochs", 2).code == 0
    words = ("--ckpt_path", "last", "--model.schedule.allow_horizon_change", "true", "--data.batch_size", 16)
    done = named("larger", "--trainer.max_epochs", 3, *words)
    assert done.code == 1 and "the checkpoint has 18 optimiser steps" in done.err
    assert "until the run has more than 18 steps" in done.err


def test_a_changed_horizon_is_refused_unless_asked_for(named):
    """Case C10."""
    assert named("short", "--trainer.max_epochs", 1).code == 0
    refused = named("short", "--trainer.max_epochs", 2, "--ckpt_path", "last")
    assert refused.code == 1
    assert "planned for 9 optimiser steps and now has 18" in refused.err
    allowed = ("--ckpt_path", "last", "--model.schedule.allow_horizon_change", "true")
    done = named("short", "--trainer.max_epochs", 2, *allowed)
    assert done.code == 0, done.err
    assert "planned for 9 optimiser steps and now has 18: lr at step 9: 0 -> 0.0005" in done.err
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
