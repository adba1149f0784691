"""A validation at the end of every run."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer


class FinalValidation(Callback):
    """Validate the last weights, whatever --trainer.check_val_every_n_epoch says of other epochs.

    Lightning would leave them unmeasured where `max_steps` ends a run inside an epoch, or where a short run has no
    epoch of that number.
    """

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        ends = trainer.global_step == trainer.max_steps
        trainer.should_stop = trainer.should_stop or ends
        if ends or (trainer.is_last_batch and trainer.current_epoch + 1 == trainer.max_epochs):
            trainer.check_val_every_n_epoch = trainer.check_val_every_n_epoch and 1  # None: it counts batches
