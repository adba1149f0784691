"""Whether a net can fit into memory at all: told before it is built, which may take hours to fail."""

import os
from contextlib import suppress
from pathlib import Path

import torch

from vit_lightning.errors import InputError
from vit_lightning.models.config import ResolvedConfig, is_resnet, is_timm

CGROUP = Path("/sys/fs/cgroup/memory.max")
"""Where Linux says what a container may take; `max`: all."""
OBJECTS = 30_000
"""Bytes that a block's modules take beside its tensors."""


def check_fits(config: ResolvedConfig, num_classes: int) -> None:
    """Refuse a net whose tensors alone exceed the memory of the device that it would be built on.

    Raises:
        InputError: it does.
    """
    device = torch.get_default_device()
    if device.type == "meta" or is_timm(config):
        return
    numbers = least_parameters(config, num_classes)
    needed, there = torch.get_default_dtype().itemsize * numbers + OBJECTS * config.depth, memory_of(device)
    if needed > there:
        raise InputError(
            f"the memory does not suffice: net.width={config.width}, net.depth={config.depth} and "
            f"net.mlp={config.mlp} make "
            f"{numbers:.2g} or more parameters, which take {needed / 2**30:,.0f} GiB, where {device.type} has "
            f"{there / 2**30:,.1f}: choose a smaller net."
        )


def least_parameters(config: ResolvedConfig, num_classes: int) -> int:
    """Return a number of parameters that a net exceeds, from its config alone."""
    width = config.width
    if is_resnet(config):
        return sum(9 * (width * 2**stage) ** 2 * units for stage, units in enumerate(config.stages))
    block = 4 * width**2 + (3 if config.swiglu else 2) * width * config.mlp
    return config.depth * block + config.channels * config.patch**2 * width * (not config.stages) + width * num_classes


def memory_of(device: torch.device) -> int:
    """Return the bytes that a device, or this machine or container, has."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        return min(there, int(CGROUP.read_text()))
    return there
