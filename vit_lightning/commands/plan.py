"""The verb `plan`: what a fit will cost, before it is paid."""

import math
from contextlib import suppress
from json import dumps
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.callbacks.progress import ProgressBar
from lightning.pytorch.utilities.data import extract_batch_size

from vit_lightning.callbacks.plan import RunPlan
from vit_lightning.callbacks.run_estimate import (
    GIB,
    RunEstimate,
    flops_per_image,
    memory_in_words,
    training_memory,
)
from vit_lightning.callbacks.timely_end import TimelyEnd
from vit_lightning.compute.clock import clock_of
from vit_lightning.compute.energy import EnergyMeter, peak_memory
from vit_lightning.compute.peaks import COLUMNS, Arithmetic, device_names, peak
from vit_lightning.contracts import RecipeTrained
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.files import check_place, write_atomically
from vit_lightning.terminal import duration, near, percentage

WARMUP = 3
"""Steps that are not timed: compilation, first allocations, the start of the loader's workers."""
CORE_TFLOPS = 26.7, 19.7
"""What a TPUv3 core did in the paper, from its tables 2 and 6: L/16 (1,567 exaFLOPs in 680 core-days) and H/14 (4,262
in 2,500)."""
LEAST_CORE_DAYS = 0.01
"""Fewer of them say nothing of a run."""
SOURCES = "--images_per_s, --device or --measure"


def plan(
    trainer: Trainer,
    model: LightningModule,
    datamodule: LightningDataModule,
    *,
    images_per_s: float | None = None,
    device: str | None = None,
    mfu: float = 0.4,
    arithmetic: Arithmetic = "bf16",
    measure: int = 0,
    watts: float | None = None,
    json: Path | None = None,
) -> None:
    """Print the plan of a fit with these flags and what it will cost; train nothing.

    Steps, exaFLOPs and memory are known without measuring. Hours need a speed: one that is stated, that of a named
    device, or one that is measured here.

    Args:
        trainer: The trainer that a run with these flags would have.
        model: Its model.
        datamodule: Its data.
        images_per_s: Speed of all devices together.
        device: A device from the table of peaks, such as H100, of which a run has as many as here.
        mfu: Share of that device's peak that the run will use.
        arithmetic: That of matrix products on that device.
        measure: Steps to take and time here; their weights are thrown away.
        watts: Power of each device.
        json: File for the figures: steps, images, exaflops, memory_gib of a device, devices, and of a known speed
            images_per_s, hours, device_hours and kwh; null where one is not known.
    """
    if json is not None:
        check_place(json, "--json")
    _check(images_per_s, device, mfu, arithmetic, measure, watts)
    if trainer.num_nodes > 1:
        raise InputError(f"plan runs on one host, not on --trainer.num_nodes {trainer.num_nodes}; give 1")
    steps = _PlannedSteps(measure)
    _prepare(trainer, steps)
    with suppress(PlanEnds):
        trainer.fit(model, datamodule=datamodule)
    found = steps.estimate
    if not trainer.is_global_zero or found is None:
        return
    if measure and not steps.images_per_s:
        raise InputError(
            f"the run has no step left to time after {WARMUP} for warm-up; make it longer, or drop --measure"
        )
    lines = []
    if device is not None and isinstance(model, RecipeTrained) and steps.batch:
        lines.append(f"{device:<8} {memory_in_words(training_memory(model, steps.batch, trainer, arithmetic))}")
    speed, source = images_per_s, "stated"
    if device is not None:
        speed, source = _device_speed(model, device, mfu, arithmetic, trainer.world_size)
    elif measure:
        speed, source = steps.images_per_s, f"measured in {steps.timed} steps"
        watts = watts or steps.watts
        lines.append(f"measured {steps.memory / GIB:.3g} GiB {steps.memory_of}")
    print("\n".join([*lines, *_cost_lines(found, speed, source, trainer.world_size, watts)]), flush=True)
    if json is not None:
        write_atomically(json, dumps(_figures(found, speed, trainer.world_size, watts), indent=2) + "\n")
        print(f"json     {near(json)}", flush=True)


class PlanEnds(Exception):  # noqa: N818  # it is no error
    """Enough of a fit was seen."""


class _PlannedSteps(Callback):
    """Takes the estimate once a fit stands ready, and times its first steps if that is asked for."""

    def __init__(self, measured: int) -> None:
        self.measured = measured
        self.estimate: RunEstimate | None = None
        self.batch = self.timed = self.memory = self._done = self._images = 0
        self.images_per_s = self.watts = 0.0
        self.memory_of = ""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        plan = next((one for one in trainer.callbacks if isinstance(one, RunPlan)), None)  # type: ignore[attr-defined]
        self.estimate = plan.estimate if plan else None
        self.batch = getattr(trainer.train_dataloader, "batch_size", None) or 0
        if not self.measured:
            raise PlanEnds

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clock = clock_of(trainer.strategy.root_device)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._done += 1
        root = trainer.strategy.root_device
        if self._done <= WARMUP:
            if self._done == WARMUP:
                self._start, self._meter = self._clock.mark(), EnergyMeter(root)
                self._clock.settle(self._start)
            return
        self.timed += 1
        self._images += extract_batch_size(batch) * trainer.world_size
        if self.timed == self.measured:
            raise PlanEnds

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._end(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end(trainer)

    def _end(self, trainer: Trainer) -> None:
        if not self.timed or self.images_per_s:
            return
        root, end = trainer.strategy.root_device, self._clock.mark()
        self._clock.settle(end)
        seconds = self._clock.seconds(self._start, end)
        self.images_per_s = self._images / seconds
        self.watts = self._meter.kwh() * 3.6e6 / seconds
        self.memory = peak_memory(root)
        self.memory_of = "at the peak on a device" if root.type == "cuda" else "at the peak of the whole process"


def _check(
    images_per_s: float | None,
    device: str | None,
    mfu: float,
    arithmetic: Arithmetic,
    measure: int,
    watts: float | None,
) -> None:
    given = [
        name for name, value in (("images_per_s", images_per_s), ("device", device), ("measure", measure)) if value
    ]
    if len(given) > 1:
        raise InputError(f"--{given[0]} and --{given[1]} both say how fast the run is; give one of {SOURCES}")
    for name, value in (("images_per_s", images_per_s), ("watts", watts)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(
                f"--{name} is {value}; expected a positive number, such as {4500 if name[0] == 'i' else 700}"
            )
    if not 0 < mfu <= 1:
        raise InputError(f"--mfu is {mfu}; expected a share of the device's peak, such as 0.4")
    if measure < 0:
        raise InputError(f"--measure is {measure}; expected a number of steps, such as 20, or 0 for none")
    if device is not None and peak(device, arithmetic) is None:
        names = device_names()
        if any(peak(device, other) for other in COLUMNS):
            raise InputError(f"--device {device} has no known peak in {arithmetic}; give another --arithmetic")
        raise InputError(
            f"--device {device} is not in the table{did_you_mean(device, names)} (known: {', '.join(names)})"
        )


def _prepare(trainer: Trainer, steps: _PlannedSteps) -> None:
    """Let a fit write, save, validate and show nothing."""
    trainer.loggers = []
    trainer.num_sanity_val_steps = trainer.limit_val_batches = 0
    left_out = (Checkpoint, ProgressBar, TimelyEnd)
    trainer.callbacks = [*(one for one in trainer.callbacks if not isinstance(one, left_out)), steps]


def _device_speed(
    model: LightningModule, device: str, mfu: float, arithmetic: Arithmetic, devices: int
) -> tuple[float | None, str]:
    flops, rate = flops_per_image(model, computed=True), peak(device, arithmetic)
    if not flops or not rate:
        return None, ""
    return (
        devices * rate * mfu / flops,
        f"{percentage(mfu, digits=0)} of the {rate / 1e12:,.0f} TFLOP/s of {device} in {arithmetic}",
    )


def _figures(found: RunEstimate, speed: float | None, devices: int, watts: float | None) -> dict[str, float | None]:
    """Return what a run will cost, as a file has it."""
    hours = found.images / speed / 3600 if speed and math.isfinite(found.images) else None
    return {
        "steps": found.steps if math.isfinite(found.steps) else None,
        "images": found.images if math.isfinite(found.images) else None,
        "exaflops": found.exaflops,
        "memory_gib": found.memory.total / GIB if found.memory else None,
        "devices": devices,
        "images_per_s": speed,
        "hours": hours,
        "device_hours": None if hours is None else hours * devices,
        "kwh": None if hours is None or not watts else hours * devices * watts / 1e3,
    }


def _cost_lines(found: RunEstimate, speed: float | None, source: str, devices: int, watts: float | None) -> list[str]:
    """Return hours, energy and core-days, as far as they are known."""
    lines = []
    if not math.isfinite(found.images):
        lines.append("time     open: the run ends by time; give --trainer.max_epochs or --trainer.max_steps")
    elif speed:
        seconds = found.images / speed
        hours = seconds * devices / 3600
        said = f"{duration(seconds)} at {speed:,.0f} images/s ({source})"
        lines.append(f"time     {said}, {hours:.3g} device hours on {devices}, without validation")
        if watts:
            lines.append(f"energy   {hours * watts / 1e3:.3g} kWh at {watts:.0f} W a device")
    else:
        lines.append(f"time     unknown: give {SOURCES}")
    least, most = (found.exaflops * 1e6 / (rate * 86_400) for rate in CORE_TFLOPS) if found.exaflops else (0, 0)
    if most >= LEAST_CORE_DAYS:
        rates = " to ".join(map(str, CORE_TFLOPS))
        lines.append(f"cores    {least:.3g} to {most:.3g} TPUv3 core-days, at the paper's {rates} TFLOP/s per core")
    return lines
