"""A least value of a metric, without which a fit fails."""

from lightning.pytorch import Callback, LightningModule, Trainer

from vit_lightning.errors import InputError


class Require(Callback):
    """Fail a fit whose final metric falls short, so that a smoke run proves that something was learnt.

    A fast_dev_run, which learns nothing, passes.

    Args:
        metric: Name of a logged metric, such as val/top1.
        at_least: Smallest value that counts as success.
    """

    def __init__(self, metric: str, at_least: float) -> None:
        self.metric = metric
        self.at_least = at_least
        self._trains = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._trains = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.fast_dev_run:  # type: ignore[attr-defined]  # set by Lightning from outside
            return
        value = trainer.callback_metrics.get(self.metric)
        if value is None or not float(value) >= self.at_least:
            untrained = "" if self._trains else ", since nothing was left to train"
            got = f"was not logged{untrained}" if value is None else f"ended at {float(value):.4f}"
            raise InputError(f"{self.metric} {got}, at least {self.at_least} is required")
