"""Throughput's figures where a net, a peak or a pair is missing, and what one fit leaves to the next."""

from types import SimpleNamespace

import pytest
import torch

from tests.callbacks.test_throughput import Kept, Marks, Slow, started
from vit_lightning.callbacks import throughput
from vit_lightning.callbacks.plan import RunPlan
from vit_lightning.callbacks.run_estimate import RunEstimate
from vit_lightning.callbacks.throughput import WARMUP, ForwardingProfiler, Throughput
from vit_lightning.compute.cost import macs
from vit_lightning.models import NetConfig


@pytest.mark.parametrize("batch", [[{"images": torch.zeros(8, 3)}], {"images": torch.zeros(8, 3)}, torch.zeros(8, 3)])
def test_images_of_any_batch_are_counted(batch):
    meter, trainer, model = started(NetConfig("mu/8"), world_size=2)
    meter.on_train_batch_end(trainer, model, None, batch, 0)
    assert meter.exaflops == pytest.approx(6 * macs(NetConfig("mu/8"), 32, 10) * 8 * 2 / 1e18)


@pytest.mark.parametrize(("computed", "peak"), [(None, 1e12), (3, None)])
def test_without_a_net_or_a_peak_there_is_no_mfu(computed, peak):
    meter, *_ = started(NetConfig("mu/8"))
    meter._computed, meter._peak = computed, peak
    meter._images, meter._spans, meter._clock = 30, [(0.0, 1.0)], Marks()
    assert "perf/mfu" not in meter._figures(torch.device("cpu"))
    meter._computed, meter._peak, meter._images = 3, 1e3, 30
    meter._spans, meter._span_start = [(0.0, 1.0)], None
    assert meter._figures(torch.device("cpu"))["perf/mfu"] == pytest.approx(0.09)


def test_a_model_without_a_net_costs_hours_alone(monkeypatch):
    meter, trainer, _ = started(NetConfig("mu/8"))
    meter._flops = throughput.flops_per_image(Slow(0.0), False)
    meter.on_train_batch_end(trainer, None, None, (torch.zeros(8, 3), None), 0)
    assert meter.exaflops == 0 and set(meter._cost()) == {"cost/device_hours"}


def test_spans_begin_after_the_warm_up_of_each_fit():
    meter, trainer, model = started(NetConfig("mu/8"))
    for fit in range(2):
        meter._clock = Marks()
        spans = []
        for number in range(WARMUP + 2):
            meter._clock.now = 10.0 * number
            meter._on_batch_requested()
            spans.append(meter._span_start)
            meter.on_train_batch_end(trainer, model, None, (torch.zeros(4, 3), None), number)
        assert spans == [None] * WARMUP + [10.0 * WARMUP] * 2 and meter._images == 8, fit
        trainer.profiler = trainer.profiler.inner
        meter.on_train_start(trainer, model)
        assert (meter._images, meter._spans, meter._span_start) == (0, [], None)


def test_a_step_of_several_batches_and_a_resumed_one_are_logged_once():
    meter, trainer, model = started(NetConfig("mu/8"))
    trainer.global_step, trainer.log_every_n_steps = 4, 2
    trainer.profiler = trainer.profiler.inner
    meter.on_train_start(trainer, model)  # goes on at step 4
    kept = Kept()
    trainer.loggers, trainer.callback_metrics = [kept], {}
    meter._clock, meter._untimed_batches = Marks(), 0
    meter._clock.now = 10.0
    for now, step in enumerate((4, 5, 5, 6, 6, 7, 8), 11):
        meter._on_batch_requested()
        meter._clock.now, trainer.global_step = float(now), step
        meter.on_train_batch_end(trainer, model, None, (torch.zeros(6, 3), None), now)
    assert [(step, figures["perf/images_per_s"]) for step, figures in kept.rows] == [(5, 6.0), (7, 6.0)]
    assert meter.whole == {"perf/images_per_s": 6.0, "perf/data_wait": 0.0}


def test_the_whole_is_that_of_all_windows_and_no_mean_of_their_speeds():
    """10 images in 1 s and 20 in 9 s, of which 4 were waited for."""
    meter, *_ = started(NetConfig("mu/8"))
    assert meter.whole == {}
    meter._clock = Marks()
    for images, end, wait in ((10, 1.0, 0.0), (20, 9.0, 4.0)):
        meter._images, meter._spans, meter._waits = images, [(0.0, end)], [(0.0, wait)]
        meter._span_start = None
        meter._figures(torch.device("cpu"))
    assert meter.whole == {"perf/images_per_s": 3.0, "perf/data_wait": 0.4}


def test_memory_is_the_greatest_seen_and_energy_that_of_all_devices(monkeypatch):
    peaks = [3 * 2**30, 2 * 2**30, 5 * 2**30]
    monkeypatch.setattr(throughput, "peak_memory", lambda device: peaks.pop(0))
    meter, trainer, model = started(NetConfig("mu/8"), world_size=4)
    meter.load_state_dict({"exaflops": 0.0, "device_hours": 0.0, "memory_gib": 1.0, "energy_kwh": 10.0})
    meter._meter = SimpleNamespace(kwh=lambda: 0.5)
    assert [meter.state_dict()["memory_gib"] for _ in range(3)] == [3.0, 3.0, 5.0]
    assert meter.state_dict.__self__.energy_kwh == 12.0
    meter.teardown(trainer, model, "fit")
    assert meter.energy_kwh == 12.0 and peaks == []
    meter.teardown(trainer, model, "fit")  # nothing is counted twice, nor is the memory of a later verb
    assert meter.energy_kwh == 12.0 and meter.state_dict()["memory_gib"] == 5.0


def test_the_estimate_is_that_of_the_plan_and_stands_in_the_state():
    meter, plan = Throughput(), RunPlan()
    plan.estimate = RunEstimate(1, 2, 3.0, None)
    meter.on_fit_start(SimpleNamespace(callbacks=[meter, plan]), None)
    assert meter.state_dict()["estimated_exaflops"] == 3.0
    assert meter.final_cost()["cost/estimated_exaflops"] == 3.0
    meter.on_fit_start(SimpleNamespace(callbacks=[meter]), None)
    assert meter.estimate is None


def test_a_state_of_an_earlier_version_has_neither_memory_nor_energy():
    meter = Throughput()
    meter.load_state_dict({"exaflops": 1.0, "device_hours": 2.0})
    assert meter.final_cost() == {"cost/exaflops": 1.0, "cost/device_hours": 2.0}


def test_a_profiler_is_told_of_the_batches_of_training_and_of_checkpoints_alone():
    told: list[str] = []
    inner = SimpleNamespace(start=lambda name: told.append(f"start {name}"), stop=lambda name: told.append("stop"))
    inner.profile = lambda name: told.append(f"profile {name}")
    profiler = ForwardingProfiler(inner, lambda: told.append("fetch"), lambda: told.append("save"))
    for name in (ForwardingProfiler.FETCH, "[_EvaluationLoop].val_next"):
        profiler.start(name)
        profiler.stop(name)
    for name in ("save_checkpoint", "run_training_batch"):
        profiler.profile(name)
    assert told == [
        *("fetch", f"start {ForwardingProfiler.FETCH}", "stop", "start [_EvaluationLoop].val_next", "stop"),
        *("save", "profile save_checkpoint", "profile run_training_batch"),
    ]
