"""Progress of a run: a bar in a terminal, lines elsewhere, of the same few figures."""

import logging
import math
import sys
import time
from typing import Any, TextIO

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.live import Live

from vit_lightning.callbacks.figures import figures, has_several_labels
from vit_lightning.callbacks.run_length import RunLength
from vit_lightning.terminal import BarLine, duration, fitted, report

SCORING = {"validate": "validated", "test": "tested", "predict": "predicted"}
"""Verbs that go through sets once, and what they did with a batch."""
LOGGERS = ("lightning", "lightning.pytorch", "lightning.fabric")
"""Whose messages would be written across a bar."""


class RunProgress(ProgressBar):
    """How far a run is. A line stands at the end of each epoch; what stands in between is a subclass's.

    Args:
        seconds: Time between two updates.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self._enabled = True
        self._several = False
        self._validated_epoch: int | None = None
        self._length: RunLength | None = None
        self._batches, self._all_batches = 0, 0.0
        self._last = 0.0

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    # What a subclass shows -------------------------------------------------------------------------------------------

    def begin(self, trainer: Trainer) -> None:
        """Training, or scoring, begins."""

    def show_training(self, trainer: Trainer, length: RunLength, batches: int) -> None:
        """So many batches of the epoch are done."""

    def epoch_ends(self, trainer: Trainer, length: RunLength, batches: int) -> None:
        """All of its batches are done, and its line is about to stand there."""

    def show_scoring(self, trainer: Trainer, batches: int, of: float) -> None:
        """So many batches of all sets are done, of a verb that scores or of a validation in training."""

    def scoring_ends(self, trainer: Trainer, batches: int, of: float) -> None:
        """All batches of all sets are done."""

    def end(self) -> None:
        """Nothing more is shown."""

    @property
    def width(self) -> int | None:
        """Characters of a line; None: any number."""
        return None

    # Training --------------------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._length = RunLength(trainer)
        if self._enabled:
            self.begin(trainer)
        self._last = time.monotonic()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._enabled or self._length is None:
            return
        self._length.begin(batch_idx + 1)
        if self._is_due():
            self.show_training(trainer, self._length, batch_idx + 1)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self._enabled or self._length is None:
            return
        epoch, step = self._length.where()
        validated = self._validated_epoch == trainer.current_epoch  # else the scores are those of an earlier epoch
        parts = [f"{epoch} done", step, *figures(trainer, self._several, validated)]
        batches = trainer.fit_loop.epoch_loop.batch_progress.current.ready
        self.epoch_ends(trainer, self._length, batches)
        report(fitted([*parts, *self._rest(self._length, batches)], self.width))
        self._last = time.monotonic()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.end()

    def _rest(self, length: RunLength, batches: int) -> list[str]:
        """Return the time left, and, of a run that time ends, the time that has gone by."""
        left, share = length.seconds_left(batches), length.share(batches)
        is_over = share is not None and share >= 1
        return [*length.clock(), *([] if left is None or is_over else [f"{duration(left)} left"])]

    # Scoring ---------------------------------------------------------------------------------------------------------

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._begin_scoring(trainer, trainer.num_val_batches, begins=trainer.state.fn != "fit")

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin_scoring(trainer, trainer.num_test_batches)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin_scoring(trainer, trainer.num_predict_batches)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if dataloader_idx == 0:  # a further set, such as ReaL, may have several where this one has not
            self._several = has_several_labels(batch)
        if not trainer.sanity_checking:
            self._advance(trainer)

    def on_test_batch_end(self, trainer: Trainer, *_: Any, **__: Any) -> None:
        self._advance(trainer)

    def on_predict_batch_end(self, trainer: Trainer, *_: Any, **__: Any) -> None:
        self._advance(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self.scoring_ends(trainer, self._batches, self._all_batches)
        if trainer.state.fn != "fit":
            self.end()
        elif not trainer.sanity_checking:
            self._validated_epoch = trainer.current_epoch

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.scoring_ends(trainer, self._batches, self._all_batches)
        self.end()

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.scoring_ends(trainer, self._batches, self._all_batches)
        self.end()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.end()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.end()

    def _begin_scoring(self, trainer: Trainer, batches: list[int | float], begins: bool = True) -> None:
        self._batches, self._all_batches = 0, sum(batches)
        if begins and self._enabled:
            self.begin(trainer)
            self._last = time.monotonic()

    def _advance(self, trainer: Trainer) -> None:
        self._batches += 1
        if self._enabled and self._is_due():
            self.show_scoring(trainer, self._batches, self._all_batches)

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now - self._last < self.seconds:
            return False
        self._last = now
        return True


class PlainProgress(RunProgress):
    """Progress as plain lines, for output that is not a terminal: one per epoch, and one per 30 s within it."""

    def __init__(self, seconds: float = 30.0) -> None:
        super().__init__(seconds)
        self._batches_said = 0

    def show_training(self, trainer: Trainer, length: RunLength, batches: int) -> None:
        epoch, step = length.where()
        batch = f"batch {_counted(batches, length.batches_in_epoch(trainer.current_epoch))}"
        report(", ".join([epoch, batch, step, *figures(trainer, self._several, False), *self._rest(length, batches)]))

    def show_scoring(self, trainer: Trainer, batches: int, of: float) -> None:
        self._batches_said = batches
        done = SCORING.get(trainer.state.fn or "", "validated")
        report(f"{done} {_counted(batches, of)} batches")

    def scoring_ends(self, trainer: Trainer, batches: int, of: float) -> None:
        if self._enabled and 0 < self._batches_said < batches:
            self.show_scoring(trainer, batches, of)
        self._batches_said = 0


class RunBar(RunProgress):
    """Progress as one row in a terminal, for the whole run, whatever its width.

    A validation changes one word of it. What others print stands above it.
    """

    def __init__(self, seconds: float = 0.5) -> None:
        super().__init__(seconds)
        self.row = BarLine()
        self._live: Live | None = None
        self._streams: list[tuple[logging.StreamHandler, TextIO]] = []
        self._began = 0.0

    @property
    def width(self) -> int | None:
        return self._live.console.width if self._live else None

    def begin(self, trainer: Trainer) -> None:
        self.end()
        self.row.head, self.row.state, self.row.share, self.row.parts = "", "", None, []
        self._began = time.monotonic()
        self._live = Live(self.row, console=Console(), refresh_per_second=2, transient=True)
        self._live.start()
        self._live.console.show_cursor(True)  # a program that is cut off leaves it as it is
        handlers = [handler for name in LOGGERS for handler in logging.getLogger(name).handlers]
        self._streams = [(one, one.stream) for one in handlers if type(one) is logging.StreamHandler]
        for handler, _ in self._streams:
            handler.setStream(sys.stderr)  # what stands there now prints above the row
        if self._length is not None:
            self.row.head = self._length.where()[0]

    def end(self) -> None:
        if self._live is None:
            return
        self._live.stop()
        self._live = None
        for handler, stream in self._streams:
            handler.setStream(stream)

    def show_training(self, trainer: Trainer, length: RunLength, batches: int) -> None:
        left = length.seconds_left(batches)
        self.row.head, *parts = length.where()
        self.row.share = length.share(batches)
        self.row.state = "" if left is None else f"{duration(left)} left"
        self.row.parts = [*parts, *figures(trainer, self._several), *length.clock()]

    def epoch_ends(self, trainer: Trainer, length: RunLength, batches: int) -> None:
        self.show_training(trainer, length, batches)

    def show_scoring(self, trainer: Trainer, batches: int, of: float) -> None:
        if trainer.state.fn == "fit":
            self.row.state = "validating"
            return
        self.row.head, self.row.parts = SCORING.get(trainer.state.fn or "", ""), [f"{_counted(batches, of)} batches"]
        if math.isfinite(of):
            left = (time.monotonic() - self._began) / batches * (of - batches)
            self.row.share, self.row.state = batches / of, f"{duration(left)} left"


def _counted(done: int, of: float) -> str:
    """Return how many of how many, as far as that is known."""
    return f"{done}/{of:.0f}" if math.isfinite(of) else str(done)
