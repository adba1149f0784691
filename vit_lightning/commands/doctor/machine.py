"""What a run will stand on: processor, shared memory, devices, and what the cluster has allotted."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import torch
from lightning.pytorch import Trainer

from vit_lightning.data.workers import cores

SHARED_MEMORY = Path("/dev/shm")
"""Where Linux keeps what a loader's workers hand over."""


@dataclass(frozen=True)
class Machine:
    """Facts about this machine and what the trainer makes of it."""

    cores: int
    """Processor cores that this process may use."""
    shared_memory: int | None = None
    """Free bytes; None: not limited."""
    gpus: tuple[str, ...] = ()
    bf16: bool = False
    """Whether the GPUs calculate in bf16."""
    accelerator: str = "cpu"
    precision: str = "32-true"
    devices: int = 1
    """Devices per node that the trainer uses."""
    nodes: int = 1
    accumulation: int = 1
    """Batches per optimiser step."""
    slurm: dict[str, str] = field(default_factory=dict)
    """SLURM's variables."""


def machine(trainer: Trainer) -> Machine:
    """Look at this machine."""
    there = torch.cuda.is_available()
    return Machine(
        cores=cores(),
        shared_memory=shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None,
        gpus=tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())),
        bf16=there and torch.cuda.is_bf16_supported(including_emulation=False),
        accelerator=type(trainer.accelerator).__name__.removesuffix("Accelerator").lower(),
        precision=str(trainer.precision),
        devices=trainer.num_devices,
        nodes=trainer.num_nodes,
        accumulation=trainer.accumulate_grad_batches,
        slurm={name: value for name, value in sorted(os.environ.items()) if name.startswith("SLURM_")},
    )
