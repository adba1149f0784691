"""Images that cannot be read and were skipped, counted over all devices."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info


class SkippedImages(Callback):
    """After each epoch, add up the images that the devices skipped (`--data.on_error skip`); too many end the run."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_up(trainer, trainer.train_dataloader)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_up(trainer, trainer.val_dataloaders)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_up(trainer, trainer.test_dataloaders)

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_up(trainer, trainer.predict_dataloaders)

    def _add_up(self, trainer: Trainer, loaders: Any) -> None:
        for loader in loaders if isinstance(loaders, list) else [loaders]:
            skipped = getattr(getattr(loader, "dataset", None), "skipped", None)
            if skipped is not None:
                self._add_up_one(trainer, skipped)

    def _add_up_one(self, trainer: Trainer, skipped: Any) -> None:
        flags = skipped.flags.to(trainer.strategy.root_device, torch.uint8)
        skipped.flags.copy_(trainer.strategy.reduce(flags, reduce_op="max"))
        skipped.check()
        if skipped.count > skipped.reported:
            skipped.reported = skipped.count
            rank_zero_info(f"skipped {skipped.count} of {len(flags)} {skipped.split} images, which cannot be read")
