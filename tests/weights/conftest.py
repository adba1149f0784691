"""Random nets and the comparison that all tests of weights share."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn


def _randomise(net: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.05)
            assert parameter.count_nonzero() == parameter.numel()
    return net.eval()


@pytest.fixture
def randomise() -> Callable[..., nn.Module]:
    """Moves every parameter of a net to a random value that is not zero, heads and biases included."""
    return _randomise


def _difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max() / b.abs().max())


@pytest.fixture
def difference() -> Callable[[Tensor, Tensor], float]:
    """Largest difference relative to the largest value of the second."""
    return _difference
