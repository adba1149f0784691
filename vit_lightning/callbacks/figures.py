"""What a person reads of a run while it goes: few figures, in one order, in a bar and in lines."""

from typing import Any

from lightning.pytorch import Trainer
from torch import Tensor

from vit_lightning.evaluation.scores import SCORES, score_of
from vit_lightning.terminal import number, percentage

TRAINING_LOSS, SPEED, WAIT = "train/loss", "perf/images_per_s", "perf/data_wait"
NOT_SHOWN = ("perf/", "cost/")
"""How the names of figures begin that the logs keep and a line leaves out."""


FIRST_OF_SEVERAL = ("mean_auroc", "map_macro", "micro_f1", "macro_f1")
LAST_OF_SEVERAL = ("top1", "top5")
"""Scores with which a line begins and ends where images have several labels: the best label of an image without any is
never right, however good the net."""


def figures(trainer: Trainer, several: bool, scored: bool = True) -> list[str]:
    """Return the figures of a fit: its loss, the scores of its last validation, what else the model shows, its speed.

    Args:
        trainer: The fit's.
        several: Whether images have several labels.
        scored: Whether to show scores, which are those of the last validation.
    """
    metrics = _metrics(trainer)
    names = [name for name in metrics if name.startswith("val/")]
    of = unit(trainer)
    scores = (
        [
            _validation(name, metrics[name], several, of)
            for name in sorted(names, key=lambda name: _place(name, several))
        ]
        if scored
        else []
    )
    parts = [f"loss {number(metrics[TRAINING_LOSS])}"] if TRAINING_LOSS in metrics else []
    rest = [name for name in metrics if name != TRAINING_LOSS and not name.startswith(("val/", *NOT_SHOWN))]
    parts += [*scores, *(f"{name} {number(metrics[name])}" for name in rest)]
    if SPEED in metrics:
        parts.append(speed(metrics[SPEED]))
    if WAIT in metrics:
        parts.append(waiting(metrics[WAIT]))
    return parts


def speed(images_per_s: float) -> str:
    """Return a rate in words."""
    return f"{images_per_s:,.0f} images/s" if images_per_s >= 100 else f"{images_per_s:.3g} images/s"


def waiting(share: float) -> str:
    """Return the share of time without a batch, in words."""
    return f"waiting for data {percentage(share, digits=0)}"


def has_several_labels(batch: Any) -> bool:
    """Return whether the images of a batch have a row of labels each, as those of several labels have."""
    return isinstance(batch, tuple | list) and len(batch) > 1 and isinstance(batch[1], Tensor) and batch[1].ndim == 2


def _metrics(trainer: Trainer) -> dict[str, float]:
    """Return what the model shows, and what it only logs: its loss, and scores of validation that are not ours."""
    shown, further = dict(trainer.progress_bar_metrics), getattr(trainer.lightning_module, "further_sets", ())
    for name, value in trainer.callback_metrics.items():
        own = name.startswith("val/") and score_of(name) is None and name.split("/")[1] not in further
        if name == TRAINING_LOSS or own:
            shown.setdefault(name, value)
    return {name: float(value) for name, value in shown.items()}


def unit(trainer: Trainer) -> str:
    """Return what a model's shares are of, where that is not whole images."""
    return getattr(trainer.lightning_module, "scored_unit", "")


def _validation(name: str, value: float, several: bool, of: str = "") -> str:
    if (score := score_of(name)) is None:
        return f"val {name.removeprefix('val/')} {number(value)}"
    return f"val {f'{of} ' if of and score.is_share else ''}{score.name_for(several)} {score.said(value, digits=1)}"


def _place(name: str, several: bool) -> int:
    names = list(SCORES)
    if several:
        between = [name for name in names if name not in (*FIRST_OF_SEVERAL, *LAST_OF_SEVERAL)]
        names = [*FIRST_OF_SEVERAL, *between, *LAST_OF_SEVERAL]
    return names.index(score.name) if (score := score_of(name)) else len(names)
