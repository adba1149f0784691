"""Which nets take the fast path."""

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
