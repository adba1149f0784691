"""Case C11: which parameter learns how fast and decays, whatever wraps the net."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.training.optim import Optim, decay_line, kind_of, parameter_groups

OPTIM = Optim(name="adamw", lr=1.0, weight_decay=0.05, layer_decay=0.5)


@pytest.fixture
def one_process():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def net() -> nn.Module:
    return build(NetConfig("mu/8", depth=2, registers=2), 32, 5)


def facts(net: nn.Module) -> dict[str, tuple[float, float]]:
    """Learning rate and decay by parameter name; each name is in exactly one group."""
    groups = parameter_groups(net, OPTIM)
    names = [name for group in groups for name in group["parameter_names"]]
    assert sorted(names) == sorted(name for name, parameter in net.named_parameters() if parameter.requires_grad)
    held = {id(parameter): name for name, parameter in net.named_parameters()}
    for group in groups:
        assert [held[id(parameter)] for parameter in group["params"]] == group["parameter_names"]
    return {name: (group["lr"], group["weight_decay"]) for group in groups for name in group["parameter_names"]}


def test_tokens_positions_and_vectors_do_not_decay():
    spared = {name for name, (_, decay) in facts(net()).items() if decay == 0}
    vectors = {name for name, parameter in net().named_parameters() if parameter.ndim <= 1}
    assert spared == vectors | {"class_token", "registers", "position.table"}


def test_every_layer_learns_half_as_fast_as_the_one_above():
    lrs = {name: lr for name, (lr, _) in facts(net()).items()}
    inside = ("attention.qkv.weight", "norm1.bias", "mlp.up.weight")
    layers = [
        {lrs[name] for name in ("class_token", "registers", "position.table", "patches.proj.weight")},
        *({lrs[f"blocks.{block}.{name}"] for name in inside} for block in range(2)),
        {lrs[name] for name in ("norm.weight", "head.weight", "head.bias")},
    ]
    assert [len(layer) for layer in layers] == [1, 1, 1, 1]
    rates = [layer.pop() for layer in layers]
    assert rates[-1] == 1.0 and all(below == above * 0.5 for below, above in pairwise(rates))


def test_any_scheduler_keeps_the_ratio_of_the_layers():
    """At a quarter of the peak, each of four layers learns half as fast as the one above."""
    optimizer = OPTIM.build(net())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 4)

    def rates() -> list[float]:
        return sorted({group["lr"] for group in optimizer.param_groups})

    assert rates() == [1 / 32, 1 / 16, 1 / 8, 1 / 4]
    optimizer.step()
    scheduler.step()
    assert rates() == [1 / 16, 1 / 8, 1 / 4, 1 / 2]
    assert sorted({*scheduler.base_lrs}) == [1 / 8, 1 / 4, 1 / 2, 1]


def test_frozen_parameters_are_left_out():
    frozen = net()
    frozen.blocks[0].requires_grad_(False)
    assert not any(name.startswith("blocks.0.") for name in facts(frozen))


def test_wrapping_changes_nothing(one_process):
    compiled, sharded = net(), net()
    compiled.compile(backend="eager")
    mesh = init_device_mesh("cpu", (1,))
    for block in sharded.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    assert facts(compiled) == facts(sharded) == facts(net())


def test_muon_refuses_shards(one_process):
    sharded, mesh = net(), init_device_mesh("cpu", (1,))
    fully_shard(sharded, mesh=mesh)
    with pytest.raises(InputError, match="muon needs whole matrices"):
        Optim(name="muon").build(sharded)


KINDS = build(NetConfig("mu/8", registers=2, layer_scale=0.1), image_size=16, num_classes=3)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("patches.proj.weight", "kernels"),
        ("blocks.0.mlp.up.weight", "kernels"),
        ("blocks.0.mlp.up.bias", "biases"),
        ("blocks.0.norm1.weight", "norms"),
        ("norm.bias", "biases"),
        ("blocks.0.scale1", "layer scales"),
        ("class_token", "tokens"),
        ("registers", "tokens"),
        ("position.table", "positions"),
    ],
)
def test_kinds(name, kind):
    assert kind_of(name, dict(KINDS.named_parameters())[name]) == kind


def test_the_decay_groups_add_up():
    text = decay_line(Optim(name="adamw", weight_decay=0.1, layer_decay=0.5).build(KINDS))
    kernels = [parameter for parameter in KINDS.parameters() if parameter.ndim == 2]
    others = [parameter for parameter in KINDS.parameters() if parameter.ndim != 2]
    count = [(len(some), sum(parameter.numel() for parameter in some)) for some in (kernels, others)]
    assert text == (
        f"0.1 on kernels ({count[0][0]} tensors, {count[0][1]:,} parameters); 0 on biases, layer scales, norms, "
        f"positions, tokens ({count[1][0]} tensors, {count[1][1]:,} parameters)"
    )
    everything = sum(parameter.numel() for parameter in KINDS.parameters())
    assert f"{everything:,} parameters)" in decay_line(Optim(weight_decay=0.3).build(KINDS))
    assert decay_line(torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1)) is None
