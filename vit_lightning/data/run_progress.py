"""Where a run stands in its epochs, as its training loader asks."""

import math
import sys

from lightning.pytorch import Trainer


def batches_seen(trainer: Trainer | None) -> int:
    """Return how many batches a resumed run has already trained on in its current epoch."""
    if trainer is None or not trainer.training:
        return 0
    return trainer.fit_loop.epoch_loop.batch_progress.current.ready


def last_epoch(trainer: Trainer | None) -> int:
    """Return the epoch in which a run ends, at the latest; 0 where none goes through the whole set."""
    if trainer is None or not trainer.training or not _goes_through_all(trainer.limit_train_batches):
        return 0
    epochs = [sys.maxsize] if trainer.max_epochs in (None, -1) else [trainer.max_epochs]
    if trainer.max_steps != -1:
        epochs.append(math.ceil(trainer.max_steps * trainer.accumulate_grad_batches / trainer.num_training_batches))
    return min(epochs) - 1


def _goes_through_all(limit_train_batches: int | float | None) -> bool:
    """Tell whether an epoch has all batches: 1.0 is all of them, 1 is one."""
    return limit_train_batches is None or (isinstance(limit_train_batches, float) and limit_train_batches == 1)
