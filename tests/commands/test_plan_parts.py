"""What `plan` takes from a fit that stands ready, and what it prints of it."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from vit_lightning.callbacks.plan import RunPlan
from vit_lightning.callbacks.progress import PlainProgress
from vit_lightning.callbacks.run_estimate import RunEstimate
from vit_lightning.callbacks.timely_end import TimelyEnd
from vit_lightning.classifier import Classifier
from vit_lightning.commands import plan as module
from vit_lightning.commands.plan import PlanEnds, _check, _cost_lines, _device_speed, _PlannedSteps, _prepare, plan
from vit_lightning.compute.cost import training_flops
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig

CHECKED = {"images_per_s": None, "device": None, "mfu": 0.4, "arithmetic": "bf16", "measure": 0, "watts": None}


def test_a_fit_that_is_planned_writes_saves_validates_and_shows_nothing():
    kept = [Callback(), RunPlan()]
    left_out = [ModelCheckpoint(), PlainProgress(), TimelyEnd.__new__(TimelyEnd)]
    trainer = SimpleNamespace(callbacks=[kept[0], *left_out, kept[1]], loggers=[1], num_sanity_val_steps=2)
    trainer.limit_val_batches = 1.0
    steps = _PlannedSteps(3)
    _prepare(trainer, steps)
    assert trainer.callbacks == [*kept, steps]
    assert (trainer.loggers, trainer.num_sanity_val_steps, trainer.limit_val_batches) == ([], 0, 0)


@pytest.mark.parametrize("measured", [0, 3])
def test_the_estimate_is_taken_once_a_fit_stands_ready(measured):
    steps, estimated = _PlannedSteps(measured), RunPlan()
    estimated.estimate = RunEstimate(1, 2, 3.0, None)
    loader = SimpleNamespace(batch_size=7)
    trainer = SimpleNamespace(callbacks=[Callback(), estimated], train_dataloader=loader)
    if measured:
        steps.on_fit_start(trainer, None)
    else:
        with pytest.raises(PlanEnds):
            steps.on_fit_start(trainer, None)
    assert steps.estimate is estimated.estimate and steps.batch == 7
    bare = _PlannedSteps(1)
    bare.on_fit_start(SimpleNamespace(callbacks=[], train_dataloader=[1]), None)
    assert bare.estimate is None and bare.batch == 0


class Fit(SimpleNamespace):
    """A trainer whose fit gives its planned steps what a real one would."""

    def fit(self, model, datamodule) -> None:
        steps = self.callbacks[-1]
        for name, value in self.found.items():
            setattr(steps, name, value)
        raise PlanEnds


def fit(devices: int = 1, main: bool = True, **found: object) -> Fit:
    found = {"estimate": RunEstimate(1, 7200, None, None)} | found
    return Fit(num_nodes=1, world_size=devices, is_global_zero=main, callbacks=[], found=found, precision="32-true")


def test_what_was_measured_gives_the_time_and_the_energy(capsys):
    found = {"images_per_s": 2.0, "timed": 5, "watts": 250.0, "memory": 3 * 2**29, "memory_of": "at the peak"}
    plan(fit(2, **found), None, None, measure=5)
    assert capsys.readouterr().out.splitlines() == [
        "measured 1.5 GiB at the peak",
        "time     1 h 00 min at 2 images/s (measured in 5 steps), 2 device hours on 2, without validation",
        "energy   0.5 kWh at 250 W a device",
    ]
    plan(fit(2, **found), None, None, measure=5, watts=1000)
    assert capsys.readouterr().out.splitlines()[-1] == "energy   2 kWh at 1000 W a device"


def test_figures_go_into_a_file(capsys, tmp_path):
    place = tmp_path / "plan.json"
    memory = SimpleNamespace(total=3 * 2**29)
    plan(fit(2, estimate=RunEstimate(9, 7200, 0.5, memory)), None, None, images_per_s=2.0, watts=500.0, json=place)
    known = {"steps": 9, "images": 7200, "exaflops": 0.5, "memory_gib": 1.5, "devices": 2}
    assert json.loads(place.read_text()) == known | {"images_per_s": 2.0, "hours": 1.0, "device_hours": 2.0, "kwh": 1.0}
    assert capsys.readouterr().out.endswith(f"json     {place}\n")
    plan(fit(estimate=RunEstimate(math.inf, math.inf, None, None)), None, None, images_per_s=2.0, json=place)
    found = json.loads(place.read_text())
    assert {name for name, value in found.items() if value is not None} == {"devices", "images_per_s"}
    with pytest.raises(InputError, match="--json"):
        plan(fit(), None, None, json=tmp_path / "no" / "plan.json")


def test_a_stated_speed_takes_no_power_of_a_measurement(capsys):
    plan(fit(4, watts=250.0), None, None, images_per_s=4.0)
    said = "time     30 min 00 s at 4 images/s (stated), 2 device hours on 4, without validation"
    assert capsys.readouterr().out.splitlines() == [said]


def test_a_device_has_the_speed_and_the_memory_of_its_arithmetic(capsys, monkeypatch):
    model = Classifier(NetConfig("mu/8"), num_classes=10, image_size=32)
    asked = []
    monkeypatch.setattr(module, "training_memory", lambda *facts: asked.append(facts) or 5)
    monkeypatch.setattr(module, "memory_in_words", lambda memory: f"{memory} bytes")
    trainer = fit(2, batch=16)
    plan(trainer, model, None, device="H100", mfu=0.5, arithmetic="bf16")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "H100     5 bytes" and asked == [(model, 16, trainer, "bf16")]
    assert "(50 % of the 989 TFLOP/s of H100 in bf16)" in lines[1] and "device hours on 2" in lines[1]
    plan(fit(2), model, None, device="H100")  # of data without a batch size
    assert capsys.readouterr().out.startswith("time ")


def test_nothing_is_said_by_other_processes_or_of_no_estimate(capsys):
    plan(fit(main=False), None, None, images_per_s=4.0)
    plan(fit(estimate=None), None, None, images_per_s=4.0)
    assert capsys.readouterr().out == ""


def test_a_plan_on_several_hosts_or_of_no_timed_step_is_refused():
    trainer = fit()
    trainer.num_nodes = 2
    with pytest.raises(InputError, match=r"not on --trainer\.num_nodes 2"):
        plan(trainer, None, None)
    with pytest.raises(InputError, match="no step left to time after 3 for warm-up"):
        plan(fit(images_per_s=0.0), None, None, measure=5)


def test_a_device_s_share_follows_its_number_its_arithmetic_and_what_is_computed():
    model = Classifier(NetConfig("B/16"), num_classes=1000, image_size=224)
    one, _ = _device_speed(model, "A100", 0.4, "bf16", 1)
    assert one == pytest.approx(0.4 * 312e12 / training_flops(NetConfig("B/16"), 224, 1000, computed=True))
    assert _device_speed(model, "A100", 0.4, "bf16", 8)[0] == pytest.approx(8 * one)
    assert _device_speed(torch.nn.Linear(1, 1), "A100", 0.4, "bf16", 1) == (None, "")


@pytest.mark.parametrize(
    "given",
    [
        {"images_per_s": 1e-9},
        {"mfu": 1.0},
        {"mfu": 1e-3, "device": "H100"},
        {"measure": 1, "watts": 0.5},
        {"device": "T4", "arithmetic": "fp16"},
    ],
)
def test_values_at_the_limits_are_taken(given):
    _check(**CHECKED | given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"images_per_s": math.inf}, "--images_per_s is inf; expected a positive number, such as 4500"),
        ({"watts": math.nan}, "--watts is nan; expected a positive number, such as 700"),
        ({"mfu": 0.0}, "--mfu is 0.0"),
        ({"mfu": 1.0001}, "--mfu is 1.0001"),
        ({"images_per_s": 5.0, "measure": 5}, "--images_per_s and --measure both say"),
        ({"images_per_s": 5.0, "device": "H100"}, "--images_per_s and --device both say"),
    ],
)
def test_values_beyond_them_are_not(given, said):
    with pytest.raises(InputError, match=said):
        _check(**CHECKED | given)


def test_core_days_of_an_endless_run_and_of_one_beside_its_time():
    """One exaFLOP takes 1e6 / (26.7 * 86,400) core-days at the faster rate."""
    lines = _cost_lines(RunEstimate(1, 100, 1000.0, None), 10.0, "stated", 1, None)
    assert lines[0].startswith("time     10 s at 10 images/s (stated), 0.00278 device hours on 1")
    assert lines[1] == "cores    433 to 588 TPUv3 core-days, at the paper's 26.7 to 19.7 TFLOP/s per core"


def test_warm_up_is_left_out_also_where_it_is_all_there_is(monkeypatch):
    steps = _PlannedSteps(2)
    monkeypatch.setattr(module, "EnergyMeter", lambda root: None)
    steps._clock = SimpleNamespace(mark=lambda: 0.0, settle=lambda mark: None)
    trainer: Trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")), world_size=1)
    for number in range(3):
        steps.on_train_batch_end(trainer, None, None, torch.zeros(5, 1), number)
    steps.on_train_end(trainer, None)
    assert (steps.timed, steps.images_per_s) == (0, 0.0)
