"""How long a fit is, however its end is given, how far it has come, and how long it will still take."""

import math
import time

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Timer

from vit_lightning.terminal import duration


class RunLength:
    """The length of a fit, in batches of this process: from its epochs, its optimiser steps or its time.

    The time left goes by the batches since this object was made, validation included, but for the first one, in which
    loaders start and kernels are compiled.

    Args:
        trainer: One whose training loaders are there.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._timer = next((callback for callback in trainer.callbacks if isinstance(callback, Timer)), None)
        self._epoch_batches = trainer.num_training_batches
        self._accumulation = trainer.accumulate_grad_batches
        self._epoch_steps = math.inf
        if math.isfinite(self._epoch_batches):
            self._epoch_steps = max(1, math.ceil(self._epoch_batches / self._accumulation))
        self.steps = self._planned_steps()
        self.batches = self._batches_of(self.steps)
        self._first: tuple[float, float] | None = None

    def _planned_steps(self) -> float:
        trainer = self._trainer
        epochs = trainer.max_epochs if trainer.max_epochs is not None and trainer.max_epochs >= 0 else math.inf
        most = trainer.max_steps if trainer.max_steps >= 0 else math.inf
        return min(epochs * self._epoch_steps, most)

    def _batches_of(self, steps: float) -> float:
        """Return the batches of so many optimiser steps; the last step of an epoch may have fewer than the others."""
        if math.isinf(steps) or math.isinf(self._epoch_steps):
            return steps * self._accumulation
        epochs, rest = divmod(steps, self._epoch_steps)
        return epochs * self._epoch_batches + rest * self._accumulation

    @property
    def epochs(self) -> int | None:
        """Epochs of the run, the last of which may be cut; None where its length is not known in batches."""
        if math.isinf(self.batches) or math.isinf(self._epoch_batches):
            return None
        return math.ceil(self.batches / max(self._epoch_batches, 1))

    def batches_in_epoch(self, epoch: int) -> float:
        """Return the batches of an epoch, by its number from 0; infinity where that is not known."""
        if math.isinf(self._epoch_batches):
            return math.inf
        return min(self._epoch_batches, self.batches - epoch * self._epoch_batches)

    def done(self, batches: int) -> float:
        """Return how many batches of the run are done, where so many of its epoch are."""
        if math.isinf(self._epoch_batches):
            return self._trainer.global_step * self._accumulation
        return self._trainer.current_epoch * self._epoch_batches + batches

    def share(self, batches: int) -> float | None:
        """Return the share of the run that is done, in batches or in time; None where no end is given."""
        shares = [self.done(batches) / self.batches] if 0 < self.batches < math.inf else []
        if (limit := self._time_limit()) and self._timer:
            shares.append(self._timer.time_elapsed() / limit)
        return min(max(shares), 1.0) if shares else None

    def begin(self, batches: int) -> None:
        """Begin to measure, where so many batches of the epoch are done; called again, do nothing."""
        if self._first is None:
            self._first = self.done(batches), time.monotonic()

    def seconds_left(self, batches: int) -> float | None:
        """Return how long the run will still take; None where that is not known yet."""
        left = [] if self._timer is None else [self._timer.time_remaining()]
        done = self.done(batches)
        if self._first and (since := done - self._first[0]) > 0 and math.isfinite(self.batches):
            left.append(max(self.batches - done, 0) * (time.monotonic() - self._first[1]) / since)
        return min((seconds for seconds in left if seconds is not None), default=None)

    def where(self) -> list[str]:
        """Return epoch and step, each of how many, as far as that is known."""
        trainer = self._trainer
        epochs = f"/{self.epochs}" if self.epochs else ""
        steps = f"/{self.steps:.0f}" if math.isfinite(self.steps) else ""
        return [f"epoch {trainer.current_epoch + 1}{epochs}", f"step {trainer.global_step}{steps}"]

    def clock(self) -> list[str]:
        """Return the time that has gone by, of a run that time ends."""
        if not (limit := self._time_limit()) or self._timer is None:
            return []
        return [f"{duration(self._timer.time_elapsed())} of {duration(limit)}"]

    def _time_limit(self) -> float | None:
        if self._timer is None:
            return None
        elapsed, remaining = self._timer.time_elapsed(), self._timer.time_remaining()
        return None if remaining is None else elapsed + remaining
