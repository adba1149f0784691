"""Early stopping on the metric that chooses the best checkpoint; off unless asked for."""

import math
from typing import Any, Literal

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info

from vit_lightning.callbacks.validation import validates
from vit_lightning.errors import InputError


class EarlyStopping(Callback):
    """End a run whose validation no longer gets better; the checkpoint `best` holds its best weights.

    Lightning's own is on once it is there, and a resumed run keeps the old patience whatever the flag says.

    Args:
        patience: Validations in a row without a better value after which the run ends; unset, or 0: never.
        min_delta: Change of the metric that does not count yet as better.
        monitor: Metric; unset: the model's own, as for the best checkpoint.
        mode: Whether max or min of the metric is best; unset: that of the table of scores.
    """

    def __init__(
        self,
        patience: int | None = None,
        min_delta: float = 0.0,
        monitor: str | None = None,
        mode: Literal["min", "max"] | None = None,
    ) -> None:
        for name, value in (("patience", patience or 0), ("min_delta", min_delta)):
            if not value >= 0:
                raise InputError(f"--early_stopping.{name} is {value}, expected 0 or more")
        given = {"min_delta": min_delta or None, "monitor": monitor, "mode": mode}
        if patience is None and (idle := next((name for name, value in given.items() if value is not None), None)):
            raise InputError(
                f"--early_stopping.{idle} {given[idle]} does nothing without --early_stopping.patience; give that too"
            )
        self.patience = patience
        self.min_delta = min_delta
        self.monitor = monitor
        self.mode = mode
        self.best: float | None = None
        self.waited = 0

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited} if self.patience else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.waited = state_dict["best"], state_dict["waited"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A run that had stopped does not go on, unless it is given more patience."""
        if not self.patience:
            return
        if self.monitor is None or self.mode is None:
            raise InputError("early stopping lacks its metric: give --early_stopping.monitor and --early_stopping.mode")
        if not validates(trainer):
            raise InputError(
                f"early_stopping.patience {self.patience} needs a validation set; give the data one, or leave it unset"
            )
        self._stop(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.patience or trainer.sanity_checking or trainer.state.fn != "fit":
            return
        if self.monitor not in trainer.callback_metrics:
            known = ", ".join(name for name in trainer.callback_metrics if name.startswith("val/"))
            raise InputError(
                f"early_stopping.monitor {self.monitor} is not logged in validation; choose one of {known}"
            )
        value = float(trainer.callback_metrics[self.monitor])
        gain = 0.0 if self.best is None else (value - self.best) * (1 if self.mode == "max" else -1)
        better = not math.isnan(value) and (self.best is None or gain > self.min_delta)
        self.best, self.waited = (value, 0) if better else (self.best, self.waited + 1)
        self._stop(trainer)

    def _stop(self, trainer: Trainer) -> None:
        if self.waited >= self.patience:
            trainer.should_stop = True
            missed = "a number" if self.best is None else f"better than {self.best:.4g}"
            rank_zero_info(f"stopped early: {self.monitor} has not been {missed} for {self.waited} validations")
