"""The table of scores: what is measured of a net, which value is best, and what a person reads."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from vit_lightning.terminal import number, percentage

Better = Literal["max", "min"]


@dataclass(frozen=True)
class Score:
    """A number that says how good a net is on a split."""

    name: str
    """Last part of the metric's name, as in val/top1."""
    better: Better
    label: str
    """What a person reads in a figure."""
    needs: Literal["targets", "labels", "one label", "several labels", "further set", "features"]
    """What the data must hold: what the loss compares with, classes, images of one class each or of several, or a set
    beside the split (`--data.also`), whose top-1 accuracy has its name; or training images, to whose features
    the callback FewShot fits a probe."""
    short: str
    """What a person reads in a line or a table."""
    short_of_several: str | None = None
    """The same where images have several labels, of which one is enough to be right; None: no other."""
    of_several: bool = False
    """Whether it is a score of images of several labels too, beside those of one."""
    is_cheap: bool = True
    """Whether a validation of a fit can afford it without being asked."""

    @property
    def is_share(self) -> bool:
        """Whether a person reads it as a percentage."""
        return self.needs != "targets"

    def suits(self, several: bool) -> bool:
        """Return whether it is a score of images of one label each, or of several."""
        return self.needs == ("several labels" if several else "one label") or (several and self.of_several)

    def name_for(self, several: bool) -> str:
        """Return what a person reads, for images of one label or of several."""
        return (self.short_of_several if several else None) or self.short

    def said(self, value: float, digits: int = 2) -> str:
        """Return the value as a person reads it: a share of the images as a percentage, with so many digits."""
        return percentage(value, digits) if self.is_share else number(value)


SCORES = {
    score.name: score
    for score in (
        Score("loss", "min", "loss", needs="targets", short="loss"),
        Score("top1", "max", "top-1 accuracy", "labels", "top-1", "precision at 1"),
        Score("top5", "max", "top-5 accuracy", "labels", "top-5", "hit at 5"),
        Score("mean_class_accuracy", "max", "mean per-class accuracy", "one label", "per-class"),
        Score("macro_f1", "max", "macro F1", "one label", "macro F1", of_several=True),
        Score("ece", "min", "expected calibration error", "one label", "ECE", of_several=True),
        Score("map_macro", "max", "macro mAP", "several labels", "mAP", is_cheap=False),
        Score("map_micro", "max", "micro mAP", "several labels", "micro mAP", is_cheap=False),
        Score("micro_f1", "max", "micro F1", "several labels", "micro F1"),
        Score("exact_match", "max", "exact match", "several labels", "exact match"),
        Score("mean_auroc", "max", "area under the ROC curve", "one label", "AUROC", of_several=True, is_cheap=False),
        Score("real", "max", "top-1 accuracy, ReaL labels", needs="further set", short="ReaL labels"),
        Score("v2", "max", "top-1 accuracy, ImageNet-V2", needs="further set", short="ImageNet-V2"),
        Score("objectnet", "max", "top-1 accuracy, ObjectNet", needs="further set", short="ObjectNet"),
        Score("a", "max", "top-1 accuracy, ImageNet-A", needs="further set", short="ImageNet-A"),
        Score("r", "max", "top-1 accuracy, ImageNet-R", needs="further set", short="ImageNet-R"),
        Score("sketch", "max", "top-1 accuracy, ImageNet-Sketch", needs="further set", short="ImageNet-Sketch"),
        Score("w", "max", "top-1 accuracy, ImageNet-W", needs="further set", short="ImageNet-W"),
        *(
            Score(f"fewshot{shots}", "max", f"{shots}-shot accuracy", needs="features", short=f"{shots}-shot")
            for shots in (1, 5, 10, 25)
        ),
    )
}
"""The scores by name, in the order of a table."""
TABLES = ("classes", "confusion", "mistakes")
"""What validate and test write beside the scores: precision, recall and F1 by class, the confusion matrix, and the
images that are predicted wrongly."""
METRICS = ("test/", "val/", "best val/", "train/", "perf/", "cost/")
"""How the names of metrics begin, in the order of a table."""
MAIN_METRICS = ("test/top1", "val/top1", "val/loss")
"""Metrics that speak for a run, the one that says most first."""
MAIN_OF_SEVERAL = (
    *("test/mean_auroc", "test/map_macro", "val/mean_auroc", "val/map_macro"),
    *("test/macro_f1", "val/macro_f1", "val/loss"),
)
"""The same where images have several labels, of which the best one being right says little."""


MONITOR_OF_SEVERAL: tuple[str, Better] = ("val/mean_auroc", "max")
"""What chooses the best checkpoint there in place of the top-1 accuracy."""


def score_of(metric: str) -> Score | None:
    """Return the score that a metric such as val/top1 logs; None for one of which the table knows nothing."""
    return SCORES.get(metric.rpartition("/")[2])


def of_set(name: str, score: str) -> str:
    """Return how the score of a further set is called behind test/ and val/: its top-1 accuracy has the set's name."""
    return name if score == "top1" else f"{name}/{score}"


def set_and_score(metric: str, metrics: Collection[str] = ()) -> tuple[str, str]:
    """Return which further set a metric is of, "" for the split itself, and the name of its score.

    Args:
        metric: Such as val/top1, test/night or test/night/loss.
        metrics: What is known of the same split beside it: a set is known by its other scores.
    """
    rest = metric.partition("/")[2]
    called, _, name = rest.rpartition("/")
    if called and name in SCORES:
        return called, name
    score = SCORES.get(rest)
    is_set = score.needs == "further set" if score else f"{metric}/loss" in metrics
    return (rest, "top1") if is_set else ("", rest)


def are_of_several(metrics: Iterable[str]) -> bool:
    """Tell whether metrics are of images of several labels."""
    scores = (score_of(metric) for metric in metrics)
    return any(score is not None and score.needs == "several labels" for score in scores)


def best_value(metric: str, values: Iterable[float]) -> float:
    """Return the best value of a metric; of one that the table does not know, the least where its name ends in loss."""
    score = score_of(metric)
    least = score.better == "min" if score else metric.endswith("loss")
    return min(values) if least else max(values)


def scores_with(*needs: str) -> tuple[Score, ...]:
    """Return the scores for which data suffice that hold these, in the table's order."""
    return tuple(score for score in SCORES.values() if score.needs in needs)
