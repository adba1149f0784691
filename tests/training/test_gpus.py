"""Two GPUs of one host: DDP and FSDP fit, resume after a crash and leave checkpoints that one device validates."""

from pathlib import Path

import pytest
import torch

from tests.training.test_distributed import AT, CRASH, DATA, experiment, fsdp, keep, kept, logged

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")]

FIT = ("fit", "--model.net.variant", "mu/8", "--trainer.accelerator", "gpu", "--trainer.log_every_n_steps", 1)
FIT += (*DATA, "--last.every_n_steps", 1, "--trainer.max_epochs", 2, "--trainer.gradient_clip_val", 0.5)
STRATEGIES = {
    "ddp": ("--trainer.devices", 2, "--trainer.strategy", "ddp"),
    "fsdp": fsdp(),
    "fsdp, sharded": fsdp(sharded=True),
}


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "bf16-true", "16-mixed"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_gpus_fit_resume_and_validate(app, together, tmp_path, strategy, precision):
    if "fsdp" in strategy and precision == "16-mixed":
        pytest.skip("FSDP2 has no loss scaling in Lightning")
    (tmp_path / "crash.py").write_text(CRASH)
    words = (*FIT, *STRATEGIES[strategy], "--trainer.precision", precision, "--data.batch_size", 4)
    together(*words, *experiment("whole"))
    together(*words, *experiment("killed"), *AT, 7, code=70)
    together(*words, *experiment("killed"), "--ckpt_path", "last")
    whole, resumed = (logged(f"{run}/0", "val/loss") for run in ("whole", "killed"))
    assert [loss for _, loss in resumed] == pytest.approx([loss for _, loss in whole], rel=1e-3)
    assert logged("killed/0", "lr") == logged("whole/0", "lr")
    for device in ("gpu", "cpu"):
        last = Path("runs/whole/0/checkpoints/last.ckpt")
        words = ("--trainer.accelerator", device, "--trainer.devices", 1, *keep(device))
        scored = app("validate", *DATA, "--ckpt_path", last, *words)
        assert scored.code == 0, scored.err
        assert kept(device, "val/loss") == pytest.approx(whole[-1][1], rel=1e-2)


def losses(run: str) -> dict[str, list[float]]:
    return {name: [value for _, value in logged(f"{run}/0", name)] for name in ("train/loss", "val/loss", "lr")}


@pytest.fixture
def exact(monkeypatch):
    """Flags of a run that multiplies in fp32."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    torch.set_float32_matmul_precision("highest")
    return "--trainer.precision", "32-true"


@pytest.mark.parametrize("pool", ["token", "gap"])
def test_the_fast_path_trains_sharded_as_the_plain_one_does(together, pool):
    """A block's output waits for the next one's norm with a bias whose layer is by then sharded again."""
    words = (*FIT, *STRATEGIES["fsdp"], "--data.batch_size", 4)
    words += ("--model.net.variant", "Ti/16", "--model.net.depth", 3, "--model.net.pool", pool)
    for precision in ("32-true", "bf16-mixed"):
        together(*words, "--trainer.precision", precision, *experiment(precision))
    for loss, ours in losses("bf16-mixed").items():
        assert ours == pytest.approx(losses("32-true")[loss], rel=2e-2)


def test_two_gpus_do_the_mathematics_of_one(app, together, exact):
    """A single device and DDP draw their weights on the GPU, FSDP on the host."""
    for device in ("gpu", "cpu"):
        words = (*FIT, *exact, "--trainer.accelerator", device, "--trainer.devices", 1, "--data.batch_size", 8)
        alone = app(*words, *experiment(device))
        assert alone.code == 0, alone.err
    for name, strategy, device in (("ddp", "ddp", "gpu"), ("fsdp", "fsdp", "cpu")):
        together(*FIT, *exact, *STRATEGIES[strategy], "--data.batch_size", 4, *experiment(name))
        for loss, ours in losses(name).items():
            assert ours == pytest.approx(losses(device)[loss], abs=1e-5)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_graphs_on_two_gpus_do_the_mathematics_of_ddp(together, exact, accumulated):
    """Five batches an epoch: the last one is stepped on alone where two are accumulated."""
    words = (*FIT, *exact, *STRATEGIES["ddp"], "--data.batch_size", 4)
    words += ("--trainer.accumulate_grad_batches", accumulated)
    together(*words, "--model.cuda_graph", "false", *experiment("plain"))
    together(*words, "--model.cuda_graph", "true", *experiment("graphs"))
    for loss, ours in losses("graphs").items():
        assert len(ours) > 1 and ours == pytest.approx(losses("plain")[loss], abs=1e-5)
