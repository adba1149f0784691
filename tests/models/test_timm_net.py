"""Nets of timm as variants: built, trained, counted and saved like our own."""

import sys

import pytest
import torch

from vit_lightning.compute.cost import macs, parameters
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build, resolve, timm_net

timm = pytest.importorskip("timm")
from timm.optim import param_groups_layer_decay  # noqa: E402

SMALL = {"timm/resnet10t": 32, "timm/mixer_s32_224": 64, "timm/tf_efficientnet_b0": 32, "timm/vit_tiny_patch16_224": 32}


@pytest.mark.parametrize("variant", SMALL)
def test_is_timms_net_with_our_interface(variant):
    net = build(NetConfig(variant), SMALL[variant], 5).eval()
    images = torch.randn(2, 3, *net.image_size)
    with torch.no_grad():
        assert torch.equal(net(images), net.body(images))
        assert torch.allclose(net.head(net.features(images)), net(images), atol=1e-5)
    depths = {name: net.depth_of(name) for name, _ in net.named_parameters()}
    last = depths["body." + next(name for name, p in net.body.named_parameters() if p is net.head.weight)]
    assert min(depths.values()) == 0
    assert last == max(depths.values()) > 1


def test_what_it_costs():
    """Published: 4.1 G and 25,557,032 for ResNet-50 at 224 pixels."""
    assert parameters(NetConfig("timm/resnet50"), 224, 1000) == 25_557_032
    assert round(macs(NetConfig("timm/resnet50"), 224, 1000) / 1e9, 1) == 4.1


def test_settings_reach_timm():
    net = build(NetConfig("timm/resnet10t", channels=1, dropout=0.2, stochastic_depth=0.1, head_bias=-3.0), 32, 4)
    assert net.body.drop_rate == 0.2
    assert max(getattr(module, "drop_prob", 0) for module in net.modules()) == pytest.approx(0.1)  # of the last layer
    assert net.head.bias.eq(-3).all()
    assert build(NetConfig("timm/resnet10t", head_bias=-3.0), 32, 0).num_classes == 0  # no head, and no bias
    assert net(torch.zeros(2, 1, 32, 32)).shape == (2, 4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"variant": "timm/resnet5O"}, r"no net 'resnet5O': did you mean timm/resnet"),
        ({"variant": "timm/resnet10t", "depth": 3}, r"net\.depth=3 means nothing in timm/resnet10t"),
        ({"variant": "timm/vgg11", "stochastic_depth": 0.1}, r"no drop_path_rate: drop net\.stochastic_depth"),
        ({"variant": "timm/pit_ti_224"}, r"does not tell the layers of pit_ti_224"),
        ({"variant": "timm/levit_128s", "head_bias": -10.0}, r"no single last layer to bias: drop net\.head_bias"),
    ],
)
def test_faults(fields, message):
    with pytest.raises(InputError, match=message):
        build(NetConfig(**fields), 32, 4)


@pytest.mark.parametrize(
    ("variant", "size", "own"),
    [
        ("vgg11", 16, "224x224; set image_size 224"),
        ("crossvit_9_240", 64, "240x240; set image_size 240"),
        ("twins_pcpvt_small", (32, 50), "224x224; set image_size 224"),
        ("maxvit_tiny_tf_224", 100, "224x224; set image_size 224"),
    ],
)
def test_a_size_that_a_net_cannot_take_is_refused(variant, size, own):
    y, x = (size, size) if isinstance(size, int) else size
    with pytest.raises(InputError, match=rf"timm/{variant} cannot take images of {y}x{x} pixels \(.+\): .*{own}"):
        build(NetConfig(f"timm/{variant}"), size, 4)


@pytest.mark.parametrize("error", [RuntimeError, AssertionError, ValueError])
def test_a_net_that_fails_at_its_own_size_too_is_not_refused_for_the_size(error):
    """It cannot be tried without storage, and nothing is known of the size."""
    fine: set[tuple[int, int]] = set()

    def make(size: tuple[int, int]) -> torch.nn.Module:
        if size not in fine:
            raise error("no kernel for tensors without storage")
        return torch.nn.Identity()

    config = resolve(NetConfig("timm/resnet10t"))
    timm_net._check_size(config, make, (32, 48), (224, 224))
    fine.add((224, 224))
    with pytest.raises(InputError, match=r"images of 32x48 pixels \(no kernel .*\): .* 224x224; set image_size 224,"):
        timm_net._check_size(config, make, (32, 48), (224, 224))
    fine.add((32, 48))
    timm_net._check_size(config, make, (32, 48), (224, 224))


def test_to_try_a_size_draws_no_numbers(monkeypatch):
    torch.manual_seed(0)
    tried = build(NetConfig("timm/vit_tiny_patch16_224"), 32, 4).state_dict()
    monkeypatch.setattr(timm_net, "_check_size", lambda *facts: None)
    torch.manual_seed(0)
    untried = build(NetConfig("timm/vit_tiny_patch16_224"), 32, 4).state_dict()
    assert all(torch.equal(tried[name], untried[name]) for name in untried)


def test_without_timm(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match=r'pip install "vit-lightning\[timm\]"'):
        build(NetConfig("timm/resnet10t"), 32, 4)


def test_tokens_are_refused():
    with pytest.raises(InputError, match="shows no tokens"):
        build(NetConfig("timm/resnet10t"), 32, 4).tokens(torch.zeros(1, 3, 32, 32))


@pytest.mark.parametrize("variant", ["resnet10t", "convnext_atto", "vit_tiny_patch16_224"])
def test_layers_are_those_by_which_timms_own_recipes_decay_the_rate(variant):
    """Each of them learns half as fast as the next."""
    net = build(NetConfig(f"timm/{variant}"), 224, 4)
    groups = param_groups_layer_decay(net.body, layer_decay=0.5)
    theirs = {parameter: group["lr_scale"] for group in groups for parameter in group["params"]}
    ours = {parameter: net.depth_of(name) for name, parameter in net.named_parameters()}
    top = max(ours.values())
    assert {parameter: 0.5 ** (top - depth) for parameter, depth in ours.items()} == theirs
