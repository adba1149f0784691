"""Metrics that count each record exactly once and never make the device wait."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torchmetrics import Metric

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

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("weight", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, values: Tensor, weights: Tensor) -> None:
        """Add values `(b,)` with weights `(b,)`; a value of weight 0 counts nothing, even if it is not finite."""
        self.total += torch.where(weights > 0, values * weights, 0).sum()
        self.weight += weights.sum()

    def compute(self) -> Tensor:
        """Return the mean so far; NaN before the first record."""
        return self.total / self.weight


def split_metrics(scores: Iterable[Score]) -> nn.ModuleDict:
    """Return a metric of each score, by name, for the validation and the test set: `metrics["val"]["loss"]`."""
    names = [score.name for score in scores]
    return nn.ModuleDict({split: nn.ModuleDict({name: WeightedMean() for name in names}) for split in ("val", "test")})
