"""Facts about this machine, as a trainer sees it."""

import os
from types import SimpleNamespace

import torch
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


def test_every_fact_stands_in_its_own_place(monkeypatch):
    class CUDAAccelerator: ...

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"card {index}")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    trainer = SimpleNamespace(
        accelerator=CUDAAccelerator(), precision="16-mixed", num_devices=3, num_nodes=5, accumulate_grad_batches=7
    )
    here = machine(trainer)
    assert (here.devices, here.nodes, here.accumulation, here.precision) == (3, 5, 7, "16-mixed")
    assert (here.accelerator, here.gpus) == ("cuda", ("card 0", "card 1"))
    assert not here.bf16  # emulation is no calculation
