"""The fast path against the plain net, in Triton's interpreter where there is no GPU."""

from itertools import cycle

import pytest
import torch
from einops import rearrange
from torch import Tensor, nn

from tests.interpreted import interpret
from vit_lightning.models import NetConfig, build
from vit_lightning.training.freezing import freeze

VARIANTS = {
    "plain": {},
    "gap": {"pool": "gap"},
    "exact gelu and LayerScale": {"gelu": "exact", "layer_scale": 0.1, "registers": 2},
    "stochastic depth": {"stochastic_depth": 0.5},
    "norm after pool": {"pool": "gap", "norm_after_pool": True},
    "dropout": {"pool": "gap", "dropout": 0.1},
    "dropout with all of them": {"dropout": 0.4, "stochastic_depth": 0.5, "gelu": "exact", "layer_scale": 0.1},
}
TUNED = {
    "low-rank updates": {"freeze_trunk": False, "bias_only": False, "lora": {"rank": 3, "alpha": 6.0}},
    "biases alone": {"freeze_trunk": False, "bias_only": True, "lora": {"rank": 0}},
}
"""Variants of which a part is trained: gradients of the rest are not computed."""
SIZE = {"variant": "S/8", "width": 48, "depth": 2, "heads": 3, "mlp": 80}


def compare(device: str, dtype: torch.dtype) -> None:
    """Train one step on both paths: logits and every gradient agree to the precision of `dtype`."""
    from vit_lightning.models.fast import fused

    if device == "cpu":
        fused.attend = attend_on_cpu
    for name in (*VARIANTS, *TUNED):
        torch.manual_seed(0)
        net = build(NetConfig(**SIZE | VARIANTS.get(name, {})), 72, 7).to(device).train()
        if name in TUNED:
            freeze(net, TUNED[name])
        for parameter in net.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        images = torch.randn(2, 3, 72, 72, device=device)
        results = []
        for fast in (False, True):
            net.zero_grad()
            patches = net.embed(images)
            tokens = net.position(torch.cat([*_prefix(net, len(images)), patches], 1))
            torch.manual_seed(1)
            with torch.autocast(device, dtype, enabled=fast and dtype != torch.float32):
                encoded = fused.encode(*of(net, tokens)) if fast else _plain(net, tokens)
            encoded.float().square().mean().backward()
            results.append([encoded.detach().float(), *(p.grad for p in net.parameters() if p.grad is not None)])
        for ours, plain in zip(*reversed(results), strict=True):
            error = (ours - plain).norm() / plain.norm().clamp(min=1e-6)
            assert error < (1e-4 if dtype == torch.float32 else 3e-2), (name, ours.shape, error)


def compare_sharded() -> None:
    """Blocks that take their weights back after each pass, as FSDP2's do, give what whole ones give."""
    from torch.distributed import destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from vit_lightning.models.fast import fused

    fused.attend = attend_on_cpu
    init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    results = []
    for sharded in (False, True):
        torch.manual_seed(0)
        net = build(NetConfig(**SIZE | {"depth": 3, "pool": "gap"}), 24, 7).train()
        for parameter in net.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        for block in net.blocks if sharded else ():
            fully_shard(block, mesh=init_device_mesh("cpu", (1,)), reshard_after_forward=True)
        tokens = torch.randn(2, 9, SIZE["width"])
        encoded = fused.encode(*of(net, tokens))
        encoded.square().mean().backward()
        gradients = (parameter.grad for parameter in net.blocks.parameters())
        results.append([encoded, *(grad.full_tensor() if sharded else grad for grad in gradients)])
    for whole, ours in zip(*results, strict=True):
        assert torch.allclose(whole, ours, atol=1e-6)
    destroy_process_group()


def of(net: nn.Module, tokens: Tensor) -> tuple[Tensor, nn.ModuleList, nn.Module | None, nn.Dropout]:
    """What the fast path's `encode` takes of a net."""
    return tokens, net.blocks, None if net.config.norm_after_pool else net.norm, net.dropout


def attend_on_cpu(packed: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    queries, keys, values = rearrange(packed, "b n (three h k) -> three b h n k", three=3, h=heads)
    logits = queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5
    return rearrange(logits.softmax(-1) @ values, "b h n k -> b n (h k)"), logits.logsumexp(-1)


def _prefix(net, batch):
    return [token.expand(batch, -1, -1) for token in (net.class_token, net.registers) if token is not None]


class Masked(nn.Module):
    """Multiplies by one given mask after another, in place of dropout."""

    def __init__(self, *masks: Tensor) -> None:
        super().__init__()
        self.masks = cycle(masks)

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * next(self.masks).view_as(tokens)


def masks_of(drop, rows: int, width: int, hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """What a block's kernels make of ones: the masks after the attention, the GELU and the MLP."""
    from vit_lightning.models.fast import rowwise_kernels

    device = drop.seed.device
    zeros, ones = torch.zeros(rows, width, device=device), torch.ones(rows, width, device=device)
    norm = ones[0], zeros[0], 1e-6
    after_out, after_down = (
        rowwise_kernels.add_norm(zeros, ones, zeros[0], None, norm, drop.later(i))[0] for i in (1, 3)
    )
    large = torch.full((rows, hidden), 16.0, device=device)  # where GELU is the identity
    return (
        after_out,
        rowwise_kernels.gelu(large, torch.zeros(hidden, device=device), False, drop.later(2)) / 16,
        after_down,
    )


def _plain(net, tokens):
    """The plain blocks, with the masks that the fast path draws first of all."""
    from vit_lightning.models.fast.rowwise_kernels import DropoutMask

    rate, rows = net.config.dropout, tokens.shape[0] * tokens.shape[1]
    drop = DropoutMask(torch.randint(2**63 - 1, (1,), device=tokens.device), rate) if rate else None
    for i, block in enumerate(net.blocks):
        if drop:
            after_out, *others = masks_of(drop.later(3 * i), rows, net.config.width, net.config.mlp)
            block.attention.dropout, block.mlp.dropout = Masked(after_out), Masked(*others)
        tokens = block(tokens)
    return tokens if net.config.norm_after_pool else net.norm(tokens)


@pytest.mark.gpu
@pytest.mark.parametrize("narrow", [0, SIZE["width"]])
def test_the_fast_path_is_the_plain_net_on_a_gpu(monkeypatch: pytest.MonkeyPatch, narrow: int) -> None:
    from vit_lightning.models.fast import fused

    monkeypatch.setattr(fused, "NARROW", narrow)
    compare("cuda", torch.bfloat16)


def test_the_fast_path_is_the_plain_net_in_the_interpreter() -> None:
    interpret("from tests.models.fast.test_fused import compare; import torch; compare('cpu', torch.float32)")


def test_the_fast_path_holds_no_weights_of_a_sharded_block_in_the_interpreter() -> None:
    interpret("from tests.models.fast.test_fused import compare_sharded; compare_sharded()")
