"""Facts about this machine, as a trainer sees it."""

import os

from lightning.pytorch import Trainer

from vit_lightning.commands.doctor import machine as module
from vit_lightning.commands.doctor.machine import machine


def test_facts_of_this_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "environ", {"SLURM_JOB_ID": "7", "HOME": "/root"})
    trainer = Trainer(
        accelerator="cpu",
        precision="bf16-mixed",
        accumulate_grad_batches=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    here = machine(trainer)
    assert (here.accelerator, here.precision, here.devices, here.nodes, here.accumulation) == (
        "cpu",
        "bf16-mixed",
        1,
        1,
        4,
    )
    assert 1 <= here.cores <= os.cpu_count()
    assert here.slurm == {"SLURM_JOB_ID": "7"}
    monkeypatch.setattr(module, "SHARED_MEMORY", tmp_path)
    assert machine(trainer).shared_memory > 0
    monkeypatch.setattr(module, "SHARED_MEMORY", tmp_path / "elsewhere")
    assert machine(trainer).shared_memory is None
