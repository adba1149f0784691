"""Low-rank updates: a net with them computes what a plain net of the updated kernels computes."""

import math
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.models.lora import PART, Lora, LowRank, add_lora, check_precise

LORA = Lora(rank=3, alpha=7)
LAYERS = ("attention.qkv", "mlp.up", "mlp.down")
VARIANTS = {
    "class token": {},
    "mean of patches": {"pool": "gap"},
    "axial": {"pool": "gap", "attention": "axial"},
    "gated": {"swiglu": True, "layer_scale": 0.1},
    "hybrid": {"stages": (0,), "patch": 1},
}


def updated(net: nn.Module) -> nn.Module:
    """The net with updates that are not zero."""
    add_lora(net, LORA)
    for name, parameter in net.named_parameters():
        if name.endswith(f"{PART}b"):
            nn.init.normal_(parameter, std=0.2)
    return net


def by_hand(plain: nn.Module, net: nn.Module) -> nn.Module:
    """The plain net with kernels W + B A alpha / rank, computed by numpy in float64."""
    state = {name: tensor.detach().double().numpy() for name, tensor in net.state_dict().items()}
    for name in [name for name in state if name.endswith(f"{PART}a")]:
        layer = name.removesuffix(f"{PART}a")
        state[f"{layer}.weight"] += np.einsum("or,ri->oi", state[f"{layer}{PART}b"], state[name]) * 7 / 3
    names = plain.state_dict()
    plain.load_state_dict({name: torch.from_numpy(state[name]).float() for name in names})
    return plain


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS)
def test_logits_are_those_of_the_updated_kernels(tiny, fields):
    plain = tiny((16, 24), **fields)
    net = updated(deepcopy(plain))
    images = torch.randn(3, 3, 16, 24)
    before = plain(images)
    by_hand(plain, net)
    torch.testing.assert_close(net(images), plain(images), atol=1e-5, rtol=1e-5)
    assert (net(images) - before).abs().max() > 1e-2
    for ours, theirs in zip(net.attention(images), plain.attention(images), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_a_net_is_unchanged_before_its_updates_have_learnt(tiny):
    plain = tiny()
    net, images = deepcopy(plain), torch.randn(2, 3, 8, 12)
    add_lora(net, LORA)
    assert torch.equal(net(images), plain(images))
    names = {name for name in net.state_dict() if name not in plain.state_dict()}
    assert names == {f"blocks.{i}.{layer}{PART}{part}" for i in range(2) for layer in LAYERS for part in "ab"}


def test_gradients_are_those_of_the_factors():
    torch.manual_seed(0)
    weight, gradient = torch.randn(6, 4), torch.randn(6, 4)
    update = LowRank(weight, LORA)
    nn.init.normal_(update.b)
    update(weight).backward(gradient)
    a, b = update.a.detach(), update.b.detach()
    torch.testing.assert_close(update.a.grad, 7 / 3 * b.T @ gradient)
    torch.testing.assert_close(update.b.grad, 7 / 3 * gradient @ a.T)


def test_updates_are_added_in_fp32_under_autocast():
    weight = torch.ones(4, 4)
    update = LowRank(weight, Lora(rank=1, alpha=1))
    nn.init.constant_(update.a, 1e-2)
    nn.init.constant_(update.b, 1e-2)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(update(weight), torch.full((4, 4), 1 + 1e-4))  # bf16 has no number between 1 and 1.0078


def test_a_net_with_updates_compiles_to_one_graph(tiny, assert_one_graph):
    net = updated(tiny()).requires_grad_(False)
    assert_one_graph(net, torch.randn(2, 3, 8, 12), torch.randn(5, 3, 8, 12))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rank": -1}, "rank is -1; it must be positive"),
        ({"rank": 4, "alpha": 0.0}, "alpha is 0.0; it must be positive"),
        ({"rank": 4, "alpha": math.inf}, "alpha is inf"),
        ({"rank": 4, "alpha": math.nan}, "alpha is nan"),
        ({"rank": 17}, "rank is 17, but the kernels of this net have at most rank 16"),
    ],
)
def test_impossible_updates_are_refused(tiny, settings, said):
    with pytest.raises(InputError, match=said):
        add_lora(tiny(), Lora(**settings))


def test_nets_without_our_blocks_are_refused():
    with pytest.raises(InputError, match=r"rank 3 is for the blocks of a ViT.*bias_only true.*freeze_trunk true"):
        add_lora(build(NetConfig("R26x1"), 32, 3), LORA)


def test_weights_in_half_precision_are_refused(tiny):
    check_precise(tiny().bfloat16())
    net = updated(tiny())
    check_precise(net)
    with pytest.raises(InputError, match=r"needs weights in fp32.*bf16-mixed or 32-true"):
        check_precise(net.bfloat16())
