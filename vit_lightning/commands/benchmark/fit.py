"""What Lightning adds to a step: windows of a real fit, in turn with bare steps of the same model and optimiser."""

import math
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from vit_lightning.commands.benchmark.contender import (
    HORIZON,
    remove_step_limit,
    resident_batch,
    take_step,
    without_callbacks,
)
from vit_lightning.commands.benchmark.rounds import WARMUP, BenchmarkRow
from vit_lightning.compute.clock import clock_of

Batch = tuple[Tensor, Tensor]


class RepeatedBatch:
    """A loader that gives one batch again and again, for as many steps as no benchmark takes.

    Args:
        batch: Images and labels.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return HORIZON

    def __iter__(self) -> Iterator[Batch]:
        return repeat(self.batch, HORIZON)


class FitVersusBareSteps(Callback):
    """After every window of a fit, take as many bare steps, and time both.

    Args:
        fit: Takes the figures of the fit's windows.
        bare: Takes those of the bare steps.
        rounds: Windows; then the fit ends.
        seconds: How long a window lasts, about.
        report: Takes a line that says how far it is.
    """

    def __init__(
        self, fit: BenchmarkRow, bare: BenchmarkRow, rounds: int, seconds: float, report: Callable[[str], None]
    ) -> None:
        self.fit, self.bare = fit, bare
        self.rounds, self.seconds, self.report = rounds, seconds, report
        self.window = 0
        self.steps_left = WARMUP

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.clock = clock_of(trainer.strategy.root_device)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        self.steps_left -= 1
        if self.steps_left:
            return
        if self.window:
            self.fit.rounds.append(self._speed(self._since(self.start)))
        self._bare_steps(trainer, pl_module, batch)
        if len(self.bare.rounds) == self.rounds:
            trainer.should_stop = True
        self.steps_left, self.start = self.window, self.clock.mark()

    def _bare_steps(self, trainer: Trainer, model: LightningModule, batch: Batch) -> None:
        with without_callbacks(trainer, model):
            if not self.window:
                start = self.clock.mark()
                take_step(trainer.strategy, batch)
                self.window = _whole_logs(self.seconds / self._since(start), trainer.log_every_n_steps)
                return
            start = self.clock.mark()
            for _ in range(self.window):
                take_step(trainer.strategy, batch)
            self.bare.rounds.append(self._speed(self._since(start)))
        self.report(
            f"fit: round {len(self.bare.rounds)}/{self.rounds}: {self.fit.net} {self.fit.rounds[-1]:,.1f}, "
            f"bare {self.bare.rounds[-1]:,.1f} images/s"
        )

    def _since(self, start: Any) -> float:
        end = self.clock.mark()
        self.clock.settle(end)
        return self.clock.seconds(start, end)

    def _speed(self, seconds: float) -> float:
        return self.window * self.fit.batch / seconds


def measure_fit(trainer: Trainer, model: LightningModule, comparison: FitVersusBareSteps) -> None:
    """Fit a new model on a batch that is on the device already, with the trainer's own callbacks and loggers."""
    remove_step_limit(trainer)
    trainer.callbacks.append(comparison)
    try:
        trainer.fit(model, RepeatedBatch(resident_batch(model, comparison.fit.batch, trainer.strategy.root_device)))
    finally:
        trainer.callbacks.remove(comparison)


def _whole_logs(steps: float, every: int) -> int:
    """Steps of a window: enough to last, and a whole number of logging periods, whose cost belongs to a fit."""
    return max(1, every) * math.ceil(max(1.0, steps) / max(1, every))
