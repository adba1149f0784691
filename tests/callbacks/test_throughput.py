"""What Throughput logs, against runs whose times are known."""

import csv
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from lightning.pytorch.profilers import SimpleProfiler

from vit_lightning.callbacks import throughput
from vit_lightning.callbacks.throughput import WARMUP, Throughput
from vit_lightning.classifier import Classifier
from vit_lightning.compute import clock as compute_clock
from vit_lightning.compute.cost import macs
from vit_lightning.models import NetConfig

BATCH = 4


class Kept(Logger):
    """Keeps what is logged."""

    name, version = "kept", "0"

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, dict[str, float]]] = []

    def log_hyperparams(self, *args, **kwargs) -> None: ...

    def log_metrics(self, metrics, step=None) -> None:
        if "perf/images_per_s" in metrics:
            self.rows.append((step, dict(metrics)))


class Slow(LightningModule):
    """A step, and a validation, that take a given time."""

    def __init__(self, seconds: float, validation: float = 0.0) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seconds, self.validation = seconds, validation

    def training_step(self, batch, batch_idx):
        time.sleep(self.seconds)
        return self.layer(batch[0]).mean()

    def validation_step(self, batch, batch_idx) -> None:
        time.sleep(self.validation)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Loader:
    """A loader that takes a given time for every batch."""

    def __init__(self, batches: int, seconds: float = 0.0, sized: bool = True) -> None:
        self.batches, self.seconds = batches, seconds
        if sized:
            self.__class__ = type("Sized", (Loader,), {"__len__": lambda self: self.batches})

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(self.batches):
            time.sleep(self.seconds)
            yield torch.zeros(BATCH, 1), torch.zeros(BATCH)


class Time:
    """A clock that only sleeping moves, but for a microsecond a look, so that no machine is too slow for a test."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1e-6
        return self.now

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch, request) -> Time:
    clock = Time()
    if not request.node.get_closest_marker("gpu"):
        for module in (sys.modules[__name__], throughput, compute_clock):
            monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def fit(tmp_path, clock) -> Callable[..., Kept]:
    def run(model: LightningModule, loader: Loader, *callbacks: Callback, **settings) -> Kept:
        logger = Kept()
        quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
        settings = {"accelerator": "cpu", "max_epochs": 1, "log_every_n_steps": 5, "num_sanity_val_steps": 0} | settings
        trainer = Trainer(default_root_dir=tmp_path, logger=logger, callbacks=list(callbacks), **quiet, **settings)
        trainer.fit(model, loader, Loader(2) if "val_check_interval" in settings else None)
        return logger

    return run


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize(("loading", "step", "share"), [(0.020, 0.005, 0.8), (0.0, 0.020, 0.0)])
def test_data_wait_is_the_share_of_time_that_the_step_lacks_its_batch(fit, loading, step, share, sized):
    logger = fit(Slow(step), Loader(20, loading, sized), Throughput())
    waits = [figures["perf/data_wait"] for _, figures in logger.rows]
    assert len(waits) == 3
    assert waits == pytest.approx([share] * 3, abs=0.05)  # without a length, one batch is loaded ahead


def test_images_per_second_count_every_window_after_the_first_steps(fit):
    logger = fit(Slow(0.01), Loader(20), Throughput())
    steps = [step + 1 for step, _ in logger.rows]
    assert steps == [step for step in (5, 10, 15, 20) if step > WARMUP]
    for _, figures in logger.rows:
        assert figures["perf/images_per_s"] == pytest.approx(BATCH / 0.01, rel=0.01)
        assert {"perf/mfu", "perf/memory_gib", "cost/exaflops"}.isdisjoint(figures)


def test_validation_and_checkpoints_are_no_training_time(fit, tmp_path):
    class Saves(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
            if batch_idx % 2:
                trainer.save_checkpoint(tmp_path / "x.ckpt")

        def on_save_checkpoint(self, trainer, pl_module, checkpoint) -> None:
            time.sleep(0.03)

    model = Slow(0.005, validation=0.03)
    logger = fit(model, Loader(20), Throughput(), Saves(), val_check_interval=2)
    assert len(logger.rows) == 3
    for _, figures in logger.rows:
        assert figures["perf/images_per_s"] == pytest.approx(BATCH / 0.005, rel=0.01)


def test_accumulation_logs_once_per_optimiser_step(fit):
    logger = fit(Slow(0.001), Loader(40), Throughput(), accumulate_grad_batches=2, log_every_n_steps=2)
    steps = [step for step, _ in logger.rows]
    assert steps == list(range(3, 20, 2))


def test_a_chosen_profiler_hears_everything_and_comes_back(fit):
    profiler = SimpleProfiler()
    fit(Slow(0), Loader(10), Throughput(), profiler=profiler)
    assert len(profiler.recorded_durations["[_TrainingEpochLoop].train_dataloader_next"]) == 10


def test_a_batch_that_is_no_pair_is_counted(fit):
    class Mapping(Slow):
        def training_step(self, batch, batch_idx):
            return self.layer(batch["images"]).mean()

    class Mappings(Loader):
        def __iter__(self):
            return ({"images": images} for images, _ in super().__iter__())

    assert fit(Mapping(0), Mappings(10, sized=False), Throughput()).rows


def test_no_logging_period_logs_nothing(fit):
    assert fit(Slow(0), Loader(10), Throughput(), log_every_n_steps=0).rows == []


@pytest.mark.gpu
@pytest.mark.parametrize(("loading", "step", "share"), [(0.020, 0.005, 0.8), (0.002, 0.020, 0.0), (0.015, 0.020, 0.0)])
def test_data_wait_is_the_device_s_while_the_host_runs_ahead(fit, loading, step, share):
    """The device sleeps through a step that the host has launched at once; a loader slower than that is no wait."""

    class Busy(Slow):
        def training_step(self, batch, batch_idx):
            torch.cuda._sleep(int(self.seconds * cycles))
            return self.layer(batch[0]).mean()

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.cuda._sleep(10**8)
    end.record()
    end.synchronize()
    cycles = 1e8 / (start.elapsed_time(end) / 1e3)
    logger = fit(Busy(step), Loader(60, loading), Throughput(), accelerator="gpu", devices=1, log_every_n_steps=20)
    waits = [figures["perf/data_wait"] for _, figures in logger.rows]
    assert waits[1:] == pytest.approx([share] * len(waits[1:]), abs=0.12)


# Cost ----------------------------------------------------------------------------------------------------------------


def started(config: NetConfig, freeze_trunk: bool = False, world_size: int = 1, precision: str = "32-true") -> tuple:
    trainer = SimpleNamespace(
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
        world_size=world_size,
        precision=precision,
        profiler=SimpleProfiler(),
        progress_bar_metrics={},
        global_step=0,
        log_every_n_steps=10**6,
    )
    model = Classifier(config, freeze_trunk=freeze_trunk, image_size=32, num_classes=10)
    meter = Throughput()
    meter.on_train_start(trainer, model)
    return meter, trainer, model


@pytest.mark.parametrize("world_size", [1, 4])
def test_exaflops_are_six_macs_per_image_of_all_devices(world_size):
    config = NetConfig("Ti/16")
    meter, trainer, model = started(config, world_size=world_size)
    for _ in range(3):
        meter.on_train_batch_end(trainer, model, None, (torch.zeros(8, 3), None), 0)
    assert meter.exaflops == pytest.approx(6 * macs(config, 32, 10) * 3 * 8 * world_size / 1e18)


def test_cost_goes_on_after_a_resume(clock):
    meter, trainer, model = started(NetConfig("Ti/16"), world_size=3600)
    meter.on_train_batch_end(trainer, model, None, (torch.zeros(8, 3), None), 0)
    time.sleep(0.02)
    saved = meter.state_dict()
    assert saved["device_hours"] == pytest.approx(0.02, rel=0.01)  # seconds on 3600 devices
    later, trainer, model = started(NetConfig("Ti/16"))
    later.load_state_dict(saved)
    later.on_train_batch_end(trainer, model, None, (torch.zeros(8, 3), None), 0)
    assert later.exaflops > saved["exaflops"] and later.device_hours > saved["device_hours"]


def test_mfu_is_the_share_of_the_table_s_peak(monkeypatch):
    monkeypatch.setattr("vit_lightning.callbacks.throughput.device_name", lambda device: "NVIDIA H100 80GB HBM3")
    config = NetConfig("B/16")
    meter, *_ = started(config, world_size=2, precision="bf16-mixed")
    meter._images, meter._spans = 3000, [(0.0, 1.0)]
    figures = meter._figures(torch.device("cpu"))
    assert figures["perf/mfu"] == pytest.approx(3000 * 6 * macs(config, 32, 10, computed=True) / (2 * 989.4e12))


def test_a_fit_logs_throughput_and_continues_its_cost(app):

    tiny = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Synthetic")
    sizes = ("--data.train_size", 64, "--data.eval_size", 8, "--data.batch_size", 8, "--trainer.log_every_n_steps", 2)
    done = app("fit", *tiny, *sizes, "--trainer.max_epochs", 2)
    assert done.code == 0, done.err
    assert " images/s, waiting for data " in done.out
    more = ("--trainer.max_epochs", 3, "--model.schedule.allow_horizon_change", "true", "--ckpt_path", "last")
    done = app("fit", *tiny, *sizes, *more)
    assert done.code == 0, done.err
    with Path("runs/default/0/metrics.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("cost/exaflops")]
    *within, end = rows
    assert [int(row["step"]) + 1 for row in within] == [6, 8, 10, 12, 14, 16, 22, 24]
    assert int(end["step"]) == 24 and not end["perf/images_per_s"]  # that of step 16 gave way when the run went on
    per_step = 6 * macs(NetConfig("mu/8"), 32, 10) * 8 / 1e18
    steps = [*(int(row["step"]) + 1 for row in within), 24]
    assert [float(row["cost/exaflops"]) for row in rows] == pytest.approx([step * per_step for step in steps])
    hours = [float(row["cost/device_hours"]) for row in rows]
    assert hours == sorted(hours) and hours[0] > 0


@pytest.mark.parametrize("steps", [3, 6, 7], ids=["never logged", "logged at the last step", "not logged at the last"])
def test_the_last_row_is_the_whole_cost(app, steps):
    """Also of a run that has nothing left to do when it is resumed, and without a second row."""

    words = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Synthetic")
    words += ("--data.train_size", 64, "--data.eval_size", 8, "--data.batch_size", 8, "--data.num_workers", 0)
    words += ("--trainer.log_every_n_steps", 2, "--trainer.max_steps", steps)
    cost = 6 * macs(NetConfig("mu/8"), 32, 10) * 8 * steps / 1e18
    for resumed in ((), ("--ckpt_path", "last")):
        done = app("fit", *words, *resumed)
        assert done.code == 0, done.err
        with Path("runs/default/0/metrics.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["cost/device_hours"]]
        assert float(rows[-1]["cost/exaflops"]) == pytest.approx(cost)
        numbers = [int(row["step"]) for row in rows]
        assert numbers[-1] == steps and len(set(numbers)) == len(numbers)


class Marks:
    """A clock whose marks are seconds."""

    def __init__(self) -> None:
        self.now, self.settled = 0.0, []

    def mark(self) -> float:
        return self.now

    def settle(self, mark: float) -> None:
        self.settled.append(mark)

    def seconds(self, start: float, end: float) -> float:
        return end - start


def test_figures_are_of_the_spans_that_train():
    """Of 3 and 5 s of training, 2 s are waited; what lies between is none of either."""
    meter, trainer, model = started(NetConfig("mu/8"), world_size=2)
    meter._clock = clock = Marks()
    meter._untimed_batches = 0
    kept, trainer.log_every_n_steps = Kept(), 2
    trainer.loggers, trainer.callback_metrics = [kept], {"train/loss": torch.tensor(0.5), "val/top1": torch.tensor(1.0)}
    for begin, wait, end in ((10.0, 1.5, 13.0), (20.0, 0.5, 25.0)):
        clock.now = begin
        meter._on_batch_requested()
        clock.now += wait
        meter.on_train_batch_start(trainer, model, None, 0)
        clock.now = end
        trainer.global_step += 1
        meter.on_train_batch_end(trainer, model, None, (torch.zeros(8, 3), None), 0)
        meter.on_validation_start(trainer, model)
    ((step, figures),) = kept.rows
    assert step == 1  # as Lightning counts
    assert figures["perf/images_per_s"] == 2 * 2 * 8 / 8.0
    assert figures["perf/data_wait"] == 2 / 8
    assert figures["cost/exaflops"] == pytest.approx(6 * macs(NetConfig("mu/8"), 32, 10) * 32 / 1e18)
    assert clock.settled == [25.0]
    assert trainer.progress_bar_metrics == {"train/loss": 0.5, "perf/images_per_s": 4.0, "perf/data_wait": 0.25}
    assert (meter._images, meter._spans, meter._waits) == (0, [(25.0, 25.0)], [])


def test_frozen_parts_cost_less_and_images_need_not_be_square():
    from vit_lightning.compute.cost import training_flops

    for freeze, bias_only in ((False, False), (True, False), (False, True)):
        tuned = {"freeze_trunk": freeze, "bias_only": bias_only}
        model = Classifier(NetConfig("mu/8"), image_size=(16, 40), num_classes=10, **tuned)
        for computed in (False, True):
            expected = training_flops(NetConfig("mu/8"), (16, 40), 10, freeze, computed, bias_only)
            assert throughput.flops_per_image(model, computed) == expected
    assert throughput.flops_per_image(Slow(0.0), False) is None


def test_hours_are_those_of_all_devices_and_stop_with_the_run(clock):
    meter, trainer, model = started(NetConfig("mu/8"), world_size=6)
    meter.load_state_dict({"exaflops": 2.0, "device_hours": 5.0})
    time.sleep(1800.0)
    assert meter.device_hours == pytest.approx(5.0 + 3.0)
    profiler = trainer.profiler.inner
    meter.teardown(trainer, model, "fit")
    time.sleep(1800.0)
    assert meter.device_hours == pytest.approx(8.0) and trainer.profiler is profiler
    kept = SimpleNamespace(rows=[], log_metrics=lambda figures, step: kept.rows.append((step, figures)))
    trainer.loggers, trainer.global_step = [kept], 7
    meter.on_fit_end(trainer, model)
    ((step, figures),) = kept.rows
    assert step == 7 and figures == {"cost/exaflops": 2.0, "cost/device_hours": pytest.approx(8.0)}


def test_a_wait_begins_where_its_own_batch_is_asked_for():
    """Three batches within one span of 12 s: they are waited for 1, 2 and 3 s."""
    meter, trainer, model = started(NetConfig("mu/8"))
    meter._clock = clock = Marks()
    meter._untimed_batches = 0
    for begin, wait in ((10.0, 1.0), (14.0, 2.0), (18.0, 3.0)):
        clock.now = begin
        meter._on_batch_requested()
        clock.now += wait
        meter.on_train_batch_start(trainer, model, None, 0)
        meter.on_train_batch_end(trainer, model, None, (torch.zeros(8, 3), None), 0)
    clock.now = 22.0
    figures = meter._figures(torch.device("cpu"))
    assert figures["perf/data_wait"] == 6 / 12 and figures["perf/images_per_s"] == 24 / 12


def test_the_end_logs_and_keeps_estimates_beside_what_was_measured(app):
    data = ("--data", "Synthetic", "--data.train_size", 64, "--data.eval_size", 8, "--data.num_workers", 0)
    net = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.batch_size", 8)
    done = app("fit", *data, *net, "--trainer.max_epochs", 2)
    assert done.code == 0, done.err
    with Path("runs/default/0/metrics.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["cost/estimated_exaflops"]) == pytest.approx(float(last["cost/exaflops"]))
    assert 0 < float(last["cost/estimated_memory_gib"]) < float(last["cost/memory_gib"])
    kept = torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)["callbacks"]["Throughput"]
    assert kept["estimated_exaflops"] == pytest.approx(kept["exaflops"])
    assert kept["memory_gib"] > kept["estimated_memory_gib"] > 0 and kept["device_hours"] > 0


def test_measured_cost_goes_on_when_a_run_is_resumed():
    meter = Throughput()
    meter.load_state_dict({"exaflops": 1.0, "device_hours": 2.0, "memory_gib": 3.0, "energy_kwh": 4.0})
    assert meter.final_cost() == {
        "cost/exaflops": 1.0,
        "cost/device_hours": 2.0,
        "cost/memory_gib": 3.0,
        "cost/energy_kwh": 4.0,
    }
