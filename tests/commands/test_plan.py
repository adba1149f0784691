"""What `plan` says of a fit before it is paid for."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks.run_estimate import RunEstimate
from vit_lightning.classifier import Classifier
from vit_lightning.commands.plan import PlanEnds, _check, _cost_lines, _device_speed, _PlannedSteps
from vit_lightning.compute.cost import macs, training_flops
from vit_lightning.compute.peaks import PEAKS, device_names, peak
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig

RUN = ("--data", "Synthetic", "--data.train_size", 64, "--data.eval_size", 8, "--data.batch_size", 8)
SMALL = (*RUN, "--data.num_workers", 0, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
CHECKED = {"images_per_s": None, "device": None, "mfu": 0.4, "arithmetic": "bf16", "measure": 0, "watts": None}


def line(out: str, word: str) -> str:
    return next(text[9:] for text in out.splitlines() if text.startswith(f"{word} "))


def test_a_plan_at_a_stated_speed_writes_nothing(app):
    done = app("plan", *SMALL, "--trainer.max_epochs", 100, "--images_per_s", 4.0, "--watts", 500)
    assert done.code == 0, done.err
    exaflops = 6e-18 * macs(NetConfig("mu/8"), 32, 10) * 6400
    assert line(done.out, "steps").startswith("100 epochs of 8 batches, 800 optimiser steps")
    assert re.match(rf"{exaflops:.3g} exaFLOPs, [\d.]+ MiB on a device \(weights ", line(done.out, "estimate"))
    said = "26 min 40 s at 4 images/s (stated), 0.444 device hours on 1, without validation"
    assert line(done.out, "time") == said
    assert line(done.out, "energy") == "0.222 kWh at 500 W a device"
    assert "TPUv3 core-days" not in done.out  # far below 0.01
    assert not Path("runs").exists()


def test_a_measured_plan_times_steps_and_keeps_nothing(app):
    done = app("plan", *SMALL, "--measure", 2)
    assert done.code == 0, done.err
    assert re.search(r"images/s \(measured in 2 steps\), ", line(done.out, "time"))
    assert re.fullmatch(r"[\d.]+ GiB at the peak of the whole process", line(done.out, "measured"))
    assert not Path("runs").exists() and "epoch 1" not in done.out


def test_a_run_too_short_to_measure_says_so(app):
    done = app("plan", *SMALL, "--trainer.max_steps", 2, "--measure", 5)
    assert done.code != 0 and "no step left to time after 3 for warm-up" in done.err


def test_a_named_device_gives_its_share_of_the_peak():
    model = Classifier(NetConfig("B/16"), num_classes=1000, image_size=224)
    speed, source = _device_speed(model, "H100", 0.5, "bf16", 4)
    assert speed == pytest.approx(4 * 0.5 * 989.4e12 / training_flops(NetConfig("B/16"), 224, 1000, computed=True))
    assert source == "50 % of the 989 TFLOP/s of H100 in bf16"


def test_core_days_are_those_of_the_paper():
    """Table 2: 0.68k core-days for L/16 and 2.5k for H/14, of 1,567 and 4,262 exaFLOPs in table 6."""
    for exaflops, place, days in ((1567, 0, 680), (4262, 1, 2500)):
        said = _cost_lines(RunEstimate(1, math.inf, exaflops, None), None, "", 1, None)[-1]
        numbers = re.match(r"cores    (\S+) to (\S+) TPUv3 core-days", said)
        assert float(numbers[place + 1]) == pytest.approx(days, rel=0.01)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"images_per_s": 0.0}, "--images_per_s is 0.0; expected a positive number"),
        ({"watts": -1.0}, "--watts is -1.0"),
        ({"mfu": 40.0}, "--mfu is 40.0; expected a share"),
        ({"measure": -1}, "--measure is -1"),
        ({"device": "H10"}, r"--device H10 is not in the table; did you mean H100\?"),
        ({"device": "T4"}, "--device T4 has no known peak in bf16; give another --arithmetic"),
        ({"device": "H100", "measure": 5}, "--device and --measure both say how fast"),
    ],
)
def test_a_value_that_means_nothing_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        _check(**CHECKED | given)


def test_every_name_in_the_table_finds_its_row():
    assert len(device_names()) == len(PEAKS)
    for name, (_, *rates) in zip(device_names(), PEAKS, strict=True):
        assert peak(name, "fp32") == (rates[3] * 1e12 or None), name


def test_hours_energy_and_what_is_unknown():
    """7,200 images at 2 a second are one hour, two of devices, at 500 W each."""
    run = RunEstimate(1, 7200, None, None)
    assert _cost_lines(run, 2.0, "stated", 2, 500) == [
        "time     1 h 00 min at 2 images/s (stated), 2 device hours on 2, without validation",
        "energy   1 kWh at 500 W a device",
    ]
    assert _cost_lines(run, 2.0, "stated", 2, None)[1:] == []
    assert _cost_lines(run, None, "", 2, 500) == ["time     unknown: give --images_per_s, --device or --measure"]
    endless = _cost_lines(RunEstimate(math.inf, math.inf, None, None), 2.0, "stated", 2, 500)
    assert len(endless) == 1 and endless[0].startswith("time     open: the run ends by time")


class Clock:
    """Shows a second more at every look."""

    def __init__(self) -> None:
        self.shown = 0

    def mark(self) -> int:
        self.shown += 1
        return self.shown

    def settle(self, mark: int) -> None: ...

    def seconds(self, start: int, end: int) -> int:
        return 10 * (end - start)


def test_steps_are_timed_after_the_warm_up(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("vit_lightning.commands.plan.clock_of", lambda device: clock)
    monkeypatch.setattr("vit_lightning.commands.plan.EnergyMeter", lambda root: SimpleNamespace(kwh=lambda: 1 / 3600))
    trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")), world_size=2)
    steps = _PlannedSteps(4)
    steps.on_train_start(trainer, None)
    for number in range(6):
        steps.on_train_batch_end(trainer, None, None, torch.zeros(5 if number else 50, 1), number)
    with pytest.raises(PlanEnds):
        steps.on_train_batch_end(trainer, None, None, torch.zeros(5, 1), 6)
    steps.on_exception(trainer, None, PlanEnds())
    steps.on_train_end(trainer, None)  # counts nothing again
    assert (steps.timed, steps.images_per_s, steps.watts) == (4, 4 * 5 * 2 / 10, pytest.approx(100))
    assert steps.memory > 2**20 and steps.memory_of == "at the peak of the whole process"


@pytest.mark.parametrize(("exaflops", "shown"), [(0.5 * 0.01 * 19.7 * 86_400 / 1e6, False), (0.05, True)])
def test_core_days_that_say_nothing_are_left_out(exaflops, shown):
    lines = _cost_lines(RunEstimate(1, math.inf, exaflops, None), None, "", 1, None)
    assert any("core-days" in one for one in lines) == shown
