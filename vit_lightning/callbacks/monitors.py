"""The metrics that choose the best checkpoint and end a run early, checked before the first step."""

from collections.abc import Collection, Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from vit_lightning.callbacks.validation import validates
from vit_lightning.contracts import LogsScores, RecipeTrained
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.scores import MONITOR_OF_SEVERAL, Better, score_of
from vit_lightning.training.kept_answers import MOST_RANKED

MONITORING = ("checkpoint", "early_stopping")
"""Parts of a config whose callbacks watch a metric."""
OURS = ("lightning", "vit_lightning")
"""Packages whose models and callbacks log no other metrics in validation than the model's scores."""


def direction(metric: str) -> Better | None:
    """Return whether the least or the greatest value of a metric is the best, if its name tells."""
    return score.better if (score := score_of(metric)) else None


def own_metric(model: type, has_several_labels: bool) -> tuple[str, Better] | None:
    """Return a model's own metric and direction, if it has one; of several labels one right guess says little."""
    own = getattr(model, "monitor", None)
    return MONITOR_OF_SEVERAL if has_several_labels and own == ("val/top1", "max") else own


def resolve(config: Mapping[str, Any], own: tuple[str, Better] | None) -> list[str]:
    """Fill in the metric and its direction where a config leaves them open.

    Args:
        config: A verb's config; its parts `checkpoint` and `early_stopping` are changed.
        own: The model's own metric and direction, if it has one.

    Returns:
        The parts whose metric has no known direction and was given none.

    Raises:
        InputError: a direction is given that is not that of the model's own metric.
    """
    undirected = []
    for name in MONITORING:
        watching = config[name]
        if name == "early_stopping" and watching.patience is None:
            continue
        if watching.monitor is None and own:
            if watching.mode not in (None, "auto", own[1]):
                raise InputError(f"--{name}.mode {watching.mode} is for a metric; give --{name}.monitor too")
            watching.monitor, watching.mode = own
        elif watching.mode not in ("min", "max"):
            known = direction(watching.monitor or "loss")
            watching.mode = known or "min"
            undirected += [] if known else [name]
    return undirected


class Monitors(Callback):
    """Find the callbacks that would wait for a metric which nobody logs, or do not know what is best of it.

    Names are known of our own models alone, and only if no callback from elsewhere may log more.

    Args:
        flags: The callbacks that flags describe, by the name before .monitor and .mode.
        undirected: Those of them whose metric has no known direction and was given none.
    """

    def __init__(self, flags: Mapping[str, Callback], undirected: Collection[str]) -> None:
        self.flags = {id(callback): name for name, callback in flags.items()}
        self.undirected = undirected
        self.known: list[str] | None = None
        """Metrics that are logged; None: nobody knows before the first validation."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.known = known = None
        ours = all(_package(part) in OURS for part in (pl_module, *trainer.callbacks))
        if ours and isinstance(pl_module, RecipeTrained):
            logging = [part for part in (pl_module, *trainer.callbacks) if isinstance(part, LogsScores)]
            self.known = known = [f"val/{name}" for part in logging for name in part.score_names]
        for callback in trainer.callbacks:
            metric, name, flag = self._watched(callback)
            if known and metric not in (None, "train/loss", "lr", *known):
                close = did_you_mean(metric.rpartition("/")[2], [one.rpartition("/")[2] for one in known])  # not val/
                hint = f"{close.replace('mean ', 'mean val/')} (known: {', '.join(known)})"
                raise InputError(f"{flag} {metric} is not logged by {type(pl_module).__name__}{hint}")
            if name in self.undirected:
                raise InputError(f"{flag} {metric} needs --{name}.mode: min or max, whichever is best")
            self._check_size(trainer, metric, flag)

    def _check_size(self, trainer: Trainer, metric: str | None, flag: str) -> None:
        """Refuse a ranking of so many images and classes that it would be left out after the first epoch."""
        score, data = score_of(metric or ""), trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning
        if score is None or score.is_cheap or not isinstance(data, ImageDataModule) or data.val_set is None:
            return
        if trainer.limit_val_batches == 1.0 and len(data.val_set) * len(data.class_names) > MOST_RANKED:
            raise InputError(
                f"{flag} {metric} ranks {len(data.val_set):,} images by {len(data.class_names):,} classes, and images "
                f"times classes are more than {MOST_RANKED:,}; give {flag} val/loss"
            )

    def _watched(self, callback: Callback) -> tuple[str | None, str | None, str]:
        """Return the metric that a callback watches, and what a person calls it."""
        name = self.flags.get(id(callback))
        flag = f"--{name}.monitor" if name else f"{type(callback).__name__}'s monitor"
        return getattr(callback, "monitor", None), name, flag

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse a metric of a model or callback from elsewhere that its first validation has not logged."""
        if self.known or trainer.sanity_checking or trainer.state.fn != "fit":
            return
        logged = sorted(map(str, trainer.callback_metrics))
        for callback in trainer.callbacks:
            metric, _, flag = self._watched(callback)
            if metric and metric.startswith("val/") and metric not in logged:
                raise InputError(
                    f"{flag} {metric} is logged by no validation{did_you_mean(metric, logged)} "
                    f"(logged: {', '.join(logged)})"
                )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Without validation nothing chooses the best checkpoint: keep the newest."""
        if not validates(trainer):
            for checkpoint in trainer.checkpoint_callbacks:
                if isinstance(checkpoint, ModelCheckpoint):
                    checkpoint.monitor = None


def _package(part: Any) -> str:
    return type(part).__module__.partition(".")[0]
