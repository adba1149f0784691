"""One more validation where `max_steps` ends a run inside an epoch."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer


class FinalValidation(Callback):
    """Validate once more when `max_steps` ends a run inside an epoch: Lightning would leave its end unmeasured."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        trainer.should_stop = trainer.should_stop or trainer.global_step == trainer.max_steps
