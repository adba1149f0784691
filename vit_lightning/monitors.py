"""The metrics that choose the best checkpoint and end a run early, checked before the run begins."""

from collections.abc import Mapping
from typing import Any, Literal

from lightning.pytorch import LightningModule, Trainer

from vit_lightning.errors import InputError
from vit_lightning.parser_errors import did_you_mean

OURS = ("lightning", "vit_lightning")
"""Packages whose callbacks and models log no other metrics than those known here."""


def direction(metric: str) -> Literal["min", "max"] | None:
    """Return whether the least or the greatest value of a metric is the best, if its name tells."""
    match metric.rpartition("/")[2]:
        case "loss":
            return "min"
        case "top1" | "top5" | "real":
            return "max"
    return None


def check_monitors(trainer: Trainer, model: LightningModule, flags: Mapping[int, str]) -> None:
    """Find a callback that would wait for a metric which nobody logs, as far as the names can be known.

    Args:
        trainer: The trainer with its callbacks.
        model: The model; one from elsewhere may log anything.
        flags: The flag that names the metric, by the id of the callback.

    Raises:
        InputError: naming the metric, and those there are.
    """
    if not all(_package(part) in OURS for part in (model, *trainer.callbacks)) or not hasattr(model, "scores"):
        return
    known = [f"val/{name}" for name in model.scores["val"]]
    for callback in trainer.callbacks:
        metric = getattr(callback, "monitor", None)
        if metric not in (None, "train/loss", "lr", *known):
            flag = flags.get(id(callback), f"{type(callback).__name__}'s monitor")
            hint = did_you_mean(metric, known)
            raise InputError(
                f"{flag} {metric} is nothing that {type(model).__name__} logs{hint} (known: {', '.join(known)})"
            )


def _package(part: Any) -> str:
    return type(part).__module__.partition(".")[0]
