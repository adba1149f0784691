"""FiniteGuard: a run that makes NaN at a known step ends there and names the records and gradients."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vit_lightning.callbacks import finite_guard
from vit_lightning.callbacks.finite_guard import FiniteGuard, UncheckedBatch, _batches
from vit_lightning.data.sampling import TrainSampler
from vit_lightning.errors import InputError

DATA = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 4)
FIT = ("fit", *DATA, "--data.num_workers", 0, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
BREAKS = """
import torch
from lightning.pytorch import Callback

class BadLoss(Callback):
    '''Every image of batch number `batch` in epoch 0 becomes NaN, on device `rank`.'''
    def __init__(self, batch: int, rank: int = 0):
        self.batch, self.rank = batch, rank
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.current_epoch == 0 and batch_idx == self.batch and trainer.global_rank == self.rank:
            pl_module.forward = lambda images: type(pl_module).forward(pl_module, images) * torch.nan
        else:
            pl_module.__dict__.pop("forward", None)

class BadGradient(Callback):
    '''The gradient of one parameter becomes infinite at optimiser step `step`.'''
    def __init__(self, step: int):
        self.step = step
    def on_after_backward(self, trainer, pl_module):
        if trainer.global_step == self.step:
            pl_module.net.head.bias.grad[0] = torch.inf
"""


@pytest.fixture
def breaking(app, tmp_path, monkeypatch):
    """A run with one of the callbacks above."""
    (tmp_path / "breaks.py").write_text(BREAKS)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(name: str, settings: dict[str, int], *words: object):
        flags = [f"--trainer.callbacks.{key}={value}" for key, value in settings.items()]
        return app(*FIT, f"--trainer.callbacks+=breaks.{name}", *flags, *words)

    return run


def told() -> dict:
    return json.loads(Path("runs/default/0/nonfinite.json").read_text())


def records(epoch: int, *batches: int, size: int = 4) -> list[int]:
    """Numbers of the records of batches of the training set, which has 32."""
    sampler = TrainSampler(range(32))
    sampler.set_epoch(epoch)
    order = np.array([draw.index for draw in sampler])
    return [int(order[batch * size + i]) for batch in batches for i in range(size)]


def finite(path: str) -> bool:
    return all(tensor.isfinite().all() for tensor in torch.load(path, weights_only=True)["state_dict"].values())


def test_a_bad_loss_names_its_step_batch_and_records(breaking):
    done = breaking("BadLoss", {"batch": 5})
    assert done.code == 1
    assert "training loss is not finite at optimiser step 5" in done.err
    assert "nonfinite.json" in done.err
    report = told()
    assert report["optimiser_step"] == 5 and report["epoch"] == 0
    assert report["devices"] == [{"loss": "nan", "batches": [5], "records": records(0, 5)}]
    assert report["gradient_norms"]["net.head.weight"] == "nan"


def test_a_bad_gradient_names_its_parameter(breaking):
    done = breaking("BadGradient", {"step": 3})
    assert done.code == 1
    assert "gradient is not finite at optimiser step 3" in done.err
    report = told()
    assert report["devices"][0]["records"] == records(0, 3)
    assert isinstance(report["devices"][0]["loss"], float)
    assert [name for name, norm in report["gradient_norms"].items() if norm == "inf"] == ["net.head.bias"]
    assert {"net.class_token", "net.blocks.0.mlp.up.weight"} < report["gradient_norms"].keys()


def test_of_accumulated_batches_all_may_have_done_it(breaking):
    """Two batches a step: step 3 added up batches 6 and 7; a bad loss is its own batch's."""
    twice = ("--trainer.accumulate_grad_batches", 2)
    assert breaking("BadGradient", {"step": 3}, *twice).code == 1
    assert told()["devices"][0]["records"] == records(0, 6, 7)
    Path("runs/default/0/nonfinite.json").unlink()
    os.rename("runs/default/0", "runs/first")
    assert breaking("BadLoss", {"batch": 4}, *twice).code == 1
    assert told()["optimiser_step"] == 2
    assert told()["devices"][0]["batches"] == [4]


@pytest.mark.parametrize(
    ("number", "loss", "batches"),
    [(3, 1.0, [2, 3]), (4, 1.0, [4]), (3, float("nan"), [3])],
    ids=["gradients of two batches", "an epoch's last alone", "a loss of one"],
)
def test_the_batches_named_are_those_whose_gradients_were_added_up(number, loss, batches):
    """Of five batches an epoch, of which two accumulate."""
    batch = UncheckedBatch(number, 7, torch.tensor(loss), torch.tensor([float("inf")]))
    assert _batches(SimpleNamespace(accumulate_grad_batches=2), batch) == batches


@pytest.mark.parametrize("save", [("--last.every_n_steps", 1), ("--trainer.val_check_interval", 2)])
def test_no_checkpoint_keeps_what_went_bad(breaking, save):
    """The device is asked before each save, though `log_every_n_steps` is far off."""
    done = breaking("BadLoss", {"batch": 5}, *save, "--trainer.log_every_n_steps", 1000)
    assert done.code == 1
    saved = list(Path("runs/default/0/checkpoints").glob("*.ckpt"))
    assert saved
    assert all(finite(str(path)) for path in saved)


def test_a_finite_run_writes_nothing(app):
    assert app(*FIT).code == 0
    assert not Path("runs/default/0/nonfinite.json").exists()


def test_steps_that_the_scaler_skips_are_no_fault(breaking):
    """An infinite gradient in fp16 halves the scale and the run goes on."""
    plugin = ("--trainer.plugins", "lightning.pytorch.plugins.MixedPrecision", "--trainer.plugins.device", "cpu")
    done = breaking("BadGradient", {"step": 3}, *plugin, "--trainer.plugins.precision", "16-mixed")
    assert done.code == 0, done.err
    assert not Path("runs/default/0/nonfinite.json").exists()
    assert finite("runs/default/0/checkpoints/last.ckpt")
    scaler = torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)["MixedPrecision"]
    assert scaler["scale"] < 2.0**16


@pytest.mark.parametrize(
    "strategy",
    [
        ("ddp",),
        (
            "ModelParallelStrategy",
            "--trainer.strategy.data_parallel_size=2",
            "--trainer.strategy.tensor_parallel_size=1",
        ),
    ],
    ids=["ddp", "fsdp2"],
)
def test_all_processes_end_and_the_file_tells_each(tmp_path, strategy):
    (tmp_path / "breaks.py").write_text(BREAKS)
    words = (*FIT, "--trainer.callbacks+=breaks.BadLoss", "--trainer.callbacks.batch=2", "--trainer.callbacks.rank=1")
    words += ("--trainer.devices", 2, "--trainer.log_every_n_steps", 1, "--trainer.strategy", *strategy)
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ["PYTHONPATH"])),
    }
    done = subprocess.run(
        [sys.executable, "-m", "vit_lightning", *map(str, words)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 1, done.stderr  # and not that of Lightning's launcher, which kills the first process
    assert "[rank 0] error: the training loss is not finite at optimiser step 2" in done.stderr
    report = json.loads((tmp_path / "runs/default/0/nonfinite.json").read_text())
    order = records(0, 0, 1, 2, size=8)[16:]
    assert [device["records"] for device in report["devices"]] == [order[0::2], order[1::2]]
    assert isinstance(report["devices"][0]["loss"], float) and report["devices"][1]["loss"] == "nan"
    assert report["optimiser_step"] == 2


@pytest.mark.gpu
def test_steps_do_not_wait_for_the_device():
    model = torch.nn.Linear(4, 4).cuda()
    loss = model(torch.randn(2, 4, device="cuda")).sum()
    loss.backward()
    trainer = SimpleNamespace(scaler=None, accumulate_grad_batches=1, global_step=0, log_every_n_steps=10)
    guard = FiniteGuard()
    guard.on_train_start(trainer, model)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(9):
            guard.on_before_optimizer_step(trainer, model, None)
            trainer.global_step = step + 1
            guard.on_train_batch_end(trainer, model, {"loss": loss}, None, step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(guard._unchecked) == 9


class Alone:
    """The strategy of one device."""

    def reduce(self, value, reduce_op):
        return value


def guarded(tmp_path: Path, every: int = 3, **facts: object) -> tuple[FiniteGuard, SimpleNamespace, torch.nn.Module]:
    usual = {"scaler": None, "accumulate_grad_batches": 1, "global_step": 0, "log_every_n_steps": every}
    usual |= {
        "gradient_clip_val": None,
        "current_epoch": 5,
        "strategy": Alone(),
        "is_global_zero": True,
        "train_dataloader": None,
    }
    guard, trainer = FiniteGuard(tmp_path), SimpleNamespace(**usual | facts)
    model = torch.nn.Linear(2, 1)
    model.bias.requires_grad = False
    guard.on_train_start(trainer, model)
    return guard, trainer, model


def step(guard, trainer, model, number: int, loss: float, gradient: float = 1.0) -> None:
    model.weight.grad = torch.tensor([[3.0, 4.0]]) * gradient
    guard.on_before_optimizer_step(trainer, model, None)
    trainer.global_step += 1
    guard.on_train_batch_end(trainer, model, {"loss": torch.tensor(loss)}, None, number)


def test_the_first_of_several_bad_batches_is_named_at_the_next_look(tmp_path):
    guard, trainer, model = guarded(tmp_path, global_step=40)
    for number, loss in enumerate([1.0, 2.0, 3.0]):
        step(guard, trainer, model, number, loss)
    step(guard, trainer, model, 3, 1.0, gradient=0.5)
    step(guard, trainer, model, 4, float("-inf"))
    with pytest.raises(InputError, match="the training loss is not finite at optimiser step 44"):
        step(guard, trainer, model, 5, float("nan"))
    report = json.loads((tmp_path / "nonfinite.json").read_text())
    assert report == {
        "optimiser_step": 44,
        "epoch": 5,
        "devices": [{"loss": "-inf", "batches": [4], "records": None}],
        "gradient_norms": {"weight": 5.0},
    }


@pytest.mark.parametrize("hook", ["on_validation_start", "on_train_epoch_end", "on_save_checkpoint"])
def test_the_device_is_asked_before_anything_is_kept(tmp_path, hook):
    guard, trainer, model = guarded(tmp_path, every=0)
    step(guard, trainer, model, 0, 1.0)
    step(guard, trainer, model, 1, 1.0, gradient=float("inf"))
    with pytest.raises(InputError, match="the gradient is not finite at optimiser step 1"):
        getattr(guard, hook)(trainer, model, *([{}] if hook == "on_save_checkpoint" else []))
    getattr(guard, hook)(trainer, model, *([{}] if hook == "on_save_checkpoint" else []))  # said once


def test_the_loss_is_that_of_a_batch_and_not_its_share(tmp_path):
    guard, trainer, model = guarded(tmp_path, every=1, accumulate_grad_batches=4)
    with pytest.raises(InputError, match="the gradient"):
        step(guard, trainer, model, 0, 0.5, gradient=float("nan"))
    assert json.loads((tmp_path / "nonfinite.json").read_text())["devices"][0]["loss"] == 2.0


def test_another_process_writes_nothing_and_a_scaler_s_gradients_are_not_looked_at(tmp_path):
    guard, trainer, model = guarded(tmp_path, every=1, is_global_zero=False)
    with pytest.raises(InputError):
        step(guard, trainer, model, 0, float("nan"))
    assert list(tmp_path.iterdir()) == []
    guard, trainer, model = guarded(tmp_path, every=1, scaler=object())
    step(guard, trainer, model, 0, 1.0, gradient=float("inf"))


@pytest.mark.parametrize(("others", "what"), [(2.0, "gradient"), ("nan", "training loss")])
def test_one_device_s_loss_is_the_loss_of_all(tmp_path, monkeypatch, others, what):
    monkeypatch.setattr(finite_guard, "_gather", lambda own: [own, own | {"loss": others}])
    guard, trainer, model = guarded(tmp_path, every=1)
    with pytest.raises(InputError, match=f"the {what} is not finite"):
        step(guard, trainer, model, 0, 0.5, gradient=float("nan"))
    devices = json.loads((tmp_path / "nonfinite.json").read_text())["devices"]
    assert [device["loss"] for device in devices] == [0.5, others]


@pytest.mark.parametrize(("clips", "advised"), [(None, True), (1.0, False)])
def test_a_run_that_clips_is_not_told_to(tmp_path, clips, advised):
    guard, trainer, model = guarded(tmp_path, every=1, gradient_clip_val=clips)
    with pytest.raises(InputError, match=r"lower --model\.optim\.lr, or lengthen the warm-up") as told:
        step(guard, trainer, model, 0, float("nan"))
    assert ("or clip with --trainer.gradient_clip_val 1" in str(told.value)) == advised


@pytest.mark.parametrize("main", [True, False])
def test_a_run_that_goes_on_keeps_the_file_of_its_earlier_end_under_another_name(tmp_path, main):
    (tmp_path / "nonfinite.json").write_text("{}")
    guarded(tmp_path, is_global_zero=main)
    assert [path.name for path in tmp_path.iterdir()] == [f"nonfinite{'.earlier-1' * main}.json"]
