"""The scores of a split that are no mean over its images: which are wanted, and what they come to at its end."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.calibration import calibration_error, label_calibration_error
from vit_lightning.evaluation.confusion import ClassCounts, Confusion, Mistakes
from vit_lightning.evaluation.ranking import Ranking, rank
from vit_lightning.evaluation.scores import SCORES, TABLES
from vit_lightning.training import kept_answers
from vit_lightning.training.kept_answers import PARTS_OF_ONE, Answers, LabelCounts, RankedLabels, in_order

CHOICES = (*(name for name, score in SCORES.items() if score.suits(False) or score.suits(True)), *TABLES)
"""Scores and tables that may be asked for by name."""


TOO_LARGE = "images times classes are more than "
"""Begins why a ranking was left out that other images would have."""


class Summed(NamedTuple):
    """What a split has come to, beside the means."""

    values: dict[str, float]
    """Scores by name; without those that are undefined for these images."""
    counts: ClassCounts
    confusion: Confusion | None
    """None for images of several labels."""
    ranking: Ranking | None
    left_out: dict[str, str]
    """Why a score that was wanted is not there, by name."""
    mistakes: Mistakes | None = None
    """None for images of several labels."""


class SplitScores(nn.Module):
    """Scores of one split that are no mean over its images.

    Args:
        threshold: Probability above which a label is predicted, for images of several.
    """

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        self.wanted = {name for name, score in SCORES.items() if score.is_cheap}
        """Names that are wanted if they suit the images."""
        self.monitored: Collection[str] = ()
        self.required: dict[str, str] = {}
        """Names that were asked for, each with what a person calls who did."""
        self.answers, self.labels, self.ranked = Answers(), LabelCounts(), RankedLabels()
        self.several: bool | None = None
        self.summed: Summed | None = None
        self.notes: list[str] = []
        """What a person should know of the scores, which ScoreTable prints."""

    def want(self, asked: Collection[str] | None, monitored: Collection[str], costly: bool) -> None:
        """Say which scores are wanted.

        Args:
            asked: Names by --model.scores; None: all that can be afforded.
            monitored: Names of those that choose a checkpoint or end a run.
            costly: Whether those that are not cheap can be afforded.
        """
        affordable = {name for name, score in SCORES.items() if score.is_cheap or costly}
        self.monitored = monitored
        self.wanted = {*(affordable if asked is None else asked), *monitored}
        self.required = dict.fromkeys(asked or (), "--model.scores") | dict.fromkeys(monitored, "the monitored score")

    def begin(self) -> None:
        """Forget an earlier pass over the split."""
        for metric in (self.answers, self.labels, self.ranked):
            metric.reset()
        self.several = self.summed = None

    def update(self, logits: Tensor, labels: Tensor, valid: Tensor, best: Tensor, are_independent: bool) -> None:
        """Take a batch.

        Args:
            logits: `(b, classes)`.
            labels: Classes `(b,)`, or shares of classes `(b, classes)`.
            valid: Whether an image counts `(b,)`.
            best: The class predicted `(b,)`.
            are_independent: Whether probabilities are independent (sigmoid), or sum to 1 (softmax).

        Raises:
            InputError: a score was asked for that images of such labels have not.
        """
        if self.several is None:
            self.several = labels.ndim == 2
            self._check(self.several)
        logits = logits.float()
        if not self.several:
            top = logits.gather(1, best[:, None]).squeeze(1)
            confidence = top.sigmoid() if are_independent else (top - logits.logsumexp(-1)).exp()
            self.answers.update(labels, best, confidence, valid, logits.shape[-1])
            if self._ranks():  # each class against the rest
                is_class = labels[:, None] == torch.arange(logits.shape[-1], device=labels.device)
                self.ranked.update(logits if are_independent else logits.log_softmax(-1), is_class, valid)
            return
        probabilities = logits.sigmoid() if are_independent else logits.softmax(-1)
        self.labels.update(probabilities, self.threshold, labels > 0.5, valid)
        if self._ranks():
            # A sigmoid would round the highest ones to 1.
            self.ranked.update(logits if are_independent else logits.log_softmax(-1), labels > 0.5, valid)

    def sum_up(self) -> Summed | None:
        """Return all scores of the split; None if it had no image."""
        if self.several is None:
            return None
        self.summed = self._of_several() if self.several else self._of_one()
        return self.summed

    def explain(self, split: str) -> list[str]:
        """Say which scores cannot be computed, of how many classes there is no image, and whether all are of one.

        Args:
            split: What the split is called in messages.

        Raises:
            InputError: one of them chooses a checkpoint or ends a run, or was asked for and is too large.
        """
        if self.summed is None:
            return []
        said = [f"{name} is left out: {why}" for name, why in self.summed.left_out.items()]
        for name, why in self.summed.left_out.items():
            if name in self.monitored or (name in self.required and why.startswith(TOO_LARGE)):
                other = "; give --checkpoint.monitor val/loss" * (name in self.monitored)
                raise InputError(f"{self.required[name]} {name} has no value: {why}{other}")
        if missing := self.summed.counts.without_image:
            classes = len(self.summed.counts.support)
            alarms = self.summed.counts.false_alarms if "macro_f1" in self.summed.values else 0
            but = f", but macro F1 counts the {alarms} of them that some image is taken for as 0" * (alarms > 0)
            said.append(f"{missing} of {classes} classes have no {split} image; means over classes leave them out{but}")
            if classes - missing == 1 and not self.several:
                said.append(
                    f"all {split} images are of one class, so that top-1 says little: a net that always answers it "
                    "scores 100 %"
                )
        return said

    def names(self, several: bool) -> list[str]:
        """Return the scores that are logged of images of one label each, or of several."""
        known = [name for name, score in SCORES.items() if name in self.wanted and score.suits(several)]
        # Of images of one label each a ranking says less than it costs, unless somebody asks for it.
        return [name for name in known if several or SCORES[name].is_cheap or name in self.required]

    def _ranks(self) -> bool:
        return any(not SCORES[name].is_cheap for name in self.names(bool(self.several)))

    def _ranking(self, classes: int) -> Ranking | None:
        """Return the ranking of all images; None where none is wanted, or they are too many."""
        kept = self.ranked.compute() if self._ranks() else None
        if kept is None:
            return None
        scores, labels = (part.reshape(-1, classes).numpy() for part in kept)
        return rank(scores, labels.astype(bool))

    def _why_unranked(self, ranking: Ranking | None) -> str:
        is_large = self._ranks() and ranking is None
        return (
            f"{TOO_LARGE}{kept_answers.MOST_RANKED:,}" if is_large else "every class is shown by all images or by none"
        )

    def _of_one(self) -> Summed:
        pairs, confidence = (in_order(found).cpu().numpy() for found in self.answers.compute())
        images = np.flatnonzero(pairs >= 0)
        confidence = confidence[images]
        true, predicted = np.divmod(pairs[images], self.answers.classes)
        confusion = Confusion.of(true, predicted, self.answers.classes)
        values = {
            "mean_class_accuracy": confusion.counts.mean_class_accuracy,
            "macro_f1": confusion.counts.macro_f1,
            "ece": calibration_error(confidence, true == predicted),
        }
        ranking = self._ranking(self.answers.classes) if len(true) else None
        if ranking is not None:
            values["mean_auroc"] = ranking.mean_auroc
        why = self._why_unranked(ranking) if len(true) else "no image has a label"
        mistakes = Mistakes.of(images, true, predicted, confidence)
        return self._summed(values, confusion.counts, confusion, ranking, why, mistakes)

    def _of_several(self) -> Summed:
        sums, exact, images, gaps = self.labels.compute()
        right, support, predicted = sums.cpu().numpy()
        counts = ClassCounts(right, support, predicted)
        values = {
            "macro_f1": counts.macro_f1,
            "micro_f1": counts.micro_f1,
            "exact_match": float(exact / images),
            "ece": label_calibration_error(gaps.cpu().numpy() / PARTS_OF_ONE, int(images), support),
        }
        ranking = self._ranking(len(support))
        if ranking is not None:
            values |= {"map_macro": ranking.map_macro, "map_micro": ranking.map_micro, "mean_auroc": ranking.mean_auroc}
        return self._summed(values, counts, None, ranking, self._why_unranked(ranking))

    def _summed(
        self,
        values: dict[str, float],
        counts: ClassCounts,
        confusion: Confusion | None,
        ranking: Ranking | None,
        why: str,
        mistakes: Mistakes | None = None,
    ) -> Summed:
        wanted = self.names(bool(self.several))
        known = {name: values[name] for name in wanted if name in values and not np.isnan(values[name])}
        left_out = {name: why for name in wanted if name not in known}
        return Summed(known, counts, confusion, ranking, left_out, mistakes)

    def _check(self, several: bool) -> None:
        for name, flag in self.required.items():
            suits = name == "classes" or (not several if name in TABLES else SCORES[name].suits(several))
            if not suits:
                kinds = ("one label each", "several labels")
                raise InputError(
                    f"{flag} {name} is for images of {kinds[not several]}, and these have {kinds[several]}; "
                    f"choose one of {', '.join(self._choices(several))}"
                )

    def _choices(self, several: bool) -> Iterable[str]:
        return (name for name, score in SCORES.items() if score.suits(several) or score.needs in ("targets", "labels"))


def possible_names() -> list[str]:
    """Return the scores that a split may have beside the means over its images."""
    return [name for name in CHOICES if name in SCORES]


def monitored_names(callbacks: Iterable[object]) -> set[str]:
    """Return those of them by which callbacks choose a checkpoint or end a run."""
    watched = {str(getattr(callback, "monitor", None)) for callback in callbacks}
    return {name for name in possible_names() if f"val/{name}" in watched}


def check_choice(names: Collection[str]) -> None:
    """Refuse scores that there are not.

    Raises:
        InputError: naming the first one.
    """
    if wrong := next((name for name in names if name not in CHOICES), None):
        raise InputError(
            f"--model.scores {wrong} is no score{did_you_mean(wrong, CHOICES)} (known: {', '.join(CHOICES)})"
        )
