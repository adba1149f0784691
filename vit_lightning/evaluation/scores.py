"""The table of scores: what is measured of a net, which value is best, and what a person reads."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Better = Literal["max", "min"]


@dataclass(frozen=True)
class Score:
    """A mean over the images of a split."""

    name: str
    """Last part of the metric's name, as in val/top1."""
    better: Better
    label: str
    """What a person reads in a figure."""
    needs: Literal["targets", "labels", "further set"]
    """What the data must hold: what the loss compares with, classes, or a set beside the split (`--data.also`), of
    which the score is the top-1 accuracy."""

    @property
    def is_share(self) -> bool:
        """Whether it counts the images that the net gets right."""
        return self.needs != "targets"


SCORES = {
    score.name: score
    for score in (
        Score("loss", "min", "loss", needs="targets"),
        Score("top1", "max", "top-1 accuracy", needs="labels"),
        Score("top5", "max", "top-5 accuracy", needs="labels"),
        Score("real", "max", "top-1 accuracy, ReaL labels", needs="further set"),
        Score("v2", "max", "top-1 accuracy, ImageNet-V2", needs="further set"),
        Score("objectnet", "max", "top-1 accuracy, ObjectNet", needs="further set"),
    )
}
"""The scores by name, in the order of a table."""
METRICS = ("test/", "val/", "best val/", "train/", "perf/", "cost/")
"""How the names of metrics begin, in the order of a table."""
MAIN_METRICS = ("test/top1", "val/top1", "val/loss")
"""Metrics that speak for a run, the one that says most first."""


def score_of(metric: str) -> Score | None:
    """Return the score that a metric such as val/top1 logs; None for one of which the table knows nothing."""
    return SCORES.get(metric.rpartition("/")[2])


def best_value(metric: str, values: Iterable[float]) -> float:
    """Return the best value of a metric; of one that the table does not know, the least where its name ends in loss."""
    score = score_of(metric)
    least = score.better == "min" if score else metric.endswith("loss")
    return min(values) if least else max(values)


def scores_with(*needs: str) -> tuple[Score, ...]:
    """Return the scores for which data suffice that hold these, in the table's order."""
    return tuple(score for score in SCORES.values() if score.needs in needs)
