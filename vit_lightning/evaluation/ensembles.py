"""Several answers to one image as one: the mean of their probabilities."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def mean_logits(answers: Sequence[Tensor], are_independent: bool) -> Tensor:
    """Return logits `(b, classes)` whose probabilities are the means of those of several logits.

    Args:
        answers: Logits `(b, classes)` of each net, or of each view of the images.
        are_independent: Whether probabilities are independent (sigmoid), or sum to 1 (softmax).
    """
    every = torch.stack(list(answers)).float()
    if are_independent:
        return F.logsigmoid(every).logsumexp(0) - F.logsigmoid(-every).logsumexp(0)
    return every.log_softmax(-1).logsumexp(0) - math.log(len(answers))
