"""The probes of features: few-shot least squares, nearest neighbours and logistic regression, as rows of a table."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vit_lightning.errors import InputError, listing
from vit_lightning.evaluation import fewshot, knn, logistic
from vit_lightning.evaluation.arrays import Array, as_labels, whole_products
from vit_lightning.evaluation.features import FeatureSet


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
    """

    chosen: Sequence[str]
    shots: Sequence[int]
    seeds: Sequence[int | None]
    penalties: Sequence[float]
    neighbours: Sequence[int]
    temperature: float
    missing_is_fine: bool

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
        least, images = int(own[own > 0].min()), int(own.sum())
        if "fewshot" in self.chosen and max(self.shots) > least:
            name = class_names[int(np.where(own > 0, own, images + 1).argmin())]
            raise InputError(
                f"--shots {max(self.shots)} is more than the {least} training images of class {name}; "
                f"{_possible('shots', self.shots, least)} or leave fewshot out of --probes"
            )
        if "logistic" in self.chosen and int(own.max()) < 2:
            raise InputError(
                "no class has two training images, one of which logistic regression holds out to choose its C; give "
                "more images, or leave logistic out of --probes"
            )
        if "knn" in self.chosen and max(self.neighbours) > images:
            raise InputError(
                f"--neighbours {max(self.neighbours)} is more than the {images} training images; "
                f"{_possible('neighbours', self.neighbours, images)} or leave knn out of --probes"
            )


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

    def rows(self, say: Callable[[str], None]) -> Iterator[tuple[str, str, list, str, float]]:
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

    def _few_shot(self) -> Iterator[tuple[str, str, list[float], str]]:
        for shots in self.probes.shots:
            scores = [self._few_shot_scores(shots, seed) for seed in self.probes.seeds]
            place = fewshot.choose_l2([_means(scores)])
            said = f"l2 {self.probes.penalties[place]:g}"
            if len(self.probes.penalties) > 1:
                said += f", the best of {len(self.probes.penalties)} on the test images"
            yield "few-shot", f"{shots} per class", [row[place] for row in scores], said

    def _few_shot_scores(self, shots: int, seed: int | None) -> list[float]:
        """Return the score with each penalty."""
        train = self.train
        numbers = torch.from_numpy(fewshot.select(train.labels, self.num_classes, shots, seed))
        numbers = numbers.to(train.features.device)
        chosen = train.features[numbers], train.labels.to(numbers.device)[numbers]
        found = fewshot.solutions(*chosen, self.num_classes, self.probes.penalties)
        return [solution.top1(self.test.features, self.test.labels) for solution in found]

    def _knn(self) -> Iterator[tuple[str, str, list[float], str]]:
        train, test, probes = self.train, self.test, self.probes
        votes = probes.neighbours, probes.temperature
        classes = knn.predict(train.features, train.labels, test.features, self.num_classes, *votes)
        for k, predicted in zip(probes.neighbours, classes, strict=True):
            yield "k-NN", f"k {k}", [_share(predicted, test.labels)], ""

    def _logistic(self, say: Callable[[str], None]) -> Iterator[tuple[str, str, list[float], str]]:
        train = self.train
        found = logistic.fit_chosen(train.features, train.labels, self.num_classes, report=say)
        said = f"C {found.strength:.3g}, the best on {logistic.HELD_OUT:.0%} of the training images".replace("%", " %")
        yield "logistic", "all images", [found.top1(self.test.features, self.test.labels)], said


def _counts(labels: Array, num_classes: int) -> np.ndarray:
    """Return the images of each class."""
    known = as_labels(labels).cpu().numpy()
    return np.bincount(known[(known >= 0) & (known < num_classes)], minlength=num_classes)


def _possible(flag: str, values: Sequence[int], most: int) -> str:
    """Say which values of a flag would do."""
    fine = [str(value) for value in values if value <= most]
    return f"give --{flag} [{','.join(fine)}]," if fine else f"give --{flag} of {most} or less,"


def _means(scores: list[list[float]]) -> list[float]:
    """Return the mean over the seeds for each penalty."""
    return [sum(column) / len(column) for column in zip(*scores, strict=True)]


def _share(predicted: Tensor, labels: Tensor) -> float:
    return int((predicted == labels.to(predicted.device)).sum()) / len(labels)
