"""Multinomial logistic regression on frozen features, with its regularisation chosen on held-out training images.

The objective is scikit-learn's: |W|^2 / 2 + C * (the sum of the images' cross-entropies), with a free bias. Features
are standardised by the training images' mean and deviation first, so that one range of C suits all nets.

Letters: n images, d features of each, k classes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.evaluation.arrays import Array, as_classes, as_features, as_labels, chunks, whole_products
from vit_lightning.evaluation.lbfgs import minimise
from vit_lightning.terminal import number

STRENGTHS = tuple(10.0**power for power in range(-6, 5))
"""Each C that is tried: from 1e-6, where the prior rules, to 1e4; then those halfway to the best one's neighbours."""
HELD_OUT = 0.2
"""Share of every class's training images on which C is chosen."""
LEAST_LOSS = "the least held-out loss within a standard error of the best"
RIGHT_ON_ALL = "the least that is right on all held-out images"
"""What `best_strength` chooses C by, in words."""
PATIENCE = 2
"""Steps of C that better neither score nor loss, after which no greater one is tried."""
CLEARLY = 1.0
"""Standard errors by which a score must fall for one step to be enough, once it has risen as far."""
STEPS = 200
"""Steps of a fit, at most."""
SETTLED = 1e-8
"""A fit has ended when steps lower its objective by a smaller share. Below it, fp32 rounds."""
SETTLED_ENOUGH = 1e-6
"""The same of the last fit. About one test image in 1,000 would change its class after it."""
FEW_STEPS = 15
"""Steps, at least, of a large problem's fits; each begins where the one before ended."""
SETTLED_FOR_CHOICE = 1e-5
"""A fit that only chooses C has ended when steps lower its objective by a smaller share."""
WORK = 2 * 10**11
"""Steps times images times features times classes that a fit may take beyond that."""


@dataclass(frozen=True)
class Standard:
    """Mean and deviation of each feature `(d,)` over the training images; a constant feature keeps its size."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, features: Tensor) -> "Standard":
        """Measure features `(n, d)`."""
        # Some features at a time, since all of them in float64 might not fit.
        parts = [torch.std_mean(part.double(), dim=0, correction=0) for part in features.split(64, dim=1)]
        std, mean = (torch.cat(each) for each in zip(*parts, strict=True))
        return cls(mean.float(), torch.where(std > 0, std, 1.0).float())

    def __call__(self, features: Tensor) -> Tensor:
        """Return features in fp32, standardised."""
        return (features.to(self.mean.device, torch.float32) - self.mean).div_(self.std)


@dataclass(frozen=True)
class Regression:
    """A linear classifier of standardised features.

    Args:
        standard: how features are standardised.
        weights: `(d, k)`.
        bias: `(k,)`.
        strength: C, by which the data count against the prior.
        chosen_by: what chose C, in words; empty: it was given.
    """

    standard: Standard
    weights: Tensor
    bias: Tensor
    strength: float
    chosen_by: str = ""

    def scores(self, features: Array) -> Tensor:
        """Return the logits `(n, k)` of features `(n, d)`."""
        return torch.addmm(self.bias, self.standard(as_features(features)), self.weights)

    def predict(self, features: Array) -> Tensor:
        """Return the class of the best score of each image, int64 `(n,)`, for features `(n, d)`."""
        features = as_features(features)
        return torch.cat([self.scores(features[rows]).argmax(1) for rows in chunks(len(features), len(self.bias))])

    def top1(self, features: Array, labels: Array) -> float:
        """Return the share of images whose best score is that of their class."""
        return self.judged(features, labels)[0]

    def judged(self, features: Array, labels: Array) -> tuple[float, float]:
        """Return the share of images whose best score is that of their class, and the mean cross-entropy."""
        features, labels = as_features(features), as_labels(labels)
        right, loss = 0, 0.0
        for rows in chunks(len(features), len(self.bias)):
            logs, own = self.scores(features[rows]).log_softmax(1), labels[rows].to(self.bias.device)
            right += int((logs.argmax(1) == own).sum())
            loss -= float(logs.gather(1, own[:, None]).sum(dtype=torch.float64))
        return right / len(features), loss / len(features)


def fit(features: Array, labels: Array, num_classes: int, strength: float = 1.0) -> Regression:
    """Return the regression of one C: scikit-learn's LogisticRegression on standardised features.

    Args:
        features: of the training images `(n, d)`.
        labels: their classes, int `(n,)`.
        num_classes: k.
        strength: C.

    Raises:
        InputError: C is not above 0, or features are not finite.
    """
    _check_strengths([strength])
    features = as_features(features)
    standard = Standard.of(features)
    labels = as_classes(labels, len(features), num_classes).to(features.device)
    problem = Problem(standard(features), labels, num_classes)
    return problem.solve(strength).with_standard(standard)


def fit_chosen(
    features: Array,
    labels: Array,
    num_classes: int,
    strengths: Sequence[float] = STRENGTHS,
    held_out: float = HELD_OUT,
    seed: int = 0,
    report: Callable[[str], None] = lambda said: None,
) -> Regression:
    """Choose C on held-out training images, then fit on all of them.

    C rises from the least until neither score nor loss has become better for `PATIENCE` steps; where the prior rules,
    the loss alone does. It rises no further either once the score has risen clearly and fallen as clearly. Then come
    the geometric means of the best C and its neighbours. Of scores within a standard error of the best one, the loss
    decides: of a few hundred held-out images, it varies far less with their choice than the score does.

    A large problem's fits end after few steps, which regularises as well: so does the last one, which begins where the
    fit that was chosen ended.

    Args:
        features: of the training images `(n, d)`.
        labels: their classes, int `(n,)`.
        num_classes: k.
        strengths: each C that is tried.
        held_out: share of each class that is held out; a class of one image keeps it.
        seed: of the choice of the held-out images.
        report: takes a line that says how far it is.

    Raises:
        InputError: no class has two images, a C is not above 0, or features are not finite.
    """
    _check_strengths(strengths)
    features = as_features(features)
    labels = as_classes(labels, len(features), num_classes)
    stay, out = hold_out(labels, held_out, seed)
    labels = labels.to(features.device)
    part = features[stay.to(features.device)]
    standard = Standard.of(part)
    problem = Problem(standard(part), labels[stay.to(features.device)], num_classes)
    asked, wanted = features[out.to(features.device)], labels[out.to(features.device)]
    steps = max(FEW_STEPS, min(STEPS, WORK // (part.numel() * num_classes)))
    tried: dict[float, Trial] = {}

    def attempt(strength: float, start: Found | None) -> Trial:
        found = problem.solve(strength, start, steps, SETTLED_FOR_CHOICE)
        tried[strength] = trial = Trial(found, *found.with_standard(standard).judged(asked, wanted))
        report(
            f"C {strength:.3g}: {100 * trial.top1:.2f} % of {len(wanted):,} held-out images, loss {number(trial.loss)}"
        )
        return trial

    def best() -> float:
        return best_strength(tried, len(wanted))

    ladder, without, top1, loss = sorted(set(strengths)), 0, -1.0, math.inf
    last: Trial | None = None
    for strength in ladder:
        last = attempt(strength, last and last.found)
        without = 0 if last.top1 > top1 or last.loss < loss else without + 1
        top1, loss = max(top1, last.top1), min(loss, last.loss)
        clear = CLEARLY * math.sqrt(top1 * (1 - top1) / len(wanted))
        if without == PATIENCE or max(last.top1, tried[ladder[0]].top1) < top1 - clear:
            break
    place, coarse = ladder.index(best()), best()
    for neighbour in ladder[max(0, place - 1) : place + 2]:
        if neighbour != coarse:
            attempt(math.sqrt(coarse * neighbour), tried[coarse].found)
    chosen, standard = tried[best()].found, Standard.of(features)
    chosen_by = RIGHT_ON_ALL if tried[best()].top1 == 1 else LEAST_LOSS
    whole = Problem(standard(features), labels, num_classes)
    found = whole.solve(chosen.strength, chosen, steps, SETTLED_ENOUGH).with_standard(standard)
    return replace(found, chosen_by=chosen_by)


def hold_out(labels: Array, share: float = HELD_OUT, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return the numbers of the images that stay and of those held out: of every class the same share, one at least.

    Raises:
        InputError: no class has two images.
    """
    labels = as_labels(labels).cpu().numpy()
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    ranked = labels[order]
    first, count = np.searchsorted(ranked, ranked), np.bincount(ranked)[ranked]
    out = np.minimum(np.maximum(1, np.round(share * count)), count - 1)
    held = np.arange(len(ranked)) - first < out
    if not held.any():
        raise InputError(
            "logistic regression holds out training images to choose its C, but no class has two of them; "
            "give more images, or leave logistic regression out"
        )
    return torch.from_numpy(np.sort(order[~held])), torch.from_numpy(np.sort(order[held]))


@dataclass(frozen=True)
class Found:
    """What a problem's solution is, before it is told how its features were standardised."""

    weights: Tensor
    bias: Tensor
    strength: float

    def with_standard(self, standard: Standard) -> Regression:
        return Regression(standard, self.weights, self.bias, self.strength)


class Trial(NamedTuple):
    """A fit that helps to choose C: what it found, and what that makes of the held-out images."""

    found: Found
    top1: float
    loss: float


def best_strength(tried: Mapping[float, Trial], images: int) -> float:
    """Return the C of least loss among those whose score is within a standard error of the best.

    Where the best is right on all images, the loss would fall with every C, and the least of them is returned.

    Args:
        tried: Trials by C.
        images: Number of held-out images.
    """
    top1 = max(trial.top1 for trial in tried.values())
    least = top1 - math.sqrt(top1 * (1 - top1) / images)
    near = [strength for strength in sorted(tried) if tried[strength].top1 >= least]
    return near[0] if top1 == 1 else min(near, key=lambda strength: tried[strength].loss)


class Problem:
    """Regressions on the same images for several C.

    L-BFGS sees the weights in coordinates in which the curvature is nearly the same in all directions: the root of
    X'X / (n k) + I / (n C) takes the part of the features' correlations out, which leaves few steps.

    Args:
        x: standardised features `(n, d)`, fp32.
        labels: int64 `(n,)`.
        num_classes: k.
    """

    def __init__(self, x: Tensor, labels: Tensor, num_classes: int) -> None:
        self.x, self.labels, self.num_classes = x, labels, num_classes
        with whole_products():
            self.values, self.vectors = torch.linalg.eigh((x.T @ x).double() / len(x))

    def solve(self, strength: float, start: Found | None = None, steps: int = STEPS, settled: float = SETTLED) -> Found:
        """Return the solution for C, from that for another C where one is given."""
        d, k, n = self.x.shape[1], self.num_classes, len(self.x)
        decay = 1 / (strength * n)
        curvature = (self.values.clamp(min=0) / k + decay).sqrt()
        to_weights = (self.vectors / curvature).float()
        flat = self.x.new_zeros(d + 1, k)
        if start is not None:
            flat[:-1] = ((self.vectors * curvature).float().T @ start.weights).to(flat)
            flat[-1] = start.bias * k**-0.5

        def objective(flat: Tensor) -> tuple[float, Tensor]:
            weights, bias = to_weights @ flat[:-1], flat[-1] * k**0.5
            loss, gradient, bias_gradient = self._loss(weights, bias)
            loss = loss + decay / 2 * weights.double().square().sum()
            gradient = to_weights.T @ (gradient + decay * weights)
            return float(loss), torch.cat([gradient, bias_gradient[None] * k**0.5])

        with whole_products():
            flat = minimise(objective, flat, steps, settled)
            return Found(to_weights @ flat[:-1], flat[-1] * k**0.5, strength)

    def _loss(self, weights: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean cross-entropy and its gradients by weights and bias."""
        n = len(self.x)
        total, gradient = bias.new_zeros((), dtype=torch.float64), torch.zeros_like(weights)
        bias_gradient = torch.zeros_like(bias)
        for rows in chunks(n, self.num_classes):
            x, own = self.x[rows], self.labels[rows, None]
            logs = torch.addmm(bias, x, weights).log_softmax(1)
            total -= logs.gather(1, own).sum(dtype=torch.float64)
            shares = logs.exp_()
            shares.scatter_add_(1, own, -torch.ones_like(own, dtype=shares.dtype))
            gradient.addmm_(x.T, shares)
            bias_gradient += shares.sum(0)
        return total / n, gradient / n, bias_gradient / n


def _check_strengths(strengths: Sequence[float]) -> None:
    if wrong := [value for value in strengths if not 0 < value < math.inf]:
        raise InputError(f"C is {wrong[0]}; expected a number above 0, such as 1.0")
