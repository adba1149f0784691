"""The average of weights that FSDP2 shards over two processes: computed, swapped, saved, resumed, and read by one."""

import csv
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from tests.training.test_distributed import keep, kept
from vit_lightning.runs.checkpoint_names import RAW
from vit_lightning.training.averaging import UPDATES

DECAY = 0.5
DATA = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 12, "--data.num_workers", 0)
FIT = ("fit", *DATA, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1)
FIT += ("--model.schedule.decay", "constant", "--model.optim.lr", 0.01, "--trainer.max_epochs", 2)
FIT += ("--trainer.val_check_interval", 2, "--last.every_n_steps", 1)
HALF = ("--model.averaging.decay", DECAY)
STRATEGY = "--trainer.strategy"
SHARDED = ("--trainer.devices", 2, STRATEGY, "ModelParallelStrategy", f"{STRATEGY}.data_parallel_size", 2)
SHARDED += (f"{STRATEGY}.tensor_parallel_size", 1, "--data.batch_size", 4)
# Adam would make a tenth of a step of a difference in the last bit of a gradient near zero.
SGD = ("--model.optim.name", "sgd", "--data.augment.crop", "none", "--data.augment.flip", "false")
FOLDER, FILE = (f"{STRATEGY}.save_distributed_checkpoint", "true"), (f"{STRATEGY}.save_distributed_checkpoint", "false")
WATCHERS = """
import json
from pathlib import Path

import torch
from lightning.pytorch import Callback
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode


class Record(Callback):
    '''Writes the trained weights after every step, and what the average holds and exchanges.'''

    def __init__(self):
        self.exchanges = 0

    def on_train_start(self, trainer, pl_module):
        self.write(trainer, pl_module)
        average, self.names = pl_module.average, []
        update = average.on_train_batch_end

        def watched(*args):
            with CommDebugMode() as exchanged:
                update(*args)
            self.exchanges += exchanged.get_total_counts()

        average.on_train_batch_end = watched

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.write(trainer, pl_module)

    def on_train_end(self, trainer, pl_module):
        held = {name: tensor.to_local().numel() for name, tensor in pl_module.average.averaged.items()}
        text = json.dumps({"exchanges": self.exchanges, "held": held})
        Path(f"average{trainer.global_rank}.json").write_text(text)

    def write(self, trainer, pl_module):
        whole = {name: tensor.full_tensor().detach().clone() for name, tensor in pl_module.named_parameters()}
        if trainer.is_global_zero:
            torch.save(whole, f"trained{trainer.global_step}.pt")


class Crash(Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == 3:
            raise RuntimeError("killed")


class SaveAndCrash(Callback):
    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        if trainer.global_step == 6:
            trainer.save_checkpoint("dying.ckpt")
            raise RuntimeError("killed")
"""


@pytest.fixture(autouse=True)
def watchers(tmp_path, monkeypatch):
    (tmp_path / "watchers.py").write_text(WATCHERS)
    monkeypatch.syspath_prepend(str(tmp_path))


def named(name: str) -> tuple[str, str]:
    Path(f"{name}.yaml").write_text("{}\n")
    return "-c", f"{name}.yaml"


def last(run: str) -> str:
    return f"runs/{run}/0/checkpoints/last.ckpt"


def both(path: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The averaged and the trained weights of a checkpoint; a folder's are put together by torch's own converter."""
    if not Path(path).is_dir():
        content = torch.load(path, weights_only=True)
        return content["state_dict"], content[RAW]
    dcp_to_torch_save(path, "whole.pt")
    averaged = torch.load("whole.pt", weights_only=True)["state_dict"]
    return averaged, averaged.pop(RAW)


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def close(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], error: float) -> bool:
    distances = [float((first[name] - second[name]).abs().max()) for name in first]
    return first.keys() == second.keys() and max(distances) < error


def average_by_hand(steps: int) -> dict[str, torch.Tensor]:
    """From the weights after each step, in float64: the formula of TensorFlow's ExponentialMovingAverage."""
    average = {name: tensor.double() for name, tensor in torch.load("trained0.pt", weights_only=True).items()}
    for step in range(steps):
        trained, share = torch.load(f"trained{step + 1}.pt", weights_only=True), min(DECAY, (1 + step) / (10 + step))
        average = {name: share * average[name] + (1 - share) * trained[name].double() for name in average}
    return average


def losses(run: str, column: str) -> list[float]:
    with Path(f"runs/{run}/0/metrics.csv").open(newline="") as file:
        return [float(row[column]) for row in csv.DictReader(file) if row.get(column)]


@pytest.mark.parametrize("form", [FILE, FOLDER], ids=["full", "sharded"])
def test_the_average_of_shards_by_hand(app, together, form):
    """Its shares, its values, what validates with it; training goes on with the trained weights after it is lent."""
    together(*FIT, *SHARDED, *form, *HALF, *named("run"), "--trainer.callbacks+=watchers.Record")
    together(*FIT, *SHARDED, *form, *named("plain"))
    assert Path(last("run")).is_dir() == (form == FOLDER)
    averaged, trained = both(last("run"))
    by_hand = average_by_hand(8)
    assert close(averaged, by_hand, 1e-6) and not close(trained, by_hand, 1e-3)
    assert equal(trained, torch.load("trained8.pt", weights_only=True))
    assert losses("run", "train/loss") == losses("plain", "train/loss")

    seen = [json.loads(Path(f"average{rank}.json").read_text()) for rank in (0, 1)]
    assert [one["exchanges"] for one in seen] == [0, 0]
    sizes = {name: tensor.numel() for name, tensor in averaged.items()}
    assert sizes == {name: sum(one["held"][name] for one in seen) for name in sizes}

    content = torch.load(last("run") + "/meta.pt" * (form == FOLDER), weights_only=True)
    own = {name: tensor.float() for name, tensor in by_hand.items()}
    torch.save({key: value for key, value in content.items() if key != RAW} | {"state_dict": own}, "by_hand.ckpt")
    cpu = ("--trainer.accelerator", "cpu")
    validated = app("validate", *DATA, "--ckpt_path", "by_hand.ckpt", *cpu, *keep("validated"))
    assert validated.code == 0, validated.err
    assert losses("run", "val/loss")[-1] == pytest.approx(kept("validated", "val/loss"), abs=1e-5)


@pytest.mark.parametrize("form", [FILE, FOLDER], ids=["full", "sharded"])
def test_a_killed_run_resumes_both_sets(together, form):
    """Inside an epoch, and while the model holds the average; no flag is needed to go on averaging."""
    words = (*FIT, *SHARDED, *form)
    together(*words, *HALF, *named("whole"))
    whole = both(last("whole"))
    together(*words, *HALF, *named("killed"), "--trainer.callbacks+=watchers.Crash", code=70)
    together(*words, *named("killed"), "--ckpt_path", "last")
    assert all(map(equal, whole, both(last("killed"))))
    together(*words, *HALF, *named("dying"), "--trainer.callbacks+=watchers.SaveAndCrash", code=70)
    together(*words, *named("dying"), "--ckpt_path", "dying.ckpt")
    assert all(map(equal, whole, both("runs/dying/1/checkpoints/last.ckpt")))
    refused = together(*words, *named("killed"), "--ckpt_path", "last", "--model.averaging.decay", 0, code=1)
    assert "holds averaged weights" in refused


@pytest.mark.parametrize("form", [FILE, FOLDER], ids=["full", "sharded"])
def test_one_process_reads_the_average_of_two_and_goes_on(app, together, form):
    one = (*FIT, *SGD, *HALF, "--data.batch_size", 8)
    alone = app(*one, *named("alone"))
    assert alone.code == 0, alone.err
    together(*FIT, *SGD, *SHARDED, *form, *HALF, *named("moved"), "--trainer.max_steps", 6)
    path, (averaged, trained) = last("moved"), both(last("moved"))
    cpu = ("--ckpt_path", path, "--trainer.accelerator", "cpu")
    for verb, name in (("validate", "val/loss"), ("test", "test/loss"), ("predict", "")):
        done = app(verb, *DATA, *cpu, *keep(verb))
        assert done.code == 0, done.err
        assert not name.startswith("val") or kept(verb, name) == pytest.approx(
            losses("moved", "val/loss")[-1], abs=1e-5
        )
    for folder, words, expected in (("average", (), averaged), ("raw", ("--raw", "true"), trained)):
        assert app("export", path, folder, "--to", "safetensors", *words).code == 0
        assert torch.equal(load_file(f"{folder}/model.safetensors")["head.weight"], expected["net.head.weight"])
    done = app(*one, *named("moved"), "--ckpt_path", "last")
    assert done.code == 0, done.err
    assert torch.load(last("moved"), weights_only=True)[UPDATES] == 8
    for moved, own in zip(both(last("moved")), both(last("alone")), strict=True):
        assert close(moved, own, 1e-5)


def test_two_processes_go_on_with_the_average_of_one(app, together):
    words = (*FIT, *SGD, *HALF)
    assert app(*words, "--data.batch_size", 8, *named("alone")).code == 0
    begun = app(*words, "--data.batch_size", 8, *named("moved"), "--trainer.max_steps", 6)
    assert begun.code == 0, begun.err
    together(*words, *SHARDED, *FILE, *named("moved"), "--ckpt_path", "last")
    for moved, own in zip(both(last("moved")), both(last("alone")), strict=True):
        assert close(moved, own, 1e-5)
