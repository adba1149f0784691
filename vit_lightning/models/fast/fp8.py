"""The fast path's two sub-layers with their matrix products in fp8; attention itself stays in bf16.

Inputs and weights are e4m3, gradients e5m2, each with one factor (`fp8_scales`). What the backward pass needs of the
inputs is kept in fp8. Gradients of weights are summed and kept in fp32.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from vit_lightning.models.fast import fp8_kernels
from vit_lightning.models.fast.attend import attend, attend_backward
from vit_lightning.models.fast.fp8_kernels import Quantised, quantise
from vit_lightning.models.fast.fp8_scales import BlockScales


class Fp8SelfAttention(Function):
    """Projects tokens to queries, keys and values, mixes the values, and projects them back, without the last bias."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, qkv: Tensor, bias: Tensor, out: Tensor, heads: int, scales: BlockScales
    ) -> Tensor:
        shape, dtype = tokens.shape, tokens.dtype
        rows, qkv8 = _input(tokens, scales, "qkv"), _weight(qkv, scales, "qkv")
        packed = forward(rows, qkv8, dtype, bias.to(dtype)).view(*shape[:2], -1)
        mixed, lse = attend(packed, heads)
        mixed8, out8 = _input(mixed, scales, "out"), _weight(out, scales, "out")
        ctx.save_for_backward(packed, mixed, lse, *_kept(rows, qkv8, mixed8, out8))
        ctx.heads, ctx.scales, ctx.types = heads, scales, (qkv.dtype, bias.dtype, out.dtype)
        return forward(mixed8, out8, dtype).view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        packed, mixed, lse, *kept = ctx.saved_tensors
        rows, qkv, mixed8, out = _pairs(kept)
        qkv_type, bias_type, out_type = ctx.types
        grad8 = _gradient(grad, ctx.scales, "out")
        grad_mixed = for_input(grad8, out, mixed.dtype).view(mixed.shape)
        grad_packed, for_bias = attend_backward(grad_mixed, packed, mixed, lse, ctx.heads)
        packed8 = _gradient(grad_packed, ctx.scales, "qkv")
        return (
            for_input(packed8, qkv, grad.dtype).view(grad.shape),
            for_weight(packed8, rows, qkv_type),
            for_bias.to(bias_type),
            for_weight(grad8, mixed8, out_type),
            None,
            None,
        )


class Fp8MLP(Function):
    """Two dense layers around a GELU, without the last bias."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, up: Tensor, bias: Tensor, down: Tensor, exact: bool, scales: BlockScales
    ) -> Tensor:
        rows, up8, down8 = _input(tokens, scales, "up"), _weight(up, scales, "up"), _weight(down, scales, "down")
        hidden = forward(rows, up8, tokens.dtype)
        active = fp8_kernels.gelu(hidden, bias, exact, scales.site("down", "input"))
        ctx.save_for_backward(hidden, bias, *_kept(rows, up8, active, down8))
        ctx.exact, ctx.scales, ctx.types = exact, scales, (up.dtype, down.dtype)
        return forward(active, down8, tokens.dtype).view(tokens.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, bias, *kept = ctx.saved_tensors
        rows, up, active, down = _pairs(kept)
        grad8 = _gradient(grad, ctx.scales, "down")
        grad_active, site = for_input(grad8, down, hidden.dtype), ctx.scales.site("up", "gradient")
        hidden8, for_bias = fp8_kernels.gelu_backward(grad_active, hidden, bias, ctx.exact, site)
        return (
            for_input(hidden8, up, grad.dtype).view(grad.shape),
            for_weight(hidden8, rows, ctx.types[0]),
            for_bias.to(bias.dtype),
            for_weight(grad8, active, ctx.types[1]),
            None,
            None,
        )


Kept = tuple[Tensor, Tensor]
"""What the backward pass needs of a quantised matrix: its columns and its inverse factor."""


def forward(rows: Quantised, weight: Quantised, dtype: torch.dtype, bias: Tensor | None = None) -> Tensor:
    """Return a dense layer's output."""
    return product(rows.rows, weight.rows, rows.inverse, weight.inverse, dtype, bias)


def for_input(grad: Quantised, weight: Kept, dtype: torch.dtype) -> Tensor:
    """Return the gradient of a dense layer's input, given that of its output."""
    return product(grad.rows, weight[0], grad.inverse, weight[1], dtype)


def for_weight(grad: Quantised, rows: Kept, dtype: torch.dtype) -> Tensor:
    """Return the gradient of a dense layer's weight, given that of its output and its input."""
    return product(grad.columns, rows[0], grad.inverse, rows[1], torch.float32, exact=True).to(dtype)


def product(
    left: Tensor,
    right: Tensor,
    left_inverse: Tensor,
    right_inverse: Tensor,
    dtype: torch.dtype,
    bias: Tensor | None = None,
    exact: bool = False,
) -> Tensor:
    """Return `left @ right.t()`.

    Args:
        left: `m k` in fp8, contiguous.
        right: `n k`, likewise.
        left_inverse: what the elements of `left` are to be multiplied by.
        right_inverse: those of `right`.
        dtype: type of the result.
        bias: `n`, added to every row.
        exact: sum in fp32 throughout, not in the fewer bits of the tensor cores alone.
    """
    return torch._scaled_mm(
        left,
        right.t(),
        scale_a=left_inverse,
        scale_b=right_inverse,
        bias=bias,
        out_dtype=dtype,
        use_fast_accum=not exact,
    )


def _input(tokens: Tensor, scales: BlockScales, layer: str) -> Quantised:
    return quantise(tokens.flatten(0, 1).contiguous(), scales.site(layer, "input"))


def _weight(weight: Tensor, scales: BlockScales, layer: str) -> Quantised:
    return quantise(weight.contiguous(), scales.site(layer, "weight"))


def _gradient(grad: Tensor, scales: BlockScales, layer: str) -> Quantised:
    return quantise(grad.flatten(0, 1).contiguous(), scales.site(layer, "gradient"))


def _kept(*matrices: Quantised) -> list[Tensor]:
    return [tensor for matrix in matrices for tensor in (matrix.columns, matrix.inverse)]


def _pairs(kept: list[Tensor]) -> list[Kept]:
    return list(zip(kept[::2], kept[1::2], strict=True))
