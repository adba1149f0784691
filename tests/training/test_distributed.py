"""Several processes: the same mathematics, the same metrics, the same weights after a resume."""

import csv
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.processes import interrupt
from vit_lightning.classifier import Classifier

FIT = ("fit", "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1)
DATA = ("--data", "Synthetic", "--data.train_size", 40, "--data.eval_size", 25, "--data.num_workers", 0)
DDP = ("--trainer.devices", 2, "--trainer.strategy", "ddp")
MODEL_PARALLEL = "lightning.pytorch.strategies.ModelParallelStrategy"


def fsdp(sharded: bool = False) -> tuple:
    flag = "--trainer.strategy"
    return (
        *("--trainer.devices", 2, flag, MODEL_PARALLEL, f"{flag}.data_parallel_size", 2),
        *(f"{flag}.tensor_parallel_size", 1, f"{flag}.save_distributed_checkpoint", sharded),
    )


def experiment(name: str) -> tuple[str, str]:
    """Flags that name the runs."""
    Path(f"{name}.yaml").write_text("{}\n")
    return "-c", f"{name}.yaml"


def logged(run: str, column: str) -> list[tuple[int, float]]:
    with Path(f"runs/{run}/metrics.csv").open(newline="") as file:
        return [(int(row["step"]), float(row[column])) for row in csv.DictReader(file) if row.get(column)]


def state(run: str, name: str = "last") -> dict[str, torch.Tensor]:
    return torch.load(f"runs/{run}/checkpoints/{name}.ckpt", weights_only=True)["state_dict"]


def distance(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def close(first: list[tuple[int, float]], second: list[tuple[int, float]]) -> bool:
    steps = [step for step, _ in first] == [step for step, _ in second]
    return bool(first) and steps and all(abs(a - b) < 1e-5 for (_, a), (_, b) in zip(first, second, strict=True))


CLIP = ("--trainer.gradient_clip_val", 0.5, "--trainer.max_epochs", 2)
WARM = ("--model.schedule.warmup_steps", 3)


@pytest.fixture
def alone(app):
    """One process with the global batch of two."""
    done = app(*FIT, *DATA, *CLIP, *WARM, "--data.batch_size", 8, *experiment("alone"))
    assert done.code == 0, done.err


def test_two_processes_do_the_mathematics_of_one(alone, together):
    """Equal learning rates and, in fp32 without augmentation, equal losses (to 1e-5), clipped by the global norm."""
    together(*FIT, *DATA, *CLIP, *WARM, *DDP, "--data.batch_size", 4, *experiment("ddp"))
    together(*FIT, *DATA, *CLIP, *WARM, *fsdp(), "--data.batch_size", 4, *experiment("fsdp"))
    for run in ("ddp/0", "fsdp/0"):
        assert len(logged(run, "lr")) == 10
        assert logged(run, "lr") == logged("alone/0", "lr")
        for loss in ("train/loss", "val/loss"):
            assert close(logged(run, loss), logged("alone/0", loss))
        assert distance(state(run), state("alone/0")) < 1e-4


@pytest.mark.parametrize("tuned", [("--model.lora.rank", 2), ("--model.bias_only", "true")], ids=["lora", "biases"])
def test_two_processes_tune_a_part_as_one_does(app, together, tuned):
    """Weights that are frozen lie among trained ones in what DDP and FSDP2 send."""
    words = (*FIT, *DATA, *CLIP, *tuned, "--model.optim.lr", 0.01, "--model.optim.name", "sgd", "--data.batch_size")
    done = app(*words, 8, *experiment("alone"))
    assert done.code == 0, done.err
    together(*words, 4, *DDP, *experiment("ddp"))
    together(*words, 4, *fsdp(), *experiment("fsdp"))
    for run in ("ddp/0", "fsdp/0"):
        assert close(logged(run, "val/loss"), logged("alone/0", "val/loss"))
        assert distance(state(run), state("alone/0")) < 1e-5


def test_accumulation_stands_in_for_devices(app, together):
    """Case C10: the same learning rates and losses for one device that accumulates two batches and for two devices."""
    words = (*FIT, *DATA, *CLIP, *WARM, "--data.batch_size", 4)
    assert app(*words, "--trainer.accumulate_grad_batches", 2, *experiment("acc")).code == 0
    together(*words, *DDP, *experiment("ddp"))
    assert dict(logged("ddp/0", "lr")) == dict(logged("acc/0", "lr"))  # one row per batch against one per step
    assert close(logged("ddp/0", "val/loss"), logged("acc/0", "val/loss"))


# Metrics -------------------------------------------------------------------------------------------------------------

FIVE = """
import torch
from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule


class Five(ImageDataModule):
    num_classes = 3

    def setup(self, stage):
        images = [torch.full((3, 8, 8), shown, dtype=torch.uint8) for shown in (1, 1, 2, 1, 0)]
        self.val_set = self.test_set = list(zip(images, (0, 1, 2, 1, 0)))


class Reader(Classifier):
    def forward(self, images):
        return 9.0 * torch.nn.functional.one_hot(images[:, 0, 0, 0].long(), 3)
"""


def keep(folder: str) -> tuple[str, ...]:
    """Flags that let validate and test keep their scores in a folder."""
    return ("--trainer.logger", "CSVLogger", "--trainer.logger.save_dir", folder)


def kept(folder: str, name: str) -> float:
    with next(Path(folder).rglob("metrics.csv")).open(newline="") as file:
        return float(list(csv.DictReader(file))[-1][name])


def test_case_c4_five_images_count_once_each(app, together, tmp_path, monkeypatch):
    """All but the first are classified right: 0.8 on one process and on two; predict writes five rows in order."""
    (tmp_path / "five.py").write_text(FIVE)
    monkeypatch.syspath_prepend(str(tmp_path))
    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8)
    model.configure_model()
    facts = {"hyper_parameters": dict(model.hparams), "model": "five.Reader", "pytorch-lightning_version": "2.6.0"}
    torch.save({"state_dict": model.state_dict()} | facts, "five.ckpt")
    words = ("--data", "five.Five", "--data.image_size", 8, "--data.batch_size", 2, "--ckpt_path", "five.ckpt")
    words += ("--model", "five.Reader")
    words += ("--trainer.accelerator", "cpu", "--data.num_workers", 0)
    for verb, name in (("validate", "val/top1"), ("test", "test/top1")):
        single = app(verb, *words, *keep(f"one {verb}"))
        assert single.code == 0, single.err
        both = together(verb, *words, *DDP, *keep(f"two {verb}"))
        assert kept(f"one {verb}", name) == kept(f"two {verb}", name) == pytest.approx(0.8, abs=1e-7)
        for said in (single.out, both):
            lines = [line.split() for line in said.splitlines()]
            assert [line[1] for line in lines if "80.00" in line] == ["5"]  # one row, of five images
    together("predict", *words, *DDP)
    with Path("predictions.csv").open(newline="") as file:
        assert [row["class1"] for row in csv.DictReader(file)] == ["1", "1", "2", "1", "0"]


# Resuming ------------------------------------------------------------------------------------------------------------

CRASH = """
from lightning.pytorch import Callback


class Crash(Callback):
    def __init__(self, step: int):
        self.step = step

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step > self.step:
            raise RuntimeError("killed")
"""
DROPOUT = ("--model.net.dropout", 0.1, "--data.augment.mixup_alpha", 0.2, "--last.every_n_steps", 1)
AT = ("--trainer.callbacks+=crash.Crash", "--trainer.callbacks.step")


def test_two_processes_resume_to_the_same_weights(together, tmp_path):
    """With accumulation (an epoch of 5 batches has 3 steps), each process with random numbers of its own."""
    (tmp_path / "crash.py").write_text(CRASH)
    words = (*FIT, *DATA, *DDP, *DROPOUT, "--data.batch_size", 4, "--trainer.max_epochs", 3)
    words += ("--trainer.accumulate_grad_batches", 2)
    together(*words, *experiment("whole"))
    for run, step in (("edge", 3), ("inside", 7)):
        together(*words, *experiment(run), *AT, step, code=70)
        together(*words, *experiment(run), "--ckpt_path", "last")
        assert distance(state(f"{run}/0"), state("whole/0")) == 0
        for column in ("train/loss", "lr", "val/loss"):
            assert logged(f"{run}/0", column) == logged("whole/0", column)


def test_a_graph_needs_whole_gradients(together):
    graph = ("--data.batch_size", 4, "--model.cuda_graph", "true", *experiment("graph"))
    assert "or a replica on each (--trainer.strategy ddp)" in together(*FIT, *DATA, *fsdp(), *graph, code=1)


ASKED = """
from lightning.pytorch import Callback
from lightning.pytorch.loops import training_epoch_loop

training_epoch_loop._TrainingEpochLoop._broadcast_sigterm_tensor = lambda self: open("asked", "a").write("x")


class Asked(Callback):
    def on_train_end(self, trainer, pl_module):
        loop = trainer.fit_loop.epoch_loop
        type(loop)._broadcast_sigterm_tensor(loop)
"""


def test_no_step_waits_for_lightnings_question_for_sigterm(together, tmp_path):
    """It reads a number from the device in every step; ours is read some steps later."""
    (tmp_path / "asked.py").write_text(ASKED)
    words = (*FIT, *DATA, *DDP, "--data.batch_size", 4, "--trainer.max_epochs", 1)
    together(*words, *experiment("quiet"), "--trainer.callbacks+=asked.Asked")
    assert Path("asked").read_text() == "xx"  # once by each process, at the end, where the test itself asks


def test_sigterm_to_the_first_process_saves_and_ends_both(together, tmp_path):
    """Both end at the same step, with 0; from there they go on to the weights of a run that nobody stopped."""
    words = (*FIT, *DATA, *DDP, "--data.batch_size", 4, "--model.schedule.decay", "constant")
    code = interrupt(tmp_path, signal.SIGTERM, (*words, "--trainer.max_epochs", 1000, *experiment("term")))
    assert code == 0, Path("log").read_text()
    step = torch.load("runs/term/0/checkpoints/last.ckpt", weights_only=True)["global_step"]
    assert step > 0
    words += ("--trainer.max_epochs", -1, "--trainer.max_steps", step + 3)
    together(*words, *experiment("term"), "--ckpt_path", "last")
    together(*words, *experiment("whole"))
    assert distance(state("term/0"), state("whole/0")) == 0


# FSDP ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharded", [False, True], ids=["full", "sharded"])
def test_fsdp_resumes_and_one_process_reads_its_checkpoints(app, together, tmp_path, sharded):
    (tmp_path / "crash.py").write_text(CRASH)
    words = (*FIT, *DATA, "--data.batch_size", 4, "--trainer.max_epochs", 2, "--last.every_n_steps", 1)
    words += ("--trainer.gradient_clip_val", 0.5)
    together(*words, *fsdp(sharded), *experiment("whole"))
    together(*words, *fsdp(sharded), *experiment("killed"), *AT, 7, code=70)
    together(*words, *fsdp(sharded), *experiment("killed"), "--ckpt_path", "last")
    for column in ("train/loss", "lr", "val/loss"):
        assert logged("killed/0", column) == logged("whole/0", column)
    last = {run: f"runs/{run}/0/checkpoints/last.ckpt" for run in ("whole", "killed")}
    assert Path(last["whole"]).is_dir() == sharded

    words = ("--ckpt_path", last["whole"], "--trainer.accelerator", "cpu", *keep("scored"))
    validated = app("validate", *DATA, *words)
    assert validated.code == 0, validated.err
    assert kept("scored", "val/loss") == pytest.approx(logged("whole/0", "val/loss")[-1][1], abs=1e-5)
    for run, path in last.items():
        exported = app("export", path, run, "--to", "safetensors")
        assert exported.code == 0, exported.err
    first, second = (load_file(f"{run}/model.safetensors") for run in last)
    assert distance(first, second) == 0


def test_fsdp_accumulates_as_one_process_does(app, together):
    words = (*FIT, *DATA, *CLIP, *WARM, "--trainer.accumulate_grad_batches", 2)
    assert app(*words, "--data.batch_size", 8, *experiment("alone")).code == 0
    together(*words, *fsdp(), "--data.batch_size", 4, *experiment("fsdp"))
    assert close(logged("fsdp/0", "val/loss"), logged("alone/0", "val/loss"))
    assert distance(state("fsdp/0"), state("alone/0")) < 1e-4


@pytest.mark.parametrize("model", ["Classifier", "MaskedPatch"])
def test_sharded_weights_compute_in_bf16_and_are_kept_in_fp32(together, model):
    words = (*FIT, *DATA, "--data.batch_size", 4, "--trainer.precision", "bf16-mixed", "--model", model)
    together(*words, *DDP, *experiment("ddp"))
    together(*words, *fsdp(), *experiment("fsdp"))
    for tensor in state("fsdp/0").values():
        assert tensor.dtype == torch.float32
    kept = state("fsdp/0").values()
    assert any(not torch.equal(tensor, tensor.bfloat16().float()) for tensor in kept)
    losses = [[loss for _, loss in logged(run, "train/loss")] for run in ("fsdp/0", "ddp/0")]
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
    assert losses[0] != losses[1]  # the weights of norms travel in bf16 too


def test_a_sharded_run_goes_on_in_one_process(app, together):
    """Another strategy takes over the optimiser's state too: the run ends as one that was never sharded."""
    words = (*FIT, *DATA, "--model.schedule.decay", "constant")
    whole = app(*words, "--data.batch_size", 8, "--trainer.max_epochs", 2, *experiment("alone"))
    assert whole.code == 0, whole.err
    together(*words, *fsdp(True), "--data.batch_size", 4, "--trainer.max_epochs", 1, *experiment("moved"))
    moved = ("--data.batch_size", 8, "--trainer.max_epochs", 2, *experiment("moved"), "--ckpt_path", "last")
    done = app(*words, *moved)
    assert done.code == 0, done.err
    assert close(logged("moved/0", "train/loss"), logged("alone/0", "train/loss"))
    # Sums in another order, through two epochs of Adam at a constant rate: 1.2e-4 on an AMD EPYC.
    assert distance(state("moved/0"), state("alone/0")) < 2e-4
