"""Blocks whose products are taken in fp8, in Triton's interpreter where there is no GPU."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.interpreted import interpret
from tests.models.fast.test_fused import attend_on_cpu, of
from vit_lightning.models import NetConfig, build
from vit_lightning.models.fast.fp8_scales import HEADROOM, HISTORY, LAYERS, TENSORS, TYPES, Fp8Scales

SIZE = {"variant": "S/8", "width": 48, "depth": 4, "heads": 3, "mlp": 80, "pool": "gap"}
VARIANTS = {
    "plain": {},
    "exact gelu, LayerScale, stochastic depth": {"gelu": "exact", "layer_scale": 0.5, "stochastic_depth": 0.3},
}
STEP = {"input": 2**-3, "weight": 2**-3, "gradient": 2**-2}
"""Distance of neighbouring numbers of a type, as a share of them; rounding errs by at most half of it."""


def interpreted() -> None:
    """Let the kernels write fp32, and the CPU mix values."""
    from vit_lightning.models.fast import fp8, fp8_kernels, fused

    fp8_kernels.stored_as = lambda dtype: torch.float32
    fused.attend = fp8.attend = attend_on_cpu


def scaled(values: Tensor, factor: float, tensor: str) -> Tensor:
    """What fp8 makes of values, in double precision."""
    most = torch.finfo(TYPES[tensor]).max
    return (values.double() * factor).clamp(-most, most).to(TYPES[tensor]).double() / factor


def check(matrix, expected: Tensor, factor: float, tensor: str) -> None:
    """A quantised matrix is what it should be, in both orders, but for neighbours that fp32 and fp64 round apart."""
    rows, columns, inverse = matrix
    assert rows.dtype == columns.dtype == TYPES[tensor] and rows.is_contiguous() and columns.is_contiguous()
    assert inverse.item() == pytest.approx(1 / factor, rel=1e-6)
    count = len(expected)
    assert columns.shape == (expected.shape[1], -(-count // 16) * 16)
    torch.testing.assert_close(columns[:, :count].t().float(), rows.float(), rtol=0, atol=0, equal_nan=True)
    assert not columns[:, count:].float().any()
    ours, wanted = rows.double().cpu() * inverse.double().cpu(), scaled(expected.cpu(), factor, tensor)
    differing = (ours - wanted).abs() > 1e-5 * wanted.abs() + 1e-12
    assert differing.double().mean() < 0.02, differing.nonzero()[:9].tolist()
    assert ((ours - wanted).abs() <= STEP[tensor] * wanted.abs() * 1.01 + 1 / factor).all()


def check_kernels(device: str) -> None:
    """Each kernel against double precision: without a factor yet, with one that cuts, and what is no number."""
    from vit_lightning.models.fast import fp8_kernels

    torch.manual_seed(0)
    for rows, width in ((70, 80), (64, 64), (5, 48)):
        values = torch.randn(rows, width, device=device).bfloat16() * 3
        grad, bias = torch.randn_like(values) * 1e-6, torch.randn(width, device=device)
        for tensor in TENSORS:
            for largest in (None, float(values.float().abs().max()) / 20):
                scales = Fp8Scales(2).to(device)
                site = scales.of_block(1).site("up", tensor)
                room = torch.finfo(TYPES[tensor]).max / HEADROOM[tensor]
                if largest:
                    scales.scale[site.place] = room / largest
                source = values.float() if tensor == "weight" else values
                matrix = fp8_kernels.quantise(source, site)
                top = values.float().abs().max().item()
                check(matrix, values.double(), room / (largest or top), tensor)
                assert scales.amax[site.place] == top and (scales.amax != 0).sum() == 1
                assert scales.first[site.place] == (0 if largest else top)
        for exact in (False, True):
            hidden = (values.double() + bias.double()).requires_grad_()
            active = nn.functional.gelu(hidden, approximate="none" if exact else "tanh")
            active.backward(grad.double())
            scales = Fp8Scales(1).to(device)
            site = scales.of_block(0).site("down", "input")
            matrix = fp8_kernels.gelu(values, bias, exact, site)
            check(matrix, active.detach(), 224 / values.float().abs().max().item(), "input")
            assert scales.amax[site.place].item() == pytest.approx(active.abs().max().item(), rel=1e-3)
            site = scales.of_block(0).site("up", "gradient")
            matrix, sums = fp8_kernels.gelu_backward(grad, values, bias, exact, site)
            check(matrix, hidden.grad, 7168 / grad.float().abs().max().item(), "gradient")
            assert torch.allclose(sums.double(), hidden.grad.sum(0), rtol=1e-3, atol=1e-9)
    for tensor in TENSORS:
        for odd in (float("nan"), float("inf")):
            values = torch.ones(20, 16, device=device)
            values[3, 2] = odd
            site = Fp8Scales(1).to(device).of_block(0).site("qkv", tensor)
            site.scale[site.place] = 1.0
            rows, columns, _ = fp8_kernels.quantise(values, site)
            for found in (rows.float(), columns.float().t()):
                assert found[3, 2].isnan() and found.isnan().sum() == 1
        zeros = fp8_kernels.quantise(torch.zeros(20, 16, device=device), site)
        assert not zeros.rows.float().any() and zeros.inverse.isfinite()


def outcome(net: nn.Module, patches: Tensor, scales: Fp8Scales | None, dtype: torch.dtype | None) -> list[Tensor]:
    """Encoded tokens and the gradients of all that the blocks are made of."""
    from vit_lightning.models.fast import fused

    net.zero_grad()
    torch.manual_seed(1)
    with torch.autocast(patches.device.type, dtype, enabled=dtype is not None):
        encoded = fused.encode(*of(net, patches), fp8=scales)
    target = torch.linspace(-1, 1, encoded.numel(), device=encoded.device).view_as(encoded)
    (encoded.float() - target).square().mean().backward()
    return [encoded.detach().float(), *(parameter.grad.clone() for parameter in net.blocks.parameters())]


def compare(device: str, size: dict, dtype: torch.dtype | None) -> None:
    """Two passes, the second with factors from the first, against the same net in half precision or fp32."""
    for fields in VARIANTS.values():
        torch.manual_seed(0)
        net = build(NetConfig(**size | fields), 24, 7).to(device).train()
        for parameter in net.parameters():
            parameter.data += 0.02 * torch.randn_like(parameter)
        tokens = torch.randn(4, 9, net.config.width, device=device)
        scales = Fp8Scales(len(net.blocks) - 2).to(device)
        expected = outcome(net, tokens, None, None if device == "cpu" else dtype)
        for _ in range(2):
            found = outcome(net, tokens, scales, dtype)
            for ours, plain in zip(found, expected, strict=True):  # a value of e5m2 alone errs by up to 0.125
                error, norm = (ours - plain).norm(), plain.norm()
                assert error <= 0.15 * norm, (ours.shape, error.item(), norm.item())
            (encoded, *ours), (plain_encoded, *plain) = found, expected
            assert (encoded - plain_encoded).norm() < 0.06 * plain_encoded.norm()
            joined, plain_joined = (torch.cat([each.flatten() for each in gradients]) for gradients in (ours, plain))
            assert (joined - plain_joined).norm() < 0.1 * plain_joined.norm()
            assert nn.functional.cosine_similarity(joined, plain_joined, dim=0) > 0.99
        assert (scales.amax > 0).all() and (scales.scale > 0).all() and not scales.first.any()


def compare_recomputed(device: str, dtype: torch.dtype | None) -> None:
    """Blocks that compute their activations again give the same gradients and the same factors, to the last bit."""
    from vit_lightning.models.recompute import recompute

    results = []
    for again in (False, True):
        torch.manual_seed(0)
        net = build(NetConfig(**SIZE), 24, 7).to(device).train()
        if again:
            recompute(net)
        scales = Fp8Scales(2).to(device)
        tokens = torch.randn(4, 9, SIZE["width"], device=device)
        results.append([*(outcome(net, tokens, scales, dtype) for _ in range(2)), list(scales.state().values())])
    for plain, recomputed in zip(*results, strict=True):
        assert all(torch.equal(*pair) for pair in zip(plain, recomputed, strict=True))


def test_kernels_round_as_double_precision_does_in_the_interpreter() -> None:
    interpret("from tests.models.fast.test_fp8 import *; interpreted(); check_kernels('cpu')")


def test_a_net_with_fp8_products_learns_as_one_without_in_the_interpreter() -> None:
    interpret("from tests.models.fast.test_fp8 import *; interpreted(); compare('cpu', SIZE, None)")


def test_recomputed_blocks_change_nothing_in_the_interpreter() -> None:
    interpret("from tests.models.fast.test_fp8 import *; interpreted(); compare_recomputed('cpu', None)")


def test_factors_follow_the_largest_values_of_the_last_passes() -> None:
    rng, scales = np.random.default_rng(0), Fp8Scales(3)
    sites = 3 * len(LAYERS) * len(TENSORS)
    room = np.tile([448 / 2, 448 / 2, 57344 / 8], 3 * len(LAYERS))
    seen: list[np.ndarray] = []
    for step in range(2 * HISTORY + 5):
        amax = rng.lognormal(-3, 4, sites).astype(np.float32)
        amax[rng.random(sites) < 0.3] = 0
        amax[:7] = 0 if step < 4 else amax[:7]
        amax[rng.integers(sites)] = np.inf if step % 2 else np.nan
        scales.amax.copy_(torch.from_numpy(amax))
        scales.first.fill_(1)
        scales.advance()
        seen.append(np.where(np.isfinite(amax), amax, 0))
        largest = np.max(seen[-HISTORY:], axis=0)
        with np.errstate(divide="ignore"):
            expected = np.where(largest > 0, room / largest, 0)
        np.testing.assert_allclose(scales.scale.numpy(), expected, rtol=1e-6)
        assert not scales.amax.any() and not scales.first.any()


def test_each_tensor_has_a_place_of_its_own() -> None:
    scales = Fp8Scales(4)
    places = [
        scales.of_block(block).site(layer, tensor).place for block in range(4) for layer in LAYERS for tensor in TENSORS
    ]
    assert places == list(range(len(scales.scale)))
    assert not scales.state_dict()


def test_restored_factors_go_on_as_if_nothing_had_happened() -> None:
    torch.manual_seed(0)
    one, other = Fp8Scales(2), Fp8Scales(2)
    for _ in range(3):
        one.amax.copy_(torch.rand(24))
        one.advance()
    one.amax.copy_(torch.rand(24))
    other.restore(one.state())
    for scales in (one, other):
        scales.advance()
    assert all(torch.equal(*pair) for pair in zip(one.buffers(), other.buffers(), strict=True))


@pytest.mark.gpu
def test_kernels_round_as_double_precision_does_on_a_gpu() -> None:
    check_kernels("cuda")


LARGER = SIZE | {"width": 256, "heads": 4, "mlp": 512}


@pytest.mark.gpu
def test_a_net_with_fp8_products_learns_as_one_without_on_a_gpu() -> None:
    compare("cuda", LARGER, torch.bfloat16)


@pytest.mark.gpu
def test_recomputed_blocks_change_nothing_on_a_gpu() -> None:
    compare_recomputed("cuda", torch.bfloat16)


@pytest.mark.gpu
def test_outliers_make_no_nan_and_nan_is_not_hidden() -> None:
    net = build(NetConfig(**LARGER), 24, 7).cuda().train()
    scales, tokens = Fp8Scales(2).cuda(), torch.randn(4, 9, 256, device="cuda")
    outcome(net, tokens, scales, torch.bfloat16)
    with torch.no_grad():
        net.blocks[1].attention.out.weight[0, 0] = 3e4
        net.blocks[1].norm2.weight[5] = 1e4
    assert all(each.isfinite().all() for each in outcome(net, tokens, scales, torch.bfloat16))
    tokens[0, 0, 0] = float("nan")
    assert outcome(net, tokens, scales, torch.bfloat16)[0].isnan().any()
    tokens[0, 0, 0] = 0
    outcome(net, tokens, scales, torch.bfloat16)
    assert all(each.isfinite().all() for each in outcome(net, tokens, scales, torch.bfloat16))


@pytest.mark.gpu
def test_a_graph_takes_the_same_steps() -> None:
    from vit_lightning.training.cuda_graph import GraphedLoss

    images = torch.randn(4, 3, 24, 24, device="cuda")
    results = []
    for graphed in (False, True):
        torch.manual_seed(0)
        net = build(NetConfig(**LARGER), 24, 7).cuda().train()
        net.head.weight.data.normal_(std=0.02)
        net.fp8 = Fp8Scales(2).cuda()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)

        def loss(images: Tensor, net: nn.Module = net) -> Tensor:
            return net(images).float().square().mean()

        compute = GraphedLoss(net, loss) if graphed else loss
        losses = []
        for _ in range(5):
            with torch.autocast("cuda", torch.bfloat16):
                value = compute(images)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            losses.append(value.detach())
        results.append((torch.stack(losses), net.fp8.history, net.fp8.amax))
    for plain, ours in zip(*results, strict=True):
        torch.testing.assert_close(plain, ours, rtol=2e-2, atol=1e-8)
        assert plain.any()
