"""A tiny checkpoint for the file verbs, and the comparison of outputs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report
from vit_lightning.weights.save import save

NAMES = ["tench", "teapot, lid on", "Zürich tram"]


@pytest.fixture
def random_checkpoint(tmp_path: Path) -> Path:
    """A checkpoint of a tiny net with random parameters, ImageNet's normalisation and three named classes."""
    torch.manual_seed(0)
    net = build(NetConfig("Ti/16", width=16, depth=2, heads=2, mlp=24, patch=4, gelu="exact"), (8, 12), 3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    report = Report("", "", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), class_names=NAMES)
    save(net, report, tmp_path / "net.ckpt", "checkpoint")
    return tmp_path / "net.ckpt"


@pytest.fixture
def difference() -> Callable[[Tensor, Tensor], float]:
    """Largest difference relative to the largest value of the second."""
    return lambda a, b: float((a - b).abs().max() / b.abs().max())
