"""What a GPU's meter says, through a stand-in for NVML, and the peak of memory."""

import sys
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.compute import energy


class RefusedError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch):
    """NVML with a counter in millijoules."""
    found = SimpleNamespace(NVMLError=RefusedError, mj=5_000_000_000_000, named=None, nvmlInit=lambda: None)
    found.nvmlDeviceGetHandleByUUID = lambda name: setattr(found, "named", name) or "gpu"
    found.nvmlDeviceGetTotalEnergyConsumption = lambda handle: found.mj
    monkeypatch.setitem(sys.modules, "pynvml", found)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1-2"))
    return found


def test_energy_is_counted_from_the_meters_beginning(nvml):
    meter = energy.EnergyMeter(torch.device("cuda", 0))
    nvml.mj += 7_200_000_000
    assert nvml.named == "GPU-1-2"
    assert meter.kwh() == pytest.approx(2.0)


def test_a_counter_that_fails_later_gives_no_figure(nvml):
    meter = energy.EnergyMeter(torch.device("cuda", 0))

    def fail(handle):
        raise RefusedError

    nvml.nvmlDeviceGetTotalEnergyConsumption = fail
    assert meter.kwh() == 0.0


def test_without_the_package_or_a_gpu_there_is_no_figure(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert energy.EnergyMeter(torch.device("cuda", 0)).kwh() == 0.0
    assert energy.EnergyMeter(torch.device("cpu")).kwh() == 0.0


def test_the_peak_of_a_cpu_is_that_of_the_process():
    before = energy.peak_memory(torch.device("cpu"))
    assert before > 50 * 2**20
    held = torch.ones(60_000_000)
    assert energy.peak_memory(torch.device("cpu")) >= before and held.sum() > 0


def test_what_replays_of_graphs_use_is_held(monkeypatch):
    """The allocator counts nothing of it: two pools of graphs, on this device and on another, and the usual pool."""
    pools = [((0, 0), 0, 100, 60), ((0, 1), 0, 70, 30), ((2, 0), 0, 9, 9), ((0, 1), 1, 500, 0)]
    keys = ("segment_pool_id", "device", "total_size", "allocated_size")
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [dict(zip(keys, each, strict=True)) for each in pools])
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 99)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 130)
    assert energy.held_memory(torch.device("cuda", 0)) == 99 + 40
    assert energy.peak_memory(torch.device("cuda", 0)) == 130 + 40
    assert energy.peak_memory(torch.device("cuda", 1)) == 130 + 500
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert energy.peak_memory(torch.device("cuda")) == 130 + 500


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_the_peak_of_a_process_is_told_in_the_system_s_unit(monkeypatch, system, unit):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=7))
    monkeypatch.setattr(energy.sys, "platform", system)
    assert energy.peak_memory(torch.device("cpu")) == 7 * unit
