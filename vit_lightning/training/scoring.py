"""The scores of a split that are no mean over its images: what they need is kept, and summed up at its end."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.calibration import calibration_error
from vit_lightning.evaluation.confusion import ClassCounts, Confusion, Mistakes
from vit_lightning.evaluation.ranking import Ranking, rank
from vit_lightning.evaluation.scores import SCORES, TABLES

MOST_RANKED = 2**27
"""Images times classes of which every score is kept for a ranking, over all processes: 0.7 GB of each one's memory."""
BLOCKS = 16
"""Parts in which scores travel between processes."""
CHOICES = (*(name for name, score in SCORES.items() if score.suits(False) or score.suits(True)), *TABLES)
"""Scores and tables that may be asked for by name."""


class Answers(Metric):
    """Of each image of one label: its class, the class predicted, and the net's confidence in that.

    12 bytes an image, on its device, hold what every score by class and the confusion matrix need, exactly and
    whatever the number of classes and processes.
    """

    full_state_update = False
    higher_is_better = None
    pairs: list[Tensor]
    confidence: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.classes = 0
        self.add_state("pairs", [], dist_reduce_fx="cat")
        self.add_state("confidence", [], dist_reduce_fx="cat")

    def update(self, labels: Tensor, predicted: Tensor, confidence: Tensor, valid: Tensor, classes: int) -> None:
        """Keep images; one that is not valid `(b,)` counts nothing."""
        self.classes = classes
        self.pairs.append(torch.where(valid, labels * classes + predicted, -1))
        self.confidence.append(confidence.float())

    def compute(self) -> tuple[Tensor, Tensor]:
        """Return pairs and confidences of the images of all processes; the pair of one that is not valid is -1."""
        pairs, confidence = (torch.cat(_listed(state)) for state in (self.pairs, self.confidence))
        return pairs, confidence


class LabelCounts(Metric):
    """Of images of several labels, each predicted where its probability is above a threshold: sums by class."""

    full_state_update = False
    higher_is_better = None
    counts: Tensor
    exact: Tensor
    images: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("counts", "exact", "images"):
            self.add_state(name, torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predicted: Tensor, labels: Tensor, valid: Tensor) -> None:
        """Add images with predicted and true labels `(b, classes)`, bool; one not valid `(b,)` counts nothing."""
        predicted, labels = predicted & valid[:, None], labels & valid[:, None]
        # Not in place: a test leaves inference tensors behind, which a later validation of a fit may not change.
        self.counts = self.counts + torch.stack([each.sum(0) for each in (predicted & labels, labels, predicted)])
        self.exact = self.exact + ((predicted == labels).all(1) & valid).sum()
        self.images = self.images + valid.sum()

    def compute(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return right, true and predicted labels `(3, classes)`, images whose labels are all right, and images."""
        return self.counts, self.exact, self.images


class RankedLabels(Metric):
    """Of images: the score of every class, in the host's memory, since an exact ranking needs all at once."""

    full_state_update = False
    higher_is_better = None
    scores: list[Tensor]
    labels: list[Tensor]

    def __init__(self) -> None:
        super().__init__(sync_on_compute=False)  # the states lie where the processes' devices do not reach
        self.add_state("scores", [], dist_reduce_fx=None)
        self.add_state("labels", [], dist_reduce_fx=None)
        self.seen = 0

    def update(self, scores: Tensor, labels: Tensor, valid: Tensor) -> None:
        """Keep scores and labels `(b, classes)` of the valid images, up to a limit."""
        self.seen += scores.numel() * _processes()
        if self.seen > MOST_RANKED:
            self.scores, self.labels = [], []
            return
        kept = valid.cpu()
        self.scores.append(scores.float().cpu()[kept])
        self.labels.append(labels.byte().cpu()[kept])

    def compute(self) -> tuple[Tensor, Tensor] | None:
        """Return scores and labels of all processes; None if they are too many."""
        is_left_out = torch.tensor(int(self.seen > MOST_RANKED), device=self.device)
        if any(map(bool, _gathered(is_left_out))):
            return None
        return self._whole(self.scores), self._whole(self.labels)

    def reset(self) -> None:
        super().reset()
        self.seen = 0

    def _whole(self, parts: list[Tensor]) -> Tensor:
        own = torch.cat(parts)
        blocks = own.tensor_split(min(own.shape[1], BLOCKS), dim=1)
        return torch.cat([torch.cat([part.cpu() for part in _gathered(block.to(self.device))]) for block in blocks], 1)


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
        self.labels.update(probabilities > self.threshold, labels > 0.5, valid)
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
        """Say which scores cannot be computed, and of how many classes there is no image.

        Args:
            split: What the split is called in messages.

        Raises:
            InputError: one of them was asked for.
        """
        if self.summed is None:
            return []
        said = [f"{name} is left out: {why}" for name, why in self.summed.left_out.items()]
        if lacking := next((name for name in self.summed.left_out if name in self.required), None):
            raise InputError(f"{self.required[lacking]} {lacking} has no value: {self.summed.left_out[lacking]}")
        if missing := self.summed.counts.without_image:
            classes = len(self.summed.counts.support)
            said.append(f"{missing} of {classes} classes have no {split} image; means over classes leave them out")
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
        return f"images times classes are more than {MOST_RANKED:,}" if is_large else "no class tells images apart"

    def _of_one(self) -> Summed:
        pairs, confidence = (_in_order(found).cpu().numpy() for found in self.answers.compute())
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
        sums, exact, images = self.labels.compute()
        right, support, predicted = sums.cpu().numpy()
        counts = ClassCounts(right, support, predicted)
        values = {"macro_f1": counts.macro_f1, "micro_f1": counts.micro_f1, "exact_match": float(exact / images)}
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


def _listed(state: list[Tensor] | Tensor) -> list[Tensor]:
    """Return a state as a list, which it is no more once processes have put it together."""
    return state if isinstance(state, list) else [state]


def _in_order(gathered: Tensor) -> Tensor:
    """Return records `(n,)`, process by process, in the order of the data, which are dealt out in turns."""
    return rearrange(gathered.reshape(-1), "(r n) -> (n r)", r=_processes())


def _gathered(own: Tensor) -> list[Tensor]:
    """Return the tensors of all processes."""
    return gather_all_tensors(own) if _processes() > 1 else [own]


def _processes() -> int:
    known = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if known else 1
