"""Weight averaging (case C12): both sets of weights go on over every stop, and the average is what validates."""

import csv
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import FSDPStrategy
from torch import nn

from tests.training.test_distributed import keep, kept
from vit_lightning.commands.export import export
from vit_lightning.errors import InputError
from vit_lightning.runs.checkpoint_names import RAW
from vit_lightning.training.averaging import UPDATES, Averaging, WeightAverage
from vit_lightning.weights import load_net

DATA = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 16, "--data.batch_size", 8)
FIT = ("fit", *DATA, "--data.num_workers", 0, "--model.net.variant", "mu/8", "--model.net.dropout", 0.1)
FIT += ("--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1, "--model.schedule.decay", "constant")
HALF = ("--model.averaging.decay", 0.5)
CRASHES = """
from lightning.pytorch import Callback

class Crash(Callback):
    def __init__(self, step: int):
        self.step = step
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.step:
            raise RuntimeError("killed")

class SaveAndCrash(Callback):
    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        if trainer.global_step == 6:
            trainer.save_checkpoint("dying.ckpt")
            raise RuntimeError("killed")
"""


def last(experiment: str, run: int = 0) -> dict:
    return torch.load(f"runs/{experiment}/{run}/checkpoints/last.ckpt", weights_only=True)


def equal(first: dict, second: dict) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def same(first: dict, second: dict) -> bool:
    both = all(equal(first[key], second[key]) for key in ("state_dict", RAW))
    return both and first[UPDATES] == second[UPDATES] == first["global_step"] == second["global_step"]


@pytest.fixture
def named(app, tmp_path, monkeypatch):
    """Names an experiment by a file without settings; two callbacks that end a run lie beside it."""
    (tmp_path / "crashes.py").write_text(CRASHES)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(name: str, *words: object):
        Path(f"{name}.yaml").write_text("{}\n")
        return app(*FIT, "-c", f"{name}.yaml", *words)

    return run


class One(LightningModule):
    """One weight that begins at 10 and falls by 1 each optimiser step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(10.0))
        self.frozen = nn.Parameter(torch.tensor(1.0), requires_grad=False)
        self.seen: list[float] = []

    def training_step(self, batch, batch_idx):
        return self.weight * 1.0

    def validation_step(self, batch, batch_idx):
        self.seen.append(self.weight.item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)


def fit_one(averaging: Averaging, **settings) -> tuple[One, WeightAverage]:
    model, average = One(), WeightAverage(averaging)
    loaders = torch.utils.data.DataLoader(range(4)), torch.utils.data.DataLoader(range(1))
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    Trainer(callbacks=[average], **quiet, enable_model_summary=False, **settings).fit(model, *loaders)
    return model, average


def test_average_of_one_parameter_by_hand():
    """Half of what was, half of 9, 8, 7, 6: 9.5, 8.75, 7.875, 6.9375."""
    model, average = fit_one(Averaging(0.5, warmup=False), max_epochs=1, val_check_interval=1, num_sanity_val_steps=1)
    assert model.seen == [10, 9.5, 8.75, 7.875, 6.9375]
    assert average.averaged.keys() == {"weight"}
    assert model.weight.item() == 6.9375  # after fit the model is the average


def test_warm_up_by_hand():
    """Shares 1/10, 2/11, then the decay 0.2."""
    after = [0.1 * 10 + 0.9 * 9]
    after.append(2 / 11 * after[-1] + 9 / 11 * 8)
    after.append(0.2 * after[-1] + 0.8 * 7)
    model, _ = fit_one(Averaging(0.2), max_epochs=1, limit_train_batches=3, val_check_interval=1)
    assert model.seen[-3:] == pytest.approx(after)
    assert [Averaging(0.9999).share(t) for t in (0, 8, 99_999)] == [0.1, 0.5, 0.9999]


def test_accumulated_gradients_make_one_update_a_step():
    _, average = fit_one(Averaging(0.5, warmup=False), max_epochs=3, accumulate_grad_batches=2)
    assert average.updates == 6


def test_statistics_are_averaged_and_half_precision_is_not():
    model = One()
    model.norm = nn.BatchNorm1d(2)
    model.register_buffer("table", torch.ones(2), persistent=False)
    average = WeightAverage(Averaging(0.5, warmup=False))
    trainer = Trainer(logger=False, enable_checkpointing=False, accelerator="cpu", max_steps=1, barebones=True)
    trainer.strategy.connect(model.bfloat16())
    average.on_train_start(_Progress(0), model)
    assert average.averaged.keys() == {"weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"}
    assert {tensor.dtype for tensor in average.averaged.values()} == {torch.float32}
    with torch.no_grad():
        model.weight.fill_(10.0625)
    average.on_train_batch_end(_Progress(1), model, None, None, 0)
    assert average.averaged["weight"].item() == 10.03125  # bfloat16 would round it
    average.on_validation_start(_Progress(1), model)
    average.on_validation_end(_Progress(1), model)
    assert average.averaged["weight"].item() == 10.03125
    assert model.weight.item() == 10.0625


class _Progress:
    """What the callback asks a trainer for."""

    estimated_stepping_batches = 100

    def __init__(self, step: int) -> None:
        self.global_step = step


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_impossible_decays_are_refused(decay):
    with pytest.raises(InputError, match=r"expected a number in \[0, 1\)"):
        Averaging(decay)


@pytest.mark.parametrize("step", [4, 3])
def test_a_killed_run_resumes_both_sets(named, step):
    """At the edge of an epoch of 4 steps and inside it; no flag is needed to go on averaging."""
    often = ("--trainer.max_epochs", 2, "--last.every_n_steps", 1)
    assert named("whole", *HALF, *often).code == 0
    crash = ("--trainer.callbacks+=crashes.Crash", f"--trainer.callbacks.step={step}")
    with pytest.raises(RuntimeError, match="killed"):
        named("killed", *HALF, *often, *crash)
    resumed = named("killed", *often, "--ckpt_path", "last")
    assert resumed.code == 0, resumed.err
    assert last("killed")[UPDATES] == 8
    assert same(last("whole"), last("killed"))
    assert not equal(last("whole")["state_dict"], last("whole")[RAW])


def test_averaging_leaves_the_trained_weights_alone(named):
    assert named("plain", "--trainer.max_epochs", 2).code == 0
    assert named("averaged", *HALF, "--trainer.max_epochs", 2).code == 0
    assert equal(last("plain")["state_dict"], last("averaged")[RAW])
    assert RAW not in last("plain")


def test_a_run_that_dies_in_validation_keeps_the_sets_apart(named):
    """The model holds the average just then; a checkpoint must say so."""
    cut = ("--trainer.max_epochs", 2, "--trainer.val_check_interval", 2)
    assert named("until", *HALF, *cut, "--trainer.max_steps", 6).code == 0
    with pytest.raises(RuntimeError, match="killed"):
        named("dying", *HALF, *cut, "--trainer.callbacks+=crashes.SaveAndCrash")
    saved = torch.load("dying.ckpt", weights_only=True)
    assert saved["global_step"] == 6
    assert same(last("until"), saved)
    assert named("whole", *HALF, *cut).code == 0
    assert named("dying", *cut, "--ckpt_path", "dying.ckpt").code == 0
    assert same(last("whole"), last("dying", 1))


def test_what_validates_and_leaves_is_the_average(named, app):
    assert named("run", *HALF, "--trainer.max_epochs", 2, "--model.optim.lr", 0.01).code == 0
    with Path("runs/run/0/metrics.csv").open(newline="") as file:
        seen = [float(row["val/loss"]) for row in csv.DictReader(file) if row.get("val/loss")]
    checkpoint = last("run")
    path = "runs/run/0/checkpoints/last.ckpt"
    validated = app("validate", *DATA, "--ckpt_path", path, "--trainer.accelerator", "cpu", *keep("scored"))
    assert validated.code == 0, validated.err
    assert kept("scored", "val/loss") == pytest.approx(seen[-1], rel=1e-6)
    torch.save(checkpoint | {"state_dict": checkpoint[RAW]}, "raw.ckpt")
    trained = app("validate", *DATA, "--ckpt_path", "raw.ckpt", "--trainer.accelerator", "cpu", *keep("scored_raw"))
    assert trained.code == 0, trained.err
    assert kept("scored_raw", "val/loss") != pytest.approx(seen[-1], rel=1e-3)
    for folder, raw, key in (("average", False, "state_dict"), ("raw", True, RAW)):
        export(path, Path(folder), "safetensors", raw=raw)
        head = load_net(Path(folder))[0].head.weight
        assert torch.equal(head, checkpoint[key]["net.head.weight"])


def test_weights_only_checkpoints_hold_the_average(named):
    run = named("run", *HALF, "--trainer.max_epochs", 1, "--checkpoint.save_weights_only", "true")
    assert run.code == 0, run.err
    best = torch.load("runs/run/0/checkpoints/best.ckpt", weights_only=True)
    assert equal(best["state_dict"], last("run")["state_dict"])


def test_resuming_without_averaging_is_refused(named):
    assert named("run", *HALF, "--trainer.max_epochs", 1).code == 0
    refused = named("run", "--model.averaging.decay", 0, "--trainer.max_epochs", 2, "--ckpt_path", "last")
    assert refused.code == 1
    assert "holds averaged weights" in refused.err
    assert refused.err.strip().splitlines()[-1].startswith("error: ")


def test_averaging_may_begin_on_resuming(named):
    assert named("run", "--trainer.max_epochs", 1).code == 0
    begun = named("run", *HALF, "--trainer.max_epochs", 2, "--ckpt_path", "last")
    assert begun.code == 0, begun.err
    assert "model.averaging.decay: 0.0 -> 0.5" in begun.out + begun.err
    assert last("run")[UPDATES] == 4


def test_an_average_longer_than_the_run_is_told(named):
    run = named("run", "--model.averaging.decay", 0.9999, "--model.averaging.warmup", "false")
    assert "longer than the run's 4" in run.out + run.err


@pytest.mark.parametrize(("step", "updates", "told"), [(0, 0, []), (60, 60, []), (60, 0, [40]), (60, 20, [60])])
def test_how_long_an_average_has_is_counted_from_its_first_step(monkeypatch, step, updates, told):
    """Of 100 steps, in a run that goes on after some of them; the average takes 67 to forget the first weights."""
    said: list[str] = []
    monkeypatch.setattr("vit_lightning.training.averaging.rank_zero_info", said.append)
    average = WeightAverage(Averaging(0.985, warmup=False))
    average.restore({}, updates)
    average.on_train_start(_Progress(step), One())
    assert len(said) == len(told) and all(f"longer than the run's {left}:" in said[0] for left in told)


def test_compiling_and_averaging_keep_the_keys(named, monkeypatch):
    compiling = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda self: compiling(self, backend="eager"))
    assert named("plain").code == 0
    assert named("compiled", *HALF, "--model.compile", "true").code == 0
    assert last("plain")["state_dict"].keys() == last("compiled")["state_dict"].keys() == last("compiled")[RAW].keys()


def test_two_processes_average_alike(named, together):
    """Two devices with half the batch keep the weights of one, both sets."""
    constant = ("--model.optim.name", "sgd", "--model.net.dropout", 0)
    constant += ("--data.augment.crop", "none", "--data.augment.flip", "false")
    assert named("one", *HALF, *constant).code == 0
    Path("two.yaml").write_text("{}\n")
    two = ("--trainer.devices", 2, "--trainer.strategy", "ddp", "--data.batch_size", 4)
    together(*FIT, "-c", "two.yaml", *HALF, *constant, *two)
    one, two = last("one"), last("two")
    for key in ("state_dict", RAW):
        for name, tensor in one[key].items():
            torch.testing.assert_close(two[key][name], tensor, atol=1e-5, rtol=1e-5)


def test_a_strategy_that_hides_the_weights_is_refused_at_the_start():
    trainer = SimpleNamespace(strategy=FSDPStrategy())
    with pytest.raises(InputError, match=r"FSDPStrategy keeps the weights.*ddp or ModelParallelStrategy"):
        WeightAverage(Averaging(0.5)).setup(trainer, One(), "fit")


@pytest.mark.gpu
def test_updates_and_lending_do_not_wait_for_the_device():
    model, average = One().cuda(), WeightAverage(Averaging(0.5))
    average.on_train_start(_Progress(0), model)
    torch.cuda.set_sync_debug_mode("error")
    try:
        average.on_train_batch_end(_Progress(1), model, None, None, 0)
        average.on_validation_start(_Progress(1), model)
        average.on_validation_end(_Progress(1), model)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert average.updates == 1
