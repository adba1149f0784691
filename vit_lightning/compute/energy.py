"""What a run takes from its machine: energy of a GPU through NVML, and the peak of memory."""

import sys
from contextlib import suppress
from typing import Any

import torch

JOULES_PER_KWH = 3.6e6


class EnergyMeter:
    """The energy that a GPU has taken since this object was made; nothing where NVML or its package is missing.

    Source: nvmlDeviceGetTotalEnergyConsumption, which counts millijoules since the driver was loaded (from Volta on).

    Args:
        device: The device; one that is no GPU has no meter.
    """

    def __init__(self, device: torch.device) -> None:
        self._handle: Any = None
        self._nvml: Any = None
        if device.type == "cuda":
            with suppress(Exception):  # a missing package, library, driver or counter: all of them mean no figure
                import pynvml

                pynvml.nvmlInit()
                handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
                self._first = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
                self._nvml, self._handle = pynvml, handle

    def kwh(self) -> float:
        """Return the energy taken so far; 0 where it is not measured."""
        if self._handle is None:
            return 0.0
        with suppress(self._nvml.NVMLError):
            return (self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) - self._first) / 1e3 / JOULES_PER_KWH
        return 0.0


def peak_memory(device: torch.device) -> int:
    """Return the most bytes held so far: a GPU's allocator's since its last reset, else this process's.

    A CUDA graph's replays take their memory from the graph's own pool, which the allocator does not count again: all
    that the pools of graphs keep free is added. A capture is counted twice unless the peak is reset after it.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) + _kept_for_replays(device)
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def held_memory(device: torch.device) -> int:
    """Return the bytes of a GPU that are held now, those that replays of CUDA graphs use among them."""
    return torch.cuda.memory_allocated(device) + _kept_for_replays(device)


def _kept_for_replays(device: torch.device) -> int:
    """Return the bytes of a GPU that only replays of CUDA graphs use."""
    own = torch.cuda.current_device() if device.index is None else device.index
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == own and tuple(segment["segment_pool_id"]) != (0, 0)
    )
