"""Dropout on the fast path: its masks, and where they are drawn; what they enter is in test_fused.py."""

import copy
import json
import traceback
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from tests.interpreted import interpret
from tests.models.fast.test_fused import attend_on_cpu, masks_of, of
from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.models.fast import fast_path
from vit_lightning.models.recompute import recompute

SIZE = {"variant": "S/8", "width": 32, "depth": 2, "heads": 2, "mlp": 48}


def make(**fields) -> nn.Module:
    """A net for 16 x 16 pixels whose parameters are all far from zero."""
    torch.manual_seed(0)
    net = build(NetConfig(**SIZE | fields), 16, 3)
    for name, parameter in net.named_parameters():
        nn.init.normal_(parameter, float("norm" in name and "weight" in name), 0.2)
    return net


def drop(seed: int = 0, rate: float = 0.3, use: int = 0):
    from vit_lightning.models.fast.rowwise_kernels import DropoutMask

    return DropoutMask(torch.tensor([seed]), rate, use)


def near(share: float, expected: float, count: int) -> bool:
    """Whether a share of `count` draws is within five standard deviations."""
    return abs(share - expected) < 5 * (expected * (1 - expected) / count) ** 0.5


def check_shares() -> None:
    """As many elements are kept as should be, in every column, and all by the factor that keeps the mean.

    The number kept in a row varies as that of independent draws does.
    """
    for rate in (0.1, 0.75):
        for mask in masks_of(drop(2**62 + 12345, rate), 512, 512, 1000):
            kept = mask > 0
            assert torch.allclose(mask[kept], torch.tensor(1 / (1 - rate)), rtol=1e-3)
            assert near(kept.float().mean().item(), 1 - rate, kept.numel())
            assert all(near(share, 1 - rate, len(kept)) for share in kept.float().mean(0).tolist())
            spread = kept.sum(1).float().var() / (kept.shape[1] * rate * (1 - rate))
            assert abs(spread - 1) < 5 * (2.2 / len(kept)) ** 0.5


def check_differences() -> None:
    """Masks of other seeds, uses, rows and columns agree as often as independent ones."""
    masks = [masks_of(drop(seed, use=use), 64, 256, 256) for seed in (3, 4, 3 + 2**40) for use in (0, 3)]
    kept = [mask > 0 for triple in masks for mask in triple]
    kept = [
        kept[0],
        *(mask for i, mask in enumerate(kept[1:], 1) if i % 3 or i % 6 == 0),
    ]  # after_down is the next's out
    pairs = [(one, other) for i, one in enumerate(kept) for other in kept[:i]]
    pairs += [(kept[0][shift:], kept[0][:-shift]) for shift in (1, 2, 32)]
    pairs += [(kept[0][:, shift:], kept[0][:, :-shift]) for shift in range(1, 9)]
    for one, other in pairs:
        assert near((one == other).float().mean().item(), 0.7**2 + 0.3**2, one.numel())


def check_mean() -> None:
    """The mean over many draws approaches what is added without dropout, bias included."""
    from vit_lightning.models.fast import rowwise_kernels

    rows, width, rate = 4096, 16, 0.3
    tokens, branch, bias, ones = torch.randn(1, width), torch.randn(1, width), torch.randn(width), torch.ones(width)
    many = [tensor.expand(rows, -1).contiguous() for tensor in (tokens, branch)]
    total = rowwise_kernels.add_norm(*many, bias, None, (ones, ones, 1e-6), drop(5, rate))[0]
    deviation = (branch + bias).abs() * (rate / (1 - rate) / rows) ** 0.5
    assert ((total.mean(0) - (tokens + branch + bias)).abs() < 5 * deviation).all()


def check_backward() -> None:
    """The backward kernels, whose tiles are others, find the masks of the forward ones: gradients of ones are masks."""
    from vit_lightning.models.fast import rowwise_kernels

    rows, width, hidden = 70, 1100, 1100  # more than a tile, and no multiple of eight
    after_out, active, _ = masks_of(drop(7), rows, width, hidden)
    zeros, ones, moments = torch.zeros(rows, width), torch.ones(rows, width), torch.ones(2, rows)
    grad, grad_branch, sums = rowwise_kernels.add_norm_backward(
        ones, zeros, zeros, moments, ones[0], None, drop(7, use=1)
    )
    assert torch.equal(grad, ones)
    assert torch.equal(grad_branch, after_out)
    assert torch.allclose(sums[2], after_out.sum(0))
    grad, sums = rowwise_kernels.gelu_backward(ones, 16 * ones, zeros[0], False, drop(7, use=2))
    assert torch.equal(grad, active)
    assert torch.allclose(sums, active.sum(0))
    hidden = torch.randn(rows, width)
    apart, together = (
        rowwise_kernels.gelu_backward(ones, hidden, 2 * ones[0], True),
        rowwise_kernels.gelu_backward(ones, hidden + 2, None, True),
    )
    assert torch.allclose(apart[0], together[0], atol=1e-6) and torch.allclose(apart[1], together[1], atol=1e-4)


def check_extremes() -> None:
    """No rate below 1 gives infinite factors."""
    for rate in (1e-9, 1 - 1e-9):
        assert all(torch.isfinite(mask).all() for mask in masks_of(drop(rate=rate), 8, 16, 16))


def outcome(net: nn.Module, first_token_only: bool = False, seed: int = 1) -> list[Tensor]:
    """The fast path's output and gradients."""
    from vit_lightning.models.fast import fused

    torch.manual_seed(seed)
    tokens = torch.randn(2, 4 + net.num_prefix_tokens, SIZE["width"])
    net.zero_grad()
    encoded = fused.encode(*of(net, tokens), first_token_only)
    encoded.square().sum().backward()
    return [encoded.detach(), *(parameter.grad for parameter in net.parameters() if parameter.grad is not None)]


def check_recomputed() -> None:
    """Recomputed blocks drop what they dropped the first time; other seeds drop otherwise."""
    net = make(dropout=0.3, stochastic_depth=0.3, layer_scale=0.1, depth=3)
    again = copy.deepcopy(net)
    recompute(again)
    for first_token_only in (False, True):
        expected = outcome(net, first_token_only)
        assert all(
            torch.allclose(*pair, atol=1e-6) for pair in zip(expected, outcome(again, first_token_only), strict=True)
        )
        assert not torch.allclose(expected[0], outcome(again, first_token_only, seed=2)[0])


def product_with_gelu(left, right, dtype=None, bias=None, gelu_gradient=None, **aux) -> Tensor:
    """What matmul.product computes on a GPU."""
    out = left @ right if bias is None else left @ right + bias
    if "gelu" in aux:
        return gelu(aux["gelu"].copy_(out), approximate="tanh")
    if gelu_gradient is None:
        return out
    with torch.enable_grad():
        hidden = gelu_gradient.clone().requires_grad_()
        return torch.autograd.grad(gelu(hidden, approximate="tanh"), hidden, out)[0]


def check_off() -> None:
    """Without dropout, and in evaluation, nothing is drawn, GELU stays inside products, and no kernel has a mask."""
    from vit_lightning.models.fast import fused, rowwise_kernels

    without, off = make(dropout=0.0).train(), make(dropout=0.3).eval()
    expected = outcome(without)
    with (
        patch.object(fused, "_own_products", lambda rows: True),
        patch.object(fused.matmul, "product", product_with_gelu),
        patch.object(torch, "randint", wraps=torch.randint) as drawn,
        patch.object(rowwise_kernels, "gelu", wraps=rowwise_kernels.gelu) as outside,
        patch.object(rowwise_kernels, "add_norm", wraps=rowwise_kernels.add_norm) as added,
    ):
        for net in (without, off):
            assert all(torch.allclose(*pair, atol=1e-4) for pair in zip(outcome(net), expected, strict=True))
        assert not drawn.called
        assert not outside.called
        assert all(call.args[-1].seed is None for call in added.call_args_list)
        outcome(off.train())
        assert drawn.call_count == 1
        assert outside.called


def check_last_block() -> None:
    """The class token that the last block computes alone is distributed as among all tokens of the plain net."""
    from vit_lightning.models.fast import fused

    net, count = make(dropout=0.3, stochastic_depth=0.2).train(), 256
    tokens = torch.randn(1, 5, SIZE["width"]).expand(count, -1, -1).contiguous()
    with torch.no_grad():
        ours = fused.encode(*of(net, tokens), first_token_only=True)[:, 0]
        plain = net.norm(net.blocks[1](net.blocks[0](tokens)))[:, 0]
        still = net.eval().norm(net.blocks[1](net.blocks[0](tokens[:1])))[:, 0]
    deviation = ((ours.var(0) + plain.var(0)) / count).sqrt()
    assert ((ours.mean(0) - plain.mean(0)).abs() < 5 * deviation).all()
    assert ((ours.std(0) / plain.std(0)).log().abs() < 0.3).all()
    assert abs((ours.std(0) / plain.std(0)).log().mean()) < 0.1
    assert (ours.std(0) > 0.1).all()
    assert not torch.allclose(ours, still.expand_as(ours), atol=0.1)


def check_total() -> None:
    """A net without a last norm drops what waits in its stream too."""
    from vit_lightning.models.fast.fused import ResidualStream

    zeros, ones = torch.zeros(64, 8, 16), torch.ones(64, 8, 16)
    total = ResidualStream(zeros, ones, zeros[0, 0], None, drop(rate=0.2)).total()
    assert set(total.unique().tolist()) == {0, 1.25}
    assert near((total > 0).float().mean().item(), 0.8, total.numel())


CHECKS = {name: check for name, check in globals().items() if name.startswith("check_")}


def main() -> None:
    """Print what each check raises, as JSON."""
    from vit_lightning.models.fast import fused

    fused.attend = attend_on_cpu
    raised = {}
    for name, check in CHECKS.items():
        try:
            check()
        except Exception:
            raised[name] = traceback.format_exc()
    print(json.dumps(raised))


@pytest.fixture(scope="module")
def raised() -> dict[str, str]:
    return json.loads(interpret("from tests.models.fast.test_fused_dropout import main; main()").splitlines()[-1])


@pytest.mark.parametrize("name", CHECKS)
def test_in_the_interpreter(name, raised):
    assert name not in raised, raised[name]


def test_dropout_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(fast_path, "half_on_gpu", lambda tokens: torch.bfloat16)
    assert fast_path.fusible(resolve(NetConfig("B/16", dropout=0.1)), torch.zeros(1))
    assert not fast_path.fusible(resolve(NetConfig("B/16", dropout=0.1, swiglu=True)), torch.zeros(1))


LARGER = {"width": 64, "depth": 4, "heads": 2, "mlp": 256, "dropout": 0.1, "stochastic_depth": 0.1, "layer_scale": 0.5}


@pytest.mark.gpu
def test_a_whole_net_has_the_statistics_of_the_plain_one(monkeypatch):
    """Logits of one image over many masks, and the mean gradients of a loss of them."""
    from vit_lightning.models.fast import fused

    count, results = 8192, []
    net = make(**LARGER).cuda().train()
    images = torch.randn(1, 3, 16, 16, device="cuda").expand(count, -1, -1, -1).contiguous()
    with patch.object(fused, "encode", wraps=fused.encode) as encode:
        for fast in (True, False):
            if not fast:
                monkeypatch.setattr("vit_lightning.models.vit.fusible", lambda config, tokens: False)
            net.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                logits = net(images).float()
            logits.logsumexp(-1).mean().backward()
            gradients = {name: parameter.grad for name, parameter in net.named_parameters() if parameter.ndim > 1}
            results.append((logits.detach(), gradients))
    assert encode.call_count == 1
    (ours, our_gradients), (plain, gradients) = results
    deviation = ((ours.var(0) + plain.var(0)) / count).sqrt()
    assert ((ours.mean(0) - plain.mean(0)).abs() < 5 * deviation + 0.01 * plain.mean(0).abs()).all()
    assert ((ours.std(0) / plain.std(0)).log().abs() < 0.08).all()
    for name, gradient in gradients.items():
        assert (our_gradients[name] - gradient).norm() < 0.15 * gradient.norm(), name


@pytest.mark.gpu
def test_each_replay_of_a_graph_draws_new_masks():
    from vit_lightning.training.cuda_graph import GraphedLoss

    net = make(**LARGER).cuda().train()
    images = torch.randn(2, 3, 16, 16, device="cuda")

    def loss(images: Tensor) -> Tensor:
        return net(images).float().square().mean()

    graphed = GraphedLoss(net, loss)
    with torch.autocast("cuda", torch.bfloat16):
        graphed(images)
        drawn = []
        for compute in (graphed, graphed, loss):
            torch.cuda.manual_seed(1)
            drawn.append(torch.stack([compute(images).detach() for _ in range(4)]))
    assert len(drawn[0].unique()) == 4
    assert torch.equal(drawn[0], drawn[1])
    assert torch.allclose(drawn[0], drawn[2], rtol=1e-2)
