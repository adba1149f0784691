"""What every model's recipe shares, through the command line."""

import os
import subprocess
import sys

import pytest
import torch

DATA = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.num_workers", 0)
NET = ("--model.net.variant", "mu/8", "--model.net.depth", 2, "--data.image_size", 16)
CPU = ("--trainer.accelerator", "cpu")
FSDP = ("ModelParallelStrategy", "--trainer.strategy.data_parallel_size=2", "--trainer.strategy.tensor_parallel_size=1")
FSDP += ("--trainer.strategy.save_distributed_checkpoint=false",)


def trained(number: int) -> dict[str, torch.Tensor]:
    return torch.load(f"runs/default/{number}/checkpoints/last.ckpt", weights_only=True)["state_dict"]


def close(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], tolerance: float) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("model", ["classifier.Classifier", "masked_patch.MaskedPatch"])
def test_recomputing_blocks_trains_the_same_weights(app, model):
    words = ("fit", "--model", f"vit_lightning.{model}", *DATA, *NET, *CPU, "--data.batch_size", 8)
    for recompute in ("false", "true"):
        done = app(*words, "--model.net.dropout", 0.1, "--model.recompute", recompute)
        assert done.code == 0, done.err
    close(trained(0), trained(1), 1e-6)


@pytest.mark.parametrize("strategy", [("ddp",), FSDP], ids=["ddp", "fsdp2"])
def test_recomputing_blocks_works_on_two_processes(app, strategy):
    words = ("fit", *DATA, *NET, *CPU, "--model.optim.name", "sgd", "--data.batch_size")
    assert app(*words, 8).code == 0
    two = (*words, 4, "--model.recompute", "true", "--trainer.devices", 2, "--trainer.strategy", *strategy)
    done = subprocess.run(
        [sys.executable, "-m", "vit_lightning", *map(str, two)],
        env={name: value for name, value in os.environ.items() if name != "VIT_LIGHTNING_RUN"}
        | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    close(trained(0), trained(1), 1e-5)
