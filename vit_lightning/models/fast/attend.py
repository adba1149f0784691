"""Attention of the fast path: the library's forward pass, and a backward pass that reads and writes packed heads.

Queries, keys and values come side by side from one product, `b n (three h k)`, and their gradients go back so: no copy
splits or joins them, and the sums over rows that the bias needs are taken on the way.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from einops import rearrange
from torch import Tensor

from vit_lightning.models.fast import attend_few_tokens
from vit_lightning.models.fast.attend_few_tokens import head_mask
from vit_lightning.models.fast.rowwise_kernels import add_up

OWN = 64
"""Tokens that a program owns."""


def attend(packed: Tensor, heads: int) -> tuple[Tensor, Tensor | None]:
    """Return softmax(q k^T / sqrt(k)) v.

    Args:
        packed: queries, keys and values, `b n (three h k)`.
        heads: h.

    Returns:
        The mixed values `b n (h k)`, and the logarithm of the softmax's sum, `b h n`, or None for few tokens.
    """
    if packed.shape[1] <= attend_few_tokens.FEW:
        return attend_few_tokens.attend(packed, heads), None
    queries, keys, values = rearrange(packed, "b n (three h k) -> three b h n k", three=3, h=heads)
    if _has_fast_forward(packed.device) and queries.shape[-1] <= 128:
        # cuDNN's forward pass alone: its backward pass gives NaN for 64 equal tokens (torch 2.11, cuDNN 9.19, H100).
        mixed, lse, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(queries, keys, values, None, True)
        lse = lse.reshape(queries.shape[:3])
    else:
        mixed, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(queries, keys, values)
    return rearrange(mixed, "b h n k -> b n (h k)"), lse


@cache
def _has_fast_forward(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) == (9, 0) and torch.backends.cudnn.is_available()


def attend_backward(
    grad: Tensor, packed: Tensor, mixed: Tensor, lse: Tensor | None, heads: int
) -> tuple[Tensor, Tensor]:
    """Return the gradient of `packed`, `b n (three h k)`, and its sum over batch and tokens."""
    if lse is None:
        return attend_few_tokens.attend_backward(grad, packed, heads)
    batch, tokens, width = grad.shape
    blocks = triton.cdiv(tokens, OWN)
    delta = torch.empty_like(lse)
    grid = blocks, batch * heads
    head = {"K": width // heads, "ROOM_K": triton.next_power_of_2(width // heads)}
    _delta[grid](grad, mixed, delta, tokens, heads, **head, OWN=OWN)
    out = torch.empty_like(packed)
    sums = torch.empty(batch * blocks, 3 * width, dtype=torch.float32, device=grad.device)
    _backward[grid](
        *(packed, grad, lse, delta, out, sums, tokens, heads, (width // heads) ** -0.5),
        **head,
        OWN=OWN,
        **_steps(tokens, head["ROOM_K"]),
        num_warps=4,
    )
    return out, add_up(sums)


def _steps(tokens: int, room: int) -> dict[str, int]:
    """Tokens of a step and steps on their way, as measured at 197, 257 and 577 tokens (SPEED.md)."""
    if room > 64:
        return {"STEP": 32, "num_stages": 3}
    return {"STEP": 32 if tokens <= 288 else 128, "num_stages": 2}


@triton.jit
def _delta(Grad, Mixed, Delta, tokens, heads, K: tl.constexpr, ROOM_K: tl.constexpr, OWN: tl.constexpr):
    """Sum over a head of gradient times output, for each token."""
    head = tl.program_id(1)
    token, feature = tl.program_id(0) * OWN + tl.arange(0, OWN), tl.arange(0, ROOM_K)
    first = (head // heads).to(tl.int64) * tokens * heads * K + head % heads * K
    place = first + token[:, None] * (heads * K) + feature[None, :]
    inside = head_mask(token, tokens, feature, K, ROOM_K)
    grad = tl.load(Grad + place, mask=inside, other=0.0).to(tl.float32)
    mixed = tl.load(Mixed + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(Delta + head.to(tl.int64) * tokens + token, tl.sum(grad * mixed, 1), mask=token < tokens)


@triton.jit
def _backward(
    Packed, Grad, Lse, Delta, Out, Sums, tokens, heads, scale,
    K: tl.constexpr, ROOM_K: tl.constexpr, OWN: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """First the keys and values of the own rows over all queries, then the own queries over all keys."""
    log2e: tl.constexpr = 1.4426950408889634
    block, head = tl.program_id(0), tl.program_id(1)
    image = (head // heads).to(tl.int64)
    width = heads * K
    feature = tl.arange(0, ROOM_K)
    queries = Packed + image * tokens * 3 * width + head % heads * K
    keys, values = queries + width, queries + 2 * width
    grad_out = Grad + image * tokens * width + head % heads * K
    lse, delta = Lse + head.to(tl.int64) * tokens, Delta + head.to(tl.int64) * tokens
    own = block * OWN + tl.arange(0, OWN)
    inside = head_mask(own, tokens, feature, K, ROOM_K)
    place = own[:, None] * (3 * width) + feature[None, :]
    out = Out + image * tokens * 3 * width + head % heads * K
    sums = Sums + (image * tl.num_programs(0) + block) * 3 * width + head % heads * K

    own_k = tl.load(keys + place, mask=inside, other=0.0)
    own_v = tl.load(values + place, mask=inside, other=0.0)
    for_k = tl.zeros((OWN, ROOM_K), tl.float32)
    for_v = tl.zeros((OWN, ROOM_K), tl.float32)
    for start in range(0, tokens, STEP):
        row = start + tl.arange(0, STEP)
        there = row < tokens
        rows = head_mask(row, tokens, feature, K, ROOM_K)
        q = tl.load(queries + row[:, None] * (3 * width) + feature[None, :], mask=rows, other=0.0)
        g = tl.load(grad_out + row[:, None] * width + feature[None, :], mask=rows, other=0.0)
        log_sum = tl.load(lse + row, mask=there, other=float("inf")) * log2e
        p = tl.exp2(tl.dot(own_k, tl.trans(q)) * (scale * log2e) - log_sum[None, :])
        for_v += tl.dot(p.to(g.dtype), g)
        d = p * (tl.dot(own_v, tl.trans(g)) - tl.load(delta + row, mask=there, other=0.0)[None, :])
        for_k += tl.dot(d.to(q.dtype), q)
    for_k = tl.where(inside, for_k * scale, 0.0)
    for_v = tl.where(inside, for_v, 0.0)
    tl.store(out + width + place, for_k.to(own_k.dtype), mask=inside)
    tl.store(out + 2 * width + place, for_v.to(own_k.dtype), mask=inside)
    tl.store(sums + width + feature, tl.sum(for_k, 0), mask=feature < K)
    tl.store(sums + 2 * width + feature, tl.sum(for_v, 0), mask=feature < K)

    own_q = tl.load(queries + place, mask=inside, other=0.0)
    own_g = tl.load(grad_out + own[:, None] * width + feature[None, :], mask=inside, other=0.0)
    own_log_sum = tl.load(lse + own, mask=own < tokens, other=float("inf")) * log2e
    own_delta = tl.load(delta + own, mask=own < tokens, other=0.0)
    for_q = tl.zeros((OWN, ROOM_K), tl.float32)
    for start in range(0, tokens, STEP):
        row = start + tl.arange(0, STEP)
        there = row < tokens
        rows = head_mask(row, tokens, feature, K, ROOM_K)
        k = tl.load(keys + row[:, None] * (3 * width) + feature[None, :], mask=rows, other=0.0)
        v = tl.load(values + row[:, None] * (3 * width) + feature[None, :], mask=rows, other=0.0)
        p = tl.exp2(tl.dot(own_q, tl.trans(k)) * (scale * log2e) - own_log_sum[:, None])
        p = tl.where(there[None, :], p, 0.0)  # beyond the last token it may be infinite, and times k = 0 no number
        d = p * (tl.dot(own_g, tl.trans(v)) - own_delta[:, None])
        for_q += tl.dot(d.to(k.dtype), k)
    tl.store(out + place, (for_q * scale).to(own_q.dtype), mask=inside)
    tl.store(sums + feature, tl.sum(for_q * scale, 0), mask=feature < K)
