"""Metrics that count each record exactly once and never make the device wait."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from vit_lightning.errors import InputError
from vit_lightning.evaluation.scores import Score


class WeightedMean(Metric):
    """Mean of values with weights, summed over batches and processes.

    torchmetrics' MeanMetric looks at every batch for NaN, which synchronises the device; told not to (nan_strategy
    "disable", version 1.9), it ignores the weights.
    """

    full_state_update = False
    higher_is_better = None
    total: Tensor
    weight: Tensor
    counted = 0
    """Sum of all weights, over all processes, once the mean is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("weight", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, values: Tensor, weights: Tensor) -> None:
        """Add values `(b,)` with weights `(b,)`; a value of weight 0 counts nothing, even if it is not finite."""
        # Not in place: a test leaves inference tensors behind, which a later validation of a fit may not change.
        self.total = self.total + torch.where(weights > 0, values * weights, 0).sum()
        self.weight = self.weight + weights.sum()

    def compute(self) -> Tensor:
        """Return the mean so far; NaN before the first record."""
        self.counted = round(float(self.weight))
        return self.total / self.weight


def split_metrics(scores: Iterable[Score]) -> nn.ModuleDict:
    """Return a metric of each score, by name, for the validation and the test set: `metrics["val"]["loss"]`."""
    names = [score.name for score in scores]
    return nn.ModuleDict({split: nn.ModuleDict({name: WeightedMean() for name in names}) for split in ("val", "test")})


def check_scores(scores: Mapping[str, WeightedMean], split: str, images: int | None, whole: bool = True) -> str | None:
    """Refuse scores that are no number; return what to say where some images have no label.

    Args:
        scores: Those of one set, by the names that are logged.
        split: What the set is called in messages.
        images: Number of images that could be read; None: unknown.
        whole: Whether the set was gone through, as it is not in a sanity check.

    Raises:
        InputError: no image has a label, or a score is not finite.
    """
    values = {name: float(score.compute()) for name, score in scores.items() if score.update_called}
    counted = max((scores[name].counted for name in values), default=0)
    of = "" if images is None else f" of the {images}"
    if values and whole and not counted:
        raise InputError(
            f"none{of} {split} images has a label, so that there is nothing to score; "
            "give data with labels, or use predict, which needs none"
        )
    if counted and (wrong := [name for name, value in values.items() if not math.isfinite(value)]):
        raise InputError(
            f"{wrong[0]} is {values[wrong[0]]}: the net's outputs are not finite; its weights are damaged or overflow "
            "in this --trainer.precision, which 32-true would show"
        )
    if whole and images is not None and 0 < counted < images:
        return f"{counted} of {images} {split} images have a label; the others count nothing"
    return None
