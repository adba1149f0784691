"""Tiny nets with random parameters, norms and biases too."""

from collections.abc import Callable

import pytest
import torch

from vit_lightning.models import NetConfig, ViT, build

SMALL = {"variant": "mu/16", "depth": 3, "heads": 2, "width": 32, "mlp": 48, "patch": 8}


@pytest.fixture
def random_net() -> Callable[..., ViT]:
    def make(size: int | tuple[int, int] = 32, classes: int = 3, **fields) -> ViT:
        torch.manual_seed(0)
        net = build(NetConfig(**SMALL | fields), size, classes)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.15)
        return net.eval()

    return make
