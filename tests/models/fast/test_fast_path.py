"""Which nets take the fast path."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.models.config import NetConfig
from vit_lightning.models.config_rules import resolve
from vit_lightning.models.fast import fast_path


@pytest.mark.parametrize("variant", ["Ti/16", "S/16", "B/16", "L/16", "H/14", "g/14", "G/14"])
def test_every_vit_of_the_papers_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    monkeypatch.setattr(fast_path, "half_on_gpu", lambda tokens: torch.bfloat16)
    assert fast_path.fusible(resolve(NetConfig(variant)), torch.zeros(1))


def test_heads_without_room_in_a_program_take_the_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "half_on_gpu", lambda tokens: torch.bfloat16)
    for heads in (1, 2, 64):  # 768, 384 and 12 features
        assert not fast_path.fusible(resolve(NetConfig("B/16", heads=heads)), torch.zeros(1))


@pytest.mark.parametrize(
    ("fields", "fuses"),
    [
        ({}, True),
        ({"pool": "gap", "position": "none", "registers": 2, "dropout": 0.1, "layer_scale": 0.1}, True),
        ({"attention": "axial", "pool": "gap"}, False),
        ({"position": "relative"}, False),
        ({"position_at": "every_layer"}, False),
        ({"position_at": "every_layer_shared"}, False),
        ({"swiglu": True}, False),
        ({"width": 256, "heads": 2}, True),
        ({"width": 272, "heads": 2}, False),
        ({"width": 32, "heads": 2}, True),
        ({"width": 24, "heads": 2}, False),
        ({"width": 40, "heads": 2}, False),
        ({"width": 48, "heads": 2}, True),
    ],
)
def test_nets_with_a_rarer_part_take_the_plain_path(fields, fuses):
    assert fast_path.fusible_net(resolve(NetConfig("Ti/16", **fields))) is fuses


@pytest.mark.parametrize(
    ("own", "autocast", "taken"),
    [
        (torch.bfloat16, None, torch.bfloat16),
        (torch.float16, None, torch.float16),
        (torch.float32, None, None),
        (torch.float32, torch.bfloat16, torch.bfloat16),
        (torch.float32, torch.float16, torch.float16),
        (torch.bfloat16, torch.float32, None),
    ],
)
def test_what_consumers_compute_in_decides(monkeypatch, own, autocast, taken):
    tensor = SimpleNamespace(is_cuda=True, dtype=own)
    monkeypatch.setattr(fast_path, "_has_triton", lambda: True)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: autocast is not None)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: autocast)
    assert fast_path.half_on_gpu(tensor) is taken
    assert fast_path.half_on_gpu(SimpleNamespace(is_cuda=False, dtype=own)) is None
    for where, name, value in ((torch.compiler, "is_compiling", True), (fast_path, "_has_triton", False)):
        with monkeypatch.context() as changed:
            changed.setattr(where, name, lambda value=value: value)
            assert fast_path.half_on_gpu(tensor) is None
