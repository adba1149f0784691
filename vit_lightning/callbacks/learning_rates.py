"""The learning rate of every logged step, under one name whatever the optimiser's groups."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer


class LearningRates(Callback):
    """Log `lr`, the greatest rate of the optimiser's groups, and beside it `lr/GROUP` where there are several.

    Lightning's LearningRateMonitor logs no `lr` as soon as there are two groups, as layer decay makes them.
    """

    def __init__(self) -> None:
        self._logged_step: int | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._logged_step = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        step, every = trainer.global_step, trainer.log_every_n_steps
        if not every or (step + 1) % every or step == self._logged_step:
            return
        self._logged_step = step
        groups = [group for optimizer in trainer.optimizers for group in optimizer.param_groups]
        rates = {f"lr/{group.get('name', number)}": float(group["lr"]) for number, group in enumerate(groups)}
        if not rates:
            return
        figures = {"lr": max(rates.values())} | (rates if len(rates) > 1 else {})
        for logger in trainer.loggers:
            logger.log_metrics(figures, step=step)
        trainer.callback_metrics.update({name: torch.tensor(rate) for name, rate in figures.items()})
