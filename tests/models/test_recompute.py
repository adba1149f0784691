"""Activation checkpointing changes what is kept, not what is computed."""

import copy

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.models.recompute import recompute

VIT = NetConfig("mu/8", depth=3, dropout=0.3, stochastic_depth=0.3, layer_scale=0.1)
NETS = {
    "vit": (VIT, 16),
    "shared": (NetConfig("mu/8", depth=2, position_at="every_layer_shared", attention="axial", pool="gap"), 16),
    "hybrid": (NetConfig("R+Ti/16", width=32, heads=2, depth=2, mlp=32), 32),
    "resnet": (NetConfig("R50x1", stages=(1, 1, 1, 1)), 32),
}


def nets(config: NetConfig, size: int) -> tuple[torch.nn.Module, torch.nn.Module]:
    torch.manual_seed(0)
    plain = build(resolve(config), size, 3)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    again = copy.deepcopy(plain)
    recompute(again)
    return plain, again


def outcome(net: torch.nn.Module, size: int) -> dict[str, torch.Tensor]:
    """Loss and gradients for fixed images and random numbers."""
    torch.manual_seed(1)
    loss = net(torch.randn(4, 3, size, size)).logsumexp(-1).mean()
    loss.backward()
    return {"loss": loss.detach()} | {name: parameter.grad for name, parameter in net.named_parameters()}


@pytest.mark.parametrize("name", NETS)
def test_losses_gradients_and_keys_are_the_same(name):
    plain, again = nets(*NETS[name])
    assert plain.state_dict().keys() == again.state_dict().keys()
    expected, found = outcome(plain, NETS[name][1]), outcome(again, NETS[name][1])
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, atol=1e-6, rtol=1e-6, msg=key)


def test_less_is_kept():
    """Bytes that the backward pass finds: those of whole blocks against their inputs."""

    def kept(net: torch.nn.Module) -> int:
        storages = {}
        pack = lambda tensor: storages.setdefault(tensor.untyped_storage().data_ptr(), tensor)  # noqa: E731
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = net(torch.randn(8, 3, 16, 16)).sum()
        del loss
        own = {parameter.untyped_storage().data_ptr() for parameter in net.parameters()}
        return sum(tensor.untyped_storage().nbytes() for place, tensor in storages.items() if place not in own)

    plain, again = nets(*NETS["vit"])
    assert kept(again) < kept(plain) / 2


def test_it_compiles_into_one_graph():
    plain, again = nets(NetConfig("mu/8", depth=2), 16)
    again.compile(backend="aot_eager", fullgraph=True)
    expected, found = outcome(plain, 16), outcome(again, 16)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, atol=1e-6, rtol=1e-5, msg=key)


def test_timm_recomputes_by_itself_or_is_refused(monkeypatch):
    pytest.importorskip("timm")
    net = build(NetConfig("timm/mixer_s32_224"), 224, 3)
    recompute(net)
    assert net.body.grad_checkpointing

    def refuses(body: torch.nn.Module) -> None:
        raise AssertionError("gradient checkpointing not supported")

    monkeypatch.setattr(type(net.body), "set_grad_checkpointing", refuses)
    with pytest.raises(InputError, match="timm cannot recompute timm/mixer_s32_224"):
        recompute(net)
