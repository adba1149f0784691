"""What one forward pass of a net shows."""

import pytest
import torch
from torch import nn

from vit_lightning.errors import InputError
from vit_lightning.inspection.observation import Several, checked, observe
from vit_lightning.models import NetConfig, build

IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return build(NetConfig("mu/8"), 16, 3).eval()


def test_norms_are_those_of_patches_behind_each_block(net):
    tokens = []
    handles = [block.register_forward_hook(lambda _, __, out: tokens.append(out)) for block in net.blocks]
    taken: list[torch.Tensor] = []
    seen = observe(net, IMAGES, taken)
    for handle in handles:
        handle.remove()
    expected = torch.stack([out[:, 1:].norm(dim=-1) for out in tokens])
    torch.testing.assert_close(seen.norms, expected)
    torch.testing.assert_close(seen.logits, net(IMAGES))
    torch.testing.assert_close(seen.features, net.features(IMAGES))
    torch.testing.assert_close(seen.tokens, net.tokens(IMAGES))
    assert len(taken) == len(net.blocks)
    assert not any(block._forward_hooks for block in net.blocks)


def test_hooks_are_removed_after_a_failure_too(net):
    with pytest.raises(InputError):
        observe(net, torch.zeros(1, 5, 16, 16))
    assert not any(block._forward_hooks for block in net.blocks)


def test_a_net_without_classes_has_no_logits():
    assert observe(build(NetConfig("mu/8"), 16, 0).eval(), IMAGES).logits is None


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_taker_gets_every_layer_in_single_precision_at_least(kind):
    one, other = [], []
    Several(one, other).append(torch.ones(1, dtype=kind))
    assert one == other and one[0].dtype == (torch.float64 if kind == torch.float64 else torch.float32)


def test_a_net_without_attention_is_named(net):
    assert checked(net) is net
    with pytest.raises(InputError, match="Linear has no attention to look at"):
        checked(nn.Linear(2, 2))
