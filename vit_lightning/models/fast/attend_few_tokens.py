"""Attention of few tokens: a program holds all logits of a head, so that each pass touches every tensor once."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from vit_lightning.models.fast.rowwise_kernels import add_up

FEW = 64
"""Tokens up to which a program has room for its logits."""


def attend(packed: Tensor, heads: int) -> Tensor:
    """Return softmax(q k^T / sqrt(k)) v, `b n (h k)`, of queries, keys and values `b n (three h k)`."""
    batch, tokens, width = packed.shape
    out = packed.new_empty(batch, tokens, width // 3)
    _attend[batch * heads,](packed, out, tokens, heads, **_shape(width, tokens, heads))
    return out


def attend_backward(grad: Tensor, packed: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Return the gradient of `packed`, `b n (three h k)`, and its sum over batch and tokens."""
    batch, tokens, width = packed.shape
    out = torch.empty_like(packed)
    sums = torch.empty(batch, width, dtype=torch.float32, device=packed.device)
    _backward[batch * heads,](grad, packed, out, sums, tokens, heads, **_shape(width, tokens, heads))
    return out, add_up(sums)


def _shape(width: int, tokens: int, heads: int) -> dict[str, int | float]:
    head = width // 3 // heads
    rooms = {"ROOM": max(16, triton.next_power_of_2(tokens)), "ROOM_K": triton.next_power_of_2(head)}
    return {"SCALE": head**-0.5, "K": head, **rooms}


@triton.jit
def head_mask(row, tokens, feature, K: tl.constexpr, ROOM_K: tl.constexpr):
    """Where rows are tokens and columns the K features of a head, which have the room of the next power of two."""
    inside = (row < tokens)[:, None]
    if K != ROOM_K:
        inside = inside & (feature < K)[None, :]
    return inside


@triton.jit
def _read(Packed, tokens, heads, K: tl.constexpr, ROOM: tl.constexpr, ROOM_K: tl.constexpr):
    """Where a head's queries lie, which of its rows are tokens, and its queries, keys and values."""
    image, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    width, row, feature = heads * K, tl.arange(0, ROOM), tl.arange(0, ROOM_K)
    inside = head_mask(row, tokens, feature, K, ROOM_K)
    place = (image * tokens + row[:, None]) * (3 * width) + head * K + feature[None, :]
    q = tl.load(Packed + place, mask=inside, other=0.0)
    k = tl.load(Packed + width + place, mask=inside, other=0.0)
    v = tl.load(Packed + 2 * width + place, mask=inside, other=0.0)
    return place, inside, q, k, v


@triton.jit
def _weights(q, k, tokens, SCALE: tl.constexpr, ROOM: tl.constexpr):
    """Attention of every query (rows) to every key; none to what is no token."""
    log2e: tl.constexpr = 1.4426950408889634
    logits = tl.dot(q, tl.trans(k)) * (SCALE * log2e)
    logits = tl.where((tl.arange(0, ROOM) < tokens)[None, :], logits, float("-inf"))
    powers = tl.exp2(logits - tl.max(logits, 1)[:, None])
    return powers / tl.sum(powers, 1)[:, None]


@triton.jit
def _attend(Packed, Out, tokens, heads, SCALE: tl.constexpr, K: tl.constexpr, ROOM: tl.constexpr, ROOM_K: tl.constexpr):
    _, inside, q, k, v = _read(Packed, tokens, heads, K, ROOM, ROOM_K)
    mixed = tl.dot(_weights(q, k, tokens, SCALE, ROOM).to(v.dtype), v)
    tl.store(Out + _place(tokens, heads, K, ROOM, ROOM_K), mixed.to(v.dtype), mask=inside)


@triton.jit
def _place(tokens, heads, K: tl.constexpr, ROOM: tl.constexpr, ROOM_K: tl.constexpr):
    """Where a head lies among mixed values, `b n (h k)`."""
    image, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    row = image * tokens + tl.arange(0, ROOM)
    return row[:, None] * (heads * K) + head * K + tl.arange(0, ROOM_K)[None, :]


@triton.jit
def _backward(
    Grad,
    Packed,
    Out,
    Sums,
    tokens,
    heads,
    SCALE: tl.constexpr,
    K: tl.constexpr,
    ROOM: tl.constexpr,
    ROOM_K: tl.constexpr,
):
    place, inside, q, k, v = _read(Packed, tokens, heads, K, ROOM, ROOM_K)
    grad = tl.load(Grad + _place(tokens, heads, K, ROOM, ROOM_K), mask=inside, other=0.0)
    weights = _weights(q, k, tokens, SCALE, ROOM)
    for_v = tl.dot(tl.trans(weights).to(v.dtype), grad)
    slope = weights * tl.dot(grad, tl.trans(v))
    slope = ((slope - weights * tl.sum(slope, 1)[:, None]) * SCALE).to(v.dtype)
    for_q, for_k = tl.dot(slope, k), tl.dot(tl.trans(slope), q)
    width = heads * K
    tl.store(Out + place, for_q.to(v.dtype), mask=inside)
    tl.store(Out + width + place, for_k.to(v.dtype), mask=inside)
    tl.store(Out + 2 * width + place, for_v.to(v.dtype), mask=inside)
    feature = tl.arange(0, ROOM_K)
    sums = Sums + tl.program_id(0) // heads * 3 * width + tl.program_id(0) % heads * K + feature
    tl.store(sums, tl.sum(for_q, 0), mask=feature < K)
    tl.store(sums + width, tl.sum(for_k, 0), mask=feature < K)
    tl.store(sums + 2 * width, tl.sum(for_v, 0), mask=feature < K)
