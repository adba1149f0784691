"""The probes of features: few-shot least squares, nearest neighbours and logistic regression, as rows of a table."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vit_lightning.errors import InputError, at_most, listing
from vit_lightning.evaluation import fewshot, knn, logistic
from vit_lightning.evaluation.accuracy import Accuracy, accuracy
from vit_lightning.evaluation.arrays import Array, as_labels, whole_products
from vit_lightning.evaluation.features import FeatureSet
from vit_lightning.terminal import counted


@dataclass(frozen=True)
class Probes:
    """Which classifiers are fitted, and how.

    Args:
        chosen: fewshot, knn, logistic.
        shots: images of each class, for few-shot probes.
        seeds: of the choice of these images; None: the first ones.
        penalties: of few-shot probes; of several, the best is chosen on the test images, as Google's earlier code did.
        neighbours: each k of k-NN.
        temperature: of k-NN's votes.
        missing_is_fine: whether classes may have no image.
        usual: which of shots and neighbours nobody stated; of these, those beyond the images are left out.
    """

    chosen: Sequence[str]
    shots: Sequence[int]
    seeds: Sequence[int | None]
    penalties: Sequence[float]
    neighbours: Sequence[int]
    temperature: float
    missing_is_fine: bool
    usual: Collection[str] = ()

    def check(self, train: Array, test: Array, split: str, class_names: Sequence[str]) -> None:
        """Refuse images to which these probes cannot be fitted.

        Args:
            train: labels of the training images, negative where there is none.
            test: those of the images that are scored.
            split: what these are called.
            class_names: a name per class.

        Raises:
            InputError: naming the class or the number.
        """
        counts = {"training": _counts(train, len(class_names)), split: _counts(test, len(class_names))}
        for where, count in counts.items():
            if not count.any():
                raise InputError(f"none of the {where} images has a label, and a probe needs them; give other data")
        own = counts["training"]
        if np.count_nonzero(own) < 2:
            raise InputError("the training images are of one class alone; a probe needs two classes or more")
        for where, count in counts.items():
            lacking = [name for name, images in zip(class_names, count, strict=True) if not images]
            if lacking and not self.missing_is_fine:
                raise InputError(
                    f"the {where} images lack {len(lacking)} of {len(count)} classes: {listing(lacking)}; give data "
                    "with all of them, or --missing_classes ignore"
                )
        if "logistic" in self.chosen and int(own.max()) < 2:
            raise InputError(
                "no class has two training images, one of which logistic regression holds out to choose its C; give "
                "more images, or leave logistic out of --probes"
            )
        for limit in self._limits(own, class_names):
            values = getattr(self, limit.flag)
            if max(values) > limit.most and (limit.flag not in self.usual or min(values) > limit.most):
                raise InputError(
                    f"--{limit.flag} {max(values)} is more than the {limit.images}; "
                    f"{_possible(limit.flag, values, limit.most)} or leave {limit.probe} out of --probes"
                )

    def possible(self, train: Array, class_names: Sequence[str]) -> tuple["Probes", list[str]]:
        """Return these probes without the usual values that are beyond the images, and a line for each such flag.

        Args:
            train: labels of the training images, negative where there is none; they pass `check`.
            class_names: a name per class.
        """
        found, lines = self, []
        for limit in self._limits(_counts(train, len(class_names)), class_names):
            values = getattr(self, limit.flag)
            beyond = [str(value) for value in values if value > limit.most]
            if beyond:
                found = replace(found, **{limit.flag: [value for value in values if value <= limit.most]})
                lines.append(f"without  {limit.flag} {', '.join(beyond)}, more than the {limit.images}")
        return found, lines

    def _limits(self, own: np.ndarray, class_names: Sequence[str]) -> Iterator["_Limit"]:
        """Yield what bounds the flags of the probes that are fitted, by the training images of each class."""
        least, images = int(own[own > 0].min()), int(own.sum())
        if "fewshot" in self.chosen:
            name = class_names[int(np.where(own > 0, own, images + 1).argmin())]
            yield _Limit("shots", "fewshot", least, f"{counted(least, 'training image')} of class {name}")
        if "knn" in self.chosen:
            yield _Limit("neighbours", "knn", images, f"{images} training images")


class _Limit(NamedTuple):
    """The most that a flag of a probe may be, and the images that bound it."""

    flag: str
    probe: str
    most: int
    images: str


@dataclass(frozen=True)
class Probing:
    """Labelled features that are probed.

    Args:
        probes: the classifiers.
        train: those that a classifier is fitted to.
        test: those that it is scored on.
        num_classes: number of classes.
    """

    probes: Probes
    train: FeatureSet
    test: FeatureSet
    num_classes: int

    def rows(self, say: Callable[[str], None]) -> Iterator[tuple[str, str, list[Accuracy], str, float]]:
        """Yield probe, setting, scores, regularisation and seconds of each classifier; `say` takes progress."""
        kinds = {"fewshot": self._few_shot, "knn": self._knn, "logistic": lambda: self._logistic(say)}
        with whole_products():
            for kind in (kind for kind in kinds if kind in self.probes.chosen):
                began, rows = time.monotonic(), kinds[kind]()
                if kind == "knn":  # all of them come at once
                    found = list(rows)
                    yield from ((*row, (time.monotonic() - began) / len(found)) for row in found)
                    continue
                for row in rows:
                    yield *row, time.monotonic() - began
                    began = time.monotonic()

    def _few_shot(self) -> Iterator[tuple[str, str, list[Accuracy], str]]:
        for shots in self.probes.shots:
            scores = [self._few_shot_scores(shots, seed) for seed in self.probes.seeds]
            place = fewshot.choose_l2([_means(scores)])
            said = f"l2 {self.probes.penalties[place]:g}"
            if len(self.probes.penalties) > 1:
                said += f", the best of {len(self.probes.penalties)} on the test images"
            yield "few-shot", f"{shots} per class", [row[place] for row in scores], said

    def _few_shot_scores(self, shots: int, seed: int | None) -> list[Accuracy]:
        """Return the scores with each penalty."""
        train = self.train
        numbers = torch.from_numpy(fewshot.select(train.labels, self.num_classes, shots, seed))
        numbers = numbers.to(train.features.device)
        chosen = train.features[numbers], train.labels.to(numbers.device)[numbers]
        found = fewshot.solutions(*chosen, self.num_classes, self.probes.penalties)
        return [self._scored(solution.predict(self.test.features)) for solution in found]

    def _knn(self) -> Iterator[tuple[str, str, list[Accuracy], str]]:
        train, test, probes = self.train, self.test, self.probes
        votes = probes.neighbours, probes.temperature
        classes = knn.predict(train.features, train.labels, test.features, self.num_classes, *votes)
        for k, predicted in zip(probes.neighbours, classes, strict=True):
            yield "k-NN", f"k {k}", [self._scored(predicted)], ""

    def _logistic(self, say: Callable[[str], None]) -> Iterator[tuple[str, str, list[Accuracy], str]]:
        train = self.train
        found = logistic.fit_chosen(train.features, train.labels, self.num_classes, report=say)
        said = f"C {found.strength:.3g}, {found.chosen_by}"
        yield "logistic", "all images", [self._scored(found.predict(self.test.features))], said

    def _scored(self, predicted: Tensor) -> Accuracy:
        return accuracy(predicted, self.test.labels, self.num_classes)


def _counts(labels: Array, num_classes: int) -> np.ndarray:
    """Return the images of each class."""
    known = as_labels(labels).cpu().numpy()
    return np.bincount(known[(known >= 0) & (known < num_classes)], minlength=num_classes)


def _possible(flag: str, values: Sequence[int], most: int) -> str:
    """Say which values of a flag would do."""
    fine = [str(value) for value in values if value <= most]
    return f"give --{flag} [{','.join(fine)}]," if fine else f"give --{flag} of {at_most(most)},"


def _means(scores: list[list[Accuracy]]) -> list[float]:
    """Return the mean top-1 accuracy over the seeds for each penalty."""
    return [sum(one.top1 for one in column) / len(column) for column in zip(*scores, strict=True)]
