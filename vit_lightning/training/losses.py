"""Cross-entropy by softmax or sigmoid, of labels that are smoothed once."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Kind = Literal["softmax", "sigmoid"]


def cross_entropy(kind: Kind, logits: Tensor, labels: Tensor, smoothing: float, reduction: str) -> Tensor:
    """Return the loss over a batch, or of each image.

    Sigmoid cross-entropy is summed over classes (big_vision's sigmoid_xent). Padding records count nothing.

    Args:
        kind: What makes probabilities of the logits.
        logits: `(b, classes)`.
        labels: Class indices `(b,)`, which are smoothed here, or finished targets `(b, classes)`.
        smoothing: Share of the target spread over all classes, or with sigmoid its distance from 1 and 0.
        reduction: mean, or none.
    """
    logits = logits.float()
    if kind == "softmax":
        smoothing = smoothing if labels.ndim == 1 else 0.0
        return F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction=reduction)
    if labels.ndim == 1:
        classes = torch.arange(logits.shape[-1], device=labels.device)
        labels = torch.where(labels[:, None] == classes, 1 - smoothing, smoothing)
    # Not binary_cross_entropy_with_logits: its log(1 + exp(-10)) in fp32 is off by 1 %, times 21,843 classes.
    losses = (F.softplus(logits) - labels * logits).sum(-1)
    return losses.mean() if reduction == "mean" else losses


def smoothed(kind: Kind, targets: Tensor, smoothing: float) -> Tensor:
    """Return smoothed targets of one-hot ones `(b, classes)`."""
    if not smoothing:
        return targets
    if kind == "softmax":
        return targets * (1 - smoothing) + smoothing / targets.shape[-1]
    return targets * (1 - 2 * smoothing) + smoothing
