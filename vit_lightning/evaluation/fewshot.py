"""Few-shot linear probes: closed-form L2-regularised least squares to targets of -1 and 1 (paper, section 4.1).

What the paper leaves open follows big_vision's `evaluators/fewshot_lsr.py`, and for a grid of penalties the fewshot
evaluation of Google's earlier code (uncertainty-baselines, `fewshot_utils.py`).

Letters: n images, d features of each, k classes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.evaluation.accuracy import accuracy
from vit_lightning.evaluation.arrays import Array, as_classes, as_features, as_labels, chunks

L2 = 2.0**10
"""The penalty of the published code."""
ORIGINAL_L2 = tuple(2.0**power for power in range(-10, 20))
"""The penalties among which the earlier code chose one per number of shots."""
CONSTANT = 100.0
"""A feature that all images share: nearly a free bias, since the penalty weighs little against it."""
LEAST_DEVIATION = 1e-5
"""Added to each feature's standard deviation."""


@dataclass(frozen=True)
class Solution:
    """A linear classifier of standardised features.

    Args:
        mean: of each feature over the training images `(d,)`.
        std: their biased standard deviation, and 1e-5 more `(d,)`.
        weights: `(d + 1, k)`; the last row is that of the constant feature.
        l2: the penalty.
    """

    mean: Tensor
    std: Tensor
    weights: Tensor
    l2: float

    def scores(self, features: Array) -> Tensor:
        """Return the score of each class `(n, k)`, in float64, for features `(n, d)`."""
        features = as_features(features).to(self.mean.device, torch.float64)
        return (features - self.mean) / self.std @ self.weights[:-1] + CONSTANT * self.weights[-1]

    def predict(self, features: Array) -> Tensor:
        """Return the class of the best score of each image, int64 `(n,)`, for features `(n, d)`."""
        features = as_features(features)
        # In fp32, as the published code: of 50,000 images and 1,000 classes this is most of the work.
        mean, std, weights = self.mean.float(), self.std.float(), self.weights.float()
        best = []
        for rows in chunks(len(features), weights.shape[1]):
            scaled = (features[rows].to(mean.device, torch.float32) - mean) / std
            best.append(torch.addmm(CONSTANT * weights[-1], scaled, weights[:-1]).argmax(1))
        return torch.cat(best)

    def top1(self, features: Array, labels: Array) -> float:
        """Return the share of images whose best score is that of their class."""
        return accuracy(self.predict(features), labels, self.weights.shape[1]).top1


def solve(features: Array, labels: Array, num_classes: int, l2: float = L2) -> Solution:
    """Return the weights that minimise |XW - Y|^2 + l2 |W|^2, in float64.

    Args:
        features: of the training images `(n, d)`.
        labels: their classes, int `(n,)`.
        num_classes: k.
        l2: penalty, which covers the constant feature too.

    Raises:
        InputError: there are no images, features are not finite, or labels are no classes.
    """
    return next(solutions(features, labels, num_classes, (l2,)))


def solutions(features: Array, labels: Array, num_classes: int, penalties: Sequence[float]) -> Iterator[Solution]:
    """Yield the solution for each penalty; the products of features that all of them need are computed once."""
    if wrong := [penalty for penalty in penalties if not penalty > 0]:
        raise InputError(f"the penalty l2 is {wrong[0]}; expected a number above 0, such as 1024")
    features = as_features(features).double()
    if not len(features):
        raise InputError("there are no training images to solve for")
    labels = as_classes(labels, len(features), num_classes).to(features.device)
    mean = features.mean(0)
    std = features.std(0, correction=0) + LEAST_DEVIATION
    x = torch.cat([(features - mean) / std, features.new_full((len(features), 1), CONSTANT)], dim=1)
    is_primal = len(x) >= x.shape[1]
    products = x.T @ x if is_primal else x @ x.T
    right = _against_targets(x, labels, num_classes) if is_primal else _targets(labels, num_classes)
    diagonal = products.diagonal().clone()
    for penalty in penalties:
        products.diagonal().copy_(diagonal + penalty)
        found = torch.cholesky_solve(right, torch.linalg.cholesky(products))
        yield Solution(mean, std, found if is_primal else x.T @ found, float(penalty))


def select(labels: Array, num_classes: int, shots: int, seed: int | None = 0) -> np.ndarray:
    """Return the numbers of `shots` images of every class; those of fewer shots are part of those of more.

    Args:
        labels: class of every training image, int `(n,)`; an image whose label is negative is never chosen.
        num_classes: k; a class without images is left out.
        shots: images of each class.
        seed: of the order in which a class's images are taken; None: the order that they have.

    Raises:
        InputError: a class has fewer images, but not none.
    """
    labels = as_labels(labels).cpu().numpy()
    chance, chosen = np.random.default_rng(seed), []
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(num_classes + 1))
    for label in range(num_classes):
        members = order[starts[label] : starts[label + 1]]
        if 0 < len(members) < shots:
            raise InputError(f"{shots} shots are more than the {len(members)} training images of class {label}")
        chosen.append((members if seed is None else chance.permutation(members))[:shots])
    return np.concatenate(chosen)


def choose_l2(accuracies: Sequence[Sequence[float]]) -> int:
    """Return the number of the penalty with the best mean rank over data sets; of equals, the least penalty.

    Args:
        accuracies: a row for each data set, a column for each penalty, from the least on.
    """
    ranks = [
        [sum(other > value for other in row) + (row.count(value) - 1) / 2 for value in row]
        for row in map(list, accuracies)
    ]
    means = np.mean(ranks, axis=0)
    return int(means.argmin())


def _targets(labels: Tensor, num_classes: int) -> Tensor:
    """Return Y `(n, k)`: 1 for an image's class, -1 for the others."""
    targets = labels.new_full((len(labels), num_classes), -1, dtype=torch.float64)
    return targets.scatter_(1, labels[:, None], 1.0)


def _against_targets(x: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Return X'Y `(d + 1, k)` from the sums over each class, without Y."""
    sums = x.new_zeros((num_classes, x.shape[1])).index_add_(0, labels, x)
    return (2 * sums - x.sum(0)).T
