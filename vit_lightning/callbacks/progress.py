"""Progress as plain lines."""

import math
import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar


class PlainProgress(ProgressBar):
    """Progress as plain lines, for output that is not a terminal: one per epoch, and one per 30 s within it."""

    def __init__(self, seconds: float = 30.0) -> None:
        super().__init__()
        self.seconds = seconds
        self._enabled = True
        self._validated_epoch: int | None = None

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._last = time.monotonic()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if time.monotonic() - self._last >= self.seconds:
            steps_left = trainer.max_steps - trainer.global_step if trainer.max_steps >= 0 else math.inf
            batches = min(trainer.num_training_batches, batch_idx + 1 + steps_left * trainer.accumulate_grad_batches)
            self._print(trainer, pl_module, f"batch {batch_idx + 1}/{batches}")

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._validated_epoch = trainer.current_epoch

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._print(trainer, pl_module, "done")

    def _print(self, trainer: Trainer, pl_module: LightningModule, where: str) -> None:
        self._last = time.monotonic()
        if not self._enabled:
            return
        validated = self._validated_epoch == trainer.current_epoch  # else the scores are those of an earlier epoch
        hidden = ("v_num",) if validated else ("v_num", "val")
        metrics = self.get_metrics(trainer, pl_module).items()
        scores = " ".join(f"{name} {float(value):.4g}" for name, value in metrics if not name.startswith(hidden))
        of = f"/{trainer.max_epochs}" if trainer.max_epochs and trainer.max_epochs > 0 else ""
        print(f"epoch {trainer.current_epoch + 1}{of} {where}, step {trainer.global_step} {scores}", flush=True)
