"""Losses for classes of unequal size: class weights, focal loss and logit adjustment, in training alone."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor
from torch.nn import functional as F

from vit_lightning.data import ImageDataModule
from vit_lightning.data.subsets import ClassCounts
from vit_lightning.errors import InputError, listing

ClassWeights = Literal["balanced"] | list[float] | None
SMALLEST = torch.finfo(torch.float32).tiny
"""Below it the slope of a power between 0 and 1 would not be finite."""
SAID = 8
"""Classes whose weights the plan says."""


class ImbalanceLoss:
    """Cross-entropy of logits (b, classes) that a remedy against imbalance changes.

    A class c of an image adds -t_c w_c (1 - p_c)^gamma log p_c for its target t_c. With softmax and weights, the sum is
    divided by the batch's sum of t_c w_c, where an int label counts as one target, smoothed or not (torch's
    CrossEntropyLoss). With sigmoid, weights are torch's pos_weight, negatives add (1 - t_c) p_c^gamma log (1 - p_c),
    and the sum over classes is averaged over images.

    Args:
        kind: softmax or sigmoid.
        weights: of the classes (classes); None: 1.
        gamma: exponent of the focal loss (Lin et al., ICCV 2017); 0: none.
        shift: what is added to the logits (classes), tau times the log prior; None: nothing.
    """

    def __init__(
        self, kind: Literal["softmax", "sigmoid"], weights: Tensor | None, gamma: float, shift: Tensor | None
    ) -> None:
        self.kind = kind
        self.weights = weights
        self.gamma = gamma
        self.shift = shift

    def to(self, device: torch.device) -> "ImbalanceLoss":
        """Return the same loss on a device."""
        weights, shift = (None if each is None else each.to(device) for each in (self.weights, self.shift))
        return ImbalanceLoss(self.kind, weights, self.gamma, shift)

    @property
    def has_totals(self) -> bool:
        """Whether a batch's sum is divided by the weights of its labels, not by its images."""
        return self.kind == "softmax" and self.weights is not None

    def total(self, labels: Tensor) -> Tensor:
        """Sum of the weights of a batch's labels (b), or targets (b, classes)."""
        assert self.weights is not None
        return self.weights[labels].sum() if labels.ndim == 1 else (labels.float() @ self.weights).sum()

    def __call__(self, logits: Tensor, labels: Tensor, smoothing: float, total: Tensor | None = None) -> Tensor:
        """Mean loss of logits with labels (b), smoothed here, or finished targets (b, classes).

        Args:
            logits: of the net (b, classes).
            labels: class indices (b) or targets (b, classes).
            smoothing: as of the cross-entropy, for class indices.
            total: what the sum is divided by; None: the batch's own total.
        """
        logits = logits.float() if self.shift is None else logits.float() + self.shift
        if self.kind == "sigmoid":
            return self._sigmoid(logits, self._targets(labels, logits, 1 - smoothing, smoothing))
        low = smoothing / logits.shape[-1]
        losses = self._softmax(logits, self._targets(labels, logits, 1 - smoothing + low, low))
        if self.has_totals:
            return losses.sum() / (self.total(labels) if total is None else total)
        return losses.mean()

    def _softmax(self, logits: Tensor, targets: Tensor) -> Tensor:
        log_p = logits.log_softmax(-1)
        losses = -targets * log_p * self._focus(-torch.expm1(log_p))
        return (losses if self.weights is None else losses * self.weights).sum(-1)

    def _sigmoid(self, logits: Tensor, targets: Tensor) -> Tensor:
        positive = targets * F.softplus(-logits) * self._focus((-logits).sigmoid())
        negative = (1 - targets) * F.softplus(logits) * self._focus(logits.sigmoid())
        return ((positive if self.weights is None else positive * self.weights) + negative).sum(-1).mean()

    def _focus(self, missing: Tensor) -> Tensor | float:
        """The focal loss's factor for what a probability lacks."""
        return missing.clamp(min=SMALLEST) ** self.gamma if self.gamma else 1.0

    @staticmethod
    def _targets(labels: Tensor, logits: Tensor, high: float, low: float) -> Tensor:
        if labels.ndim == 2:
            return labels.float()
        classes = torch.arange(logits.shape[-1], device=labels.device)
        return torch.where(labels[:, None] == classes, high, low)


class StepTotals:
    """The weights of the batches of one optimiser step, whose gradients together make one weighted mean."""

    def __init__(self) -> None:
        self.totals: list[Tensor] = []

    def share(self, total: Tensor, is_first: bool) -> Tensor:
        """Return how much a batch's mean counts beside that of the step's first batch."""
        self.totals = [total] if is_first else [*self.totals, total]
        return total / self.totals[0]

    def factor(self) -> Tensor:
        """Return by how much the mean of the shared gradients misses the weighted mean."""
        return self.totals[0] / torch.stack(self.totals).mean()


def check_remedies(kind: str, class_weights: ClassWeights, focal_gamma: float, logit_adjustment: float) -> None:
    """Refuse settings that cannot be, or that correct the same imbalance twice.

    Raises:
        InputError: naming the flag.
    """
    if not 0 <= focal_gamma <= 100:
        raise InputError(f"--model.focal_gamma is {focal_gamma:g}, expected a number from 0 (off) to 100, such as 2")
    if not 0 <= logit_adjustment <= 100:
        raise InputError(
            f"--model.logit_adjustment is {logit_adjustment:g}, expected a number from 0 (off) to 100, such as 1"
        )
    if logit_adjustment and kind == "sigmoid":
        raise InputError(
            f"--model.logit_adjustment {logit_adjustment:g} shifts the logits of a softmax, and --model.loss is "
            "sigmoid; drop one of them, or give --model.class_weights balanced"
        )
    if isinstance(class_weights, Sequence) and not isinstance(class_weights, str):
        if wrong := [weight for weight in class_weights if not 0 < weight < float("inf")]:
            raise InputError(f"--model.class_weights has {wrong[0]:g}, expected a number above 0 for every class")
    elif class_weights not in ("balanced", None):
        raise InputError(f"--model.class_weights is {class_weights!r}, expected balanced or a list of numbers")


def refuse_own_loss(owner: str, *asked: Any) -> None:
    """Refuse remedies of a class whose own `loss` they would pass by."""
    if any(asked):
        raise InputError(
            f"{owner} has a loss of its own, which --model.class_weights, --model.focal_gamma and "
            "--model.logit_adjustment do not change; drop them, or override batch_loss too"
        )


def remedy(settings: Mapping[str, Any], data: Any) -> tuple[ImbalanceLoss | None, ClassCounts | None]:
    """Return the loss that a model's settings ask for, None without any, and the counts that it follows.

    Args:
        settings: the model's loss, num_classes, class_weights, focal_gamma and logit_adjustment.
        data: any LightningDataModule, after its setup.

    Raises:
        InputError: the data do not know or do not have what the settings need, or answer the imbalance themselves.
    """
    weights, gamma, tau = (settings[name] for name in ("class_weights", "focal_gamma", "logit_adjustment"))
    following = ["--model.class_weights balanced"] * (weights == "balanced")
    following += [f"--model.logit_adjustment {tau:g}"] * bool(tau)
    answers = ["--data.sampler balanced"] * (getattr(data, "sampler", None) == "balanced") + following
    if len(answers) > 1 and following:
        raise InputError(f"{' and '.join(answers)} correct the same imbalance twice; give one of them")
    if weights is None and not gamma and not tau:
        return None, None
    counts = _counts(data, following[0]) if following else None
    if counts is not None:
        _check_counts(counts, following[0], settings["loss"], settings["num_classes"], data.class_names)
    found = _weights(weights, settings, counts, data)
    shift = None
    if tau and counts is not None:
        shift = tau * torch.from_numpy(np.log(counts.per_class / counts.per_class.sum())).float()
    return ImbalanceLoss(settings["loss"], found, gamma, shift), counts


def described(settings: Mapping[str, Any], loss: ImbalanceLoss | None = None, names: Sequence[str] = ()) -> str:
    """Return what the remedies add to the name of a loss.

    Args:
        settings: as for `remedy`.
        loss: what `remedy` has made of them; None: the numbers of balanced are not known yet.
        names: of the classes; none: they have numbers.
    """
    weights, gamma, tau = (settings[name] for name in ("class_weights", "focal_gamma", "logit_adjustment"))
    said = [f"class weights {_said_weights(weights, loss, names)}"] if weights else []
    said += [f"focal gamma {gamma:g}"] * bool(gamma) + [f"logits adjusted by {tau:g} log prior"] * bool(tau)
    return "".join(f", {part}" for part in said)


def _said_weights(weights: ClassWeights, loss: ImbalanceLoss | None, names: Sequence[str]) -> str:
    """Say the weight of each of the first classes, by its name: a list of numbers may be meant in another order."""
    is_balanced = weights == "balanced"
    if loss is None or loss.weights is None:
        return "balanced" if is_balanced else "as given"
    each = loss.weights.tolist()
    called = names if len(names) == len(each) else list(map(str, range(len(each))))
    by_name = listing((f"{name:.30} {weight:.4g}" for name, weight in zip(called, each, strict=True)), most=SAID)
    return f"balanced ({by_name})" if is_balanced else by_name


def report_counts(then: Sequence[float] | None, now: ClassCounts | None) -> None:
    """Say that the counts which a resumed run's loss follows are not those of its checkpoint."""
    if then is None or now is None:
        return
    changed = [number for number, (a, b) in enumerate(zip(then, now.per_class.tolist(), strict=False)) if a != b]
    if changed:
        examples = listing(f"{number}: {then[number]:g} -> {now.per_class[number]:g}" for number in changed)
        rank_zero_info(f"differs from the checkpoint: training images of class {examples}")


def _counts(data: Any, flag: str) -> ClassCounts:
    counts = data.class_counts if isinstance(data, ImageDataModule) else None
    if counts is None:
        raise InputError(
            f"{flag} follows the number of training images per class, which {type(data).__name__} does not know; "
            "give --model.class_weights a list of numbers, one per class"
        )
    return counts


def _check_counts(counts: ClassCounts, flag: str, kind: str, num_classes: int, names: Sequence[str]) -> None:
    """Refuse classes for which no weight follows from the counts."""
    if len(counts.per_class) != num_classes:
        raise InputError(
            f"{flag} counts {len(counts.per_class)} classes in the training images, but the model has {num_classes}; "
            "use data of as many classes"
        )
    absent = np.flatnonzero(counts.per_class == 0)
    if len(absent):
        raise InputError(
            f"{flag} cannot weigh {len(absent)} of {num_classes} classes, which have no training images: "
            f"{listing(names[label] for label in absent)}; add images, or drop the class or the flag"
        )
    everywhere = np.flatnonzero(counts.per_class == counts.images) if kind == "sigmoid" else ()
    if len(everywhere):
        raise InputError(
            f"{flag} cannot weigh class {names[everywhere[0]]}, which every training image shows; drop the class or "
            "the flag"
        )


def _weights(
    weights: ClassWeights, settings: Mapping[str, Any], counts: ClassCounts | None, data: Any
) -> Tensor | None:
    if weights is None:
        return None
    if weights == "balanced":
        assert counts is not None
        images, per_class = counts
        # By sigmoid, what torch advises for pos_weight; by softmax, scikit-learn's rule.
        by_sigmoid = settings["loss"] == "sigmoid"
        found = (images - per_class) / per_class if by_sigmoid else images / (len(per_class) * per_class)
        return torch.from_numpy(found).float()
    if len(weights) != settings["num_classes"]:
        names = getattr(data, "class_names", None) or range(settings["num_classes"])
        raise InputError(
            f"--model.class_weights has {len(weights)} numbers for {settings['num_classes']} classes; give one per "
            f"class, in this order: {listing(names)}"
        )
    return torch.tensor(weights, dtype=torch.float32)
