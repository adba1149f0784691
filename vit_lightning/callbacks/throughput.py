"""How fast a fit is, what share of its devices it uses, how long it waits for data and what it costs."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.profilers import PassThroughProfiler, Profiler
from lightning.pytorch.utilities.data import extract_batch_size

from vit_lightning.callbacks.data_wait import DataWait
from vit_lightning.callbacks.plan import RunPlan
from vit_lightning.callbacks.run_estimate import GIB, RunEstimate, flops_per_image
from vit_lightning.compute.clock import Clock, WallClock, clock_of
from vit_lightning.compute.energy import EnergyMeter, peak_memory
from vit_lightning.compute.peaks import arithmetic_of, device_name, peak

WARMUP = 5
"""Batches of a fit that are not timed: compilation, first allocations, the start of the loader's workers."""
ON_PROGRESS_LINE = ("train/loss", "perf/images_per_s", "perf/mfu", "perf/data_wait")
"""Figures that the progress line shows."""


class Throughput(Callback):
    """Log speed and cost every `log_every_n_steps` optimiser steps, over the steps since the last time.

    perf/images_per_s and perf/mfu (share of the devices' peak, where it is known) leave out validation and the writing
    of checkpoints. MFU counts what is computed: of the last block, what the class token needs where the head reads it
    alone. perf/data_wait is the share of that time between a step's end and the next batch's arrival on the device,
    what `on_after_batch_transfer` does to it included. perf/memory_gib is the peak of a CUDA device. cost/exaflops
    counts 6 x MACs per image, all tokens in every block, as the paper's Table 6 does, cost/device_hours everything
    since the run began; both go on when it is resumed. A run's end logs them once more, under the step that would come
    next, so that a resumed run replaces that row as any of a later step. Beside them stand what was estimated,
    cost/memory_gib, the peak of a device (of a CPU, that of the process), and cost/energy_kwh of all GPUs, where NVML
    is at hand. The times are those of the first process,
    counted for all.

    The device is waited for once per log, where the loggers read the loss from it anyway.
    """

    def __init__(self) -> None:
        self.exaflops = 0.0
        self.estimate: RunEstimate | None = None
        self.memory_gib = 0.0
        self._meter: EnergyMeter | None = None
        self._earlier_hours = self._earlier_kwh = 0.0
        self._started: float | None = None
        self._devices, self._device = 1, torch.device("cpu")
        self._flops: int | None = None
        self._computed: int | None = None
        self._peak: float | None = None
        self._clock: Clock = WallClock()
        self._profiler: Profiler | None = None
        self._untimed_batches = WARMUP
        self._timed_step = 0
        self._span_start: Any = None
        self._requested: Any = None
        self._progress_line: dict[str, float] = {}
        self._data_wait = DataWait()
        self._timed_images, self._timed_seconds, self._timed_wait = 0, 0.0, 0.0
        self._reset()

    # The run ---------------------------------------------------------------------------------------------------------

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        plan = next((one for one in trainer.callbacks if isinstance(one, RunPlan)), None)  # type: ignore[attr-defined]
        self.estimate = plan.estimate if plan else None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        device = trainer.strategy.root_device
        self._clock = clock_of(device)
        self._devices = trainer.world_size
        self._flops, self._computed = (flops_per_image(pl_module, computed) for computed in (False, True))
        self._peak = peak(device_name(device), arithmetic_of(trainer.precision))
        self._untimed_batches, self._timed_step, self._span_start = WARMUP, trainer.global_step, None
        self._reset()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        self._device, self._meter = device, EnergyMeter(device)
        self._started = time.monotonic()
        self._progress_line = trainer.progress_bar_metrics  # asked once, since it evaluates every metric of the model
        self._profiler = trainer.profiler
        trainer.profiler = ForwardingProfiler(trainer.profiler, self._on_batch_requested, self._close_span)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self._span_start is not None:
            self._waits.append((self._requested, self._clock.mark()))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        own = isinstance(batch, tuple | list) and isinstance(batch[0], torch.Tensor)
        images = (len(batch[0]) if own else extract_batch_size(batch)) * self._devices
        if self._flops:
            self.exaflops += images * self._flops / 1e18
        if self._untimed_batches:
            self._untimed_batches -= 1
            return
        self._images += images
        step, every = trainer.global_step, trainer.log_every_n_steps
        if every and step % every == 0 and step != self._timed_step:
            self._timed_step = step
            self._log(trainer, self._figures(pl_module.device))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close_span()

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the cost also of a run that resumes with no step left, whose training never ends."""
        for logger in trainer.loggers:
            logger.log_metrics(self.final_cost(), step=trainer.global_step)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._restore_profiler(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._restore_profiler(trainer)

    def _restore_profiler(self, trainer: Trainer) -> None:
        if self._profiler is not None:
            trainer.profiler, self._profiler = self._profiler, None
            self._earlier_hours, self._earlier_kwh = self.device_hours, self.energy_kwh
            self._started, self._meter = None, None

    # The time --------------------------------------------------------------------------------------------------------

    def _on_batch_requested(self) -> None:
        """Begin a span, unless one is open: the loop asks for a batch."""
        if not self._untimed_batches:
            self._requested = self._clock.mark()
            self._span_start = self._span_start or self._requested

    def _close_span(self) -> None:
        """End the open span: what follows, until the loop asks for a batch, is no training."""
        if self._started is not None and self._span_start is not None:
            self._spans.append((self._span_start, self._clock.mark()))
            self._span_start = None

    def _reset(self) -> None:
        self._images = 0
        self._spans: list[tuple[Any, Any]] = []
        self._waits: list[tuple[Any, Any]] = []

    def _figures(self, device: torch.device) -> dict[str, float]:
        """Return the figures of the steps since the last call."""
        self._close_span()
        now = self._span_start = self._spans[-1][1]
        self._clock.settle(now)
        seconds, waited = (sum(self._clock.seconds(*pair) for pair in pairs) for pairs in (self._spans, self._waits))
        speed = self._images / seconds
        self._timed_images += self._images
        self._timed_seconds, self._timed_wait = self._timed_seconds + seconds, self._timed_wait + waited
        figures = {"perf/images_per_s": speed, "perf/data_wait": waited / seconds}
        if self._computed and self._peak:
            figures["perf/mfu"] = speed * self._computed / (self._peak * self._devices)
        if device.type == "cuda":
            figures["perf/memory_gib"] = peak_memory(device) / GIB
        self._reset()
        return figures | self._cost()

    def _log(self, trainer: Trainer, figures: dict[str, float]) -> None:
        """Not through the model's own log, which takes 0.25 ms for each figure."""
        for logger in trainer.loggers:
            logger.log_metrics(figures, step=trainer.global_step - 1)  # as Lightning counts
        figures = trainer.callback_metrics | figures
        self._progress_line.update({name: float(figures[name]) for name in ON_PROGRESS_LINE if name in figures})
        self._data_wait.warn_once(trainer, self._timed_wait, self._timed_seconds)

    @property
    def whole(self) -> dict[str, float]:
        """Speed and waiting over all timed steps since this program began to train; empty where there are none."""
        if not self._timed_seconds:
            return {}
        wait = self._timed_wait / self._timed_seconds
        return {"perf/images_per_s": self._timed_images / self._timed_seconds, "perf/data_wait": wait}

    # The cost --------------------------------------------------------------------------------------------------------

    def _cost(self) -> dict[str, float]:
        known = {"cost/exaflops": self.exaflops} if self.exaflops else {}
        return known | {"cost/device_hours": self.device_hours}

    @property
    def device_hours(self) -> float:
        """Hours that the run has held its devices, times their number."""
        now = 0.0 if self._started is None else time.monotonic() - self._started
        return self._earlier_hours + now * self._devices / 3600

    @property
    def on_gpu(self) -> bool:
        return self._device.type == "cuda"

    @property
    def energy_kwh(self) -> float:
        """What the run's GPUs have taken; 0 where nobody measures it."""
        return self._earlier_kwh + (0.0 if self._meter is None else self._meter.kwh() * self._devices)

    def final_cost(self) -> dict[str, float]:
        """Return what the run has cost, and what it was estimated to."""
        found = self._cost() | (self.estimate.figures if self.estimate else {})
        self._see_memory()
        measured = {"cost/memory_gib": self.memory_gib, "cost/energy_kwh": self.energy_kwh}
        return found | {name: value for name, value in measured.items() if value}

    def _see_memory(self) -> None:
        if self._started is not None:
            self.memory_gib = max(self.memory_gib, peak_memory(self._device) / GIB)

    def state_dict(self) -> dict[str, float]:
        self._see_memory()
        cost = {"exaflops": self.exaflops, "device_hours": self.device_hours}
        measured = {"memory_gib": self.memory_gib, "energy_kwh": self.energy_kwh}
        estimated = (
            {name.removeprefix("cost/"): value for name, value in self.estimate.figures.items()}
            if self.estimate
            else {}
        )
        return cost | measured | estimated

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        self.exaflops, self._earlier_hours = state_dict["exaflops"], state_dict["device_hours"]
        self.memory_gib, self._earlier_kwh = state_dict.get("memory_gib", 0.0), state_dict.get("energy_kwh", 0.0)


class ForwardingProfiler(Profiler):
    """A profiler that calls back where Lightning has no hook, and forwards everything to the trainer's own.

    Where no profiler was chosen, it costs less than Lightning's PassThroughProfiler, which enters a generator per hook.

    Args:
        inner: The trainer's own.
        on_fetch: Called right before the training loop asks its loader for a batch.
        on_save: Called right before a checkpoint is made.
    """

    FETCH = "[_TrainingEpochLoop].train_dataloader_next"
    SAVE = "save_checkpoint"

    def __init__(self, inner: Profiler, on_fetch: Callable[[], None], on_save: Callable[[], None]) -> None:
        super().__init__()
        self.inner = inner
        self.on_fetch = on_fetch
        self.on_save = on_save
        self._nothing = nullcontext() if isinstance(inner, PassThroughProfiler) else None

    def start(self, action_name: str) -> None:
        if action_name == self.FETCH:
            self.on_fetch()
        self.inner.start(action_name)

    def stop(self, action_name: str) -> None:
        self.inner.stop(action_name)

    def profile(self, action_name: str) -> AbstractContextManager:
        if action_name == self.SAVE:
            self.on_save()
        return self._nothing or self.inner.profile(action_name)
