"""Cross-entropy against its formula in float64."""

import numpy as np
import pytest
import torch

from vit_lightning.training.losses import cross_entropy, smoothed

LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]])
LABELS = torch.tensor([2, 0])
HOT = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])


def expected(kind: str, targets: torch.Tensor) -> np.ndarray:
    logits, targets = LOGITS.double().numpy(), targets.double().numpy()
    if kind == "softmax":
        return -(targets * (logits - np.log(np.exp(logits).sum(1, keepdims=True)))).sum(1)
    chances = 1 / (1 + np.exp(-logits))
    return -(targets * np.log(chances) + (1 - targets) * np.log(1 - chances)).sum(1)


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_numbers_are_smoothed_once_and_finished_targets_never(kind, smoothing):
    spread = smoothed(kind, HOT, smoothing)
    assert spread.numpy() == pytest.approx(
        HOT.numpy() * (1 - smoothing) + smoothing / 3
        if kind == "softmax"
        else np.where(HOT.numpy() > 0, 1 - smoothing, smoothing)
    )
    for labels, targets in ((LABELS, spread), (spread, spread), (HOT, HOT)):
        each = cross_entropy(kind, LOGITS, labels, smoothing, "none")
        assert each.numpy() == pytest.approx(expected(kind, targets), rel=1e-5)
        whole = cross_entropy(kind, LOGITS, labels, smoothing, "mean")
        assert whole.item() == pytest.approx(expected(kind, targets).mean(), rel=1e-5)


def test_halves_are_counted_in_single_precision():
    assert cross_entropy("sigmoid", LOGITS.bfloat16(), LABELS, 0.0, "mean").dtype == torch.float32
    assert smoothed("softmax", HOT, 0.0) is HOT
