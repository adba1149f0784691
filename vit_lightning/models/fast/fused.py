"""The block's fast path in half precision on a GPU: the same mathematics with fewer passes over memory.

A sub-layer's output waits, without its bias, until the next norm adds it: one kernel then adds branch and bias to the
residual stream and normalises the sum, and one kernel takes the gradients of all of them back. Matrix products and
attention are the libraries' own. Weights stay in the type of the optimiser; their gradients are summed in it. Dropout
follows every dense layer except the queries, keys and values (paper, appendix B.1), inside the kernels that read those
layers' outputs anyway.
"""

from typing import Any, NamedTuple

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.distributed.fsdp import FSDPModule
from torch.nn import functional as F

from vit_lightning.models.blocks import Block, Norm
from vit_lightning.models.dense import Dense
from vit_lightning.models.fast import matmul, rowwise_kernels
from vit_lightning.models.fast.attend import attend, attend_backward
from vit_lightning.models.fast.fp8 import Fp8MLP, Fp8SelfAttention
from vit_lightning.models.fast.fp8_scales import BlockScales, Fp8Scales
from vit_lightning.models.fast.rowwise_kernels import NO_DROPOUT, DropoutMask

NARROW = 384
"""Width of tokens up to which a product with GELU's slope inside takes longer than the two in turn (SPEED.md)."""


class ResidualStream(NamedTuple):
    """Tokens `b n d` that stand for `tokens + keep * drop(branch + bias)`.

    `fp8` are the factors of the block that they pass next, if its products are to be taken in fp8.
    """

    tokens: Tensor
    branch: Tensor | None = None
    bias: Tensor | None = None
    keep: Tensor | None = None
    drop: DropoutMask = NO_DROPOUT
    fp8: BlockScales | None = None

    def through(self, block: Block, first_token_only: bool = False) -> "Tensor | ResidualStream":
        """Pass a block; with `first_token_only`, return the first token alone, `b 1 d`."""
        attention, mlp, drop = block.attention, block.mlp, self.drop
        tokens, normed = self.normed(block.norm1)
        if first_token_only:
            return block.update(tokens, normed, first_token_only)
        out, bias = _scaled(attention.out, block.scale1)
        layers = attention.qkv.kernel, attention.qkv.bias, out, attention.heads
        if self.fp8 is None:
            branch = FusedSelfAttention.apply(normed, *layers)
        else:
            branch = Fp8SelfAttention.apply(normed, *layers, self.fp8)
        stream = ResidualStream(tokens, branch, bias, block.skip.factor(tokens), drop.later(1))
        tokens, normed = stream.normed(block.norm2)
        down, bias = _scaled(mlp.down, block.scale2)
        if isinstance(block, FSDPModule):  # whose own bias is gone when the next norm adds it
            bias = bias.clone()
        layers = mlp.up.kernel, mlp.up.bias, down, mlp.activation.approximate == "none"
        if self.fp8 is None:
            branch = FusedMLP.apply(normed, *layers, drop.later(2))
        else:
            branch = Fp8MLP.apply(normed, *layers, self.fp8)
        return ResidualStream(tokens, branch, bias, block.skip.factor(tokens), drop.later(3))

    def normed(self, norm: Norm) -> tuple[Tensor, Tensor]:
        """Return the sum, and the sum normalised."""
        waiting = self.branch, self.bias, self.keep, self.drop
        return FusedAddNorm.apply(self.tokens, *waiting, norm.weight, norm.bias, norm.eps)

    def total(self) -> Tensor:
        """Return the sum."""
        if self.branch is None or self.bias is None:
            return self.tokens
        branch = self.branch + self.bias.to(self.branch.dtype)
        branch = F.dropout(branch, self.drop.rate, training=self.drop.rate > 0)
        return self.tokens + (branch if self.keep is None else branch * rearrange(self.keep, "b -> b 1 1"))


def encode(
    tokens: Tensor,
    blocks: nn.ModuleList,
    norm: Norm | None,
    dropout: nn.Dropout,
    first_token_only: bool = False,
    fp8: Fp8Scales | None = None,
) -> Tensor:
    """Return the encoder's output in half precision.

    Args:
        tokens: its input `b n d`.
        blocks: the net's blocks, in order.
        norm: what the output passes last; None: nothing.
        dropout: the net's dropout, whose rate the blocks share.
        first_token_only: return the first token alone, `b 1 d`.
        fp8: factors for products in fp8 of all blocks but the first and the last, which stay in half precision.
    """
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else tokens.dtype
    stream = ResidualStream(tokens.to(dtype), drop=_drop(dropout, tokens.device))
    if fp8 is not None:
        fp8.advance()
    *before, last = blocks
    for i, block in enumerate(before):
        stream = block(stream if fp8 is None or i == 0 else stream._replace(fp8=fp8.of_block(i - 1)))
    stream = last(stream, first_token_only)
    if isinstance(stream, Tensor):
        return stream if norm is None else norm(stream)
    return stream.total() if norm is None else stream.normed(norm)[1]


def _drop(module: nn.Dropout, device: torch.device) -> DropoutMask:
    """The masks of a forward pass: a seed from the device's generator, which a CUDA graph's replay draws anew."""
    if not module.training or not module.p:
        return NO_DROPOUT
    return DropoutMask(torch.randint(2**63 - 1, (1,), device=device), module.p)


def _scaled(dense: Dense, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weight and bias of a layer with LayerScale put into both."""
    return (dense.kernel, dense.bias) if scale is None else (dense.kernel * scale[:, None], dense.bias * scale)


class FusedAddNorm(Function):
    """Adds what waits in the stream to its tokens, and normalises the sum; returns both, `b n d`."""

    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        branch: Tensor | None,
        bias: Tensor | None,
        keep: Tensor | None,
        drop: DropoutMask,
        weight: Tensor,
        shift: Tensor,
        eps: float,
    ) -> tuple[Tensor, Tensor]:
        ctx.drop = NO_DROPOUT if branch is None else drop
        total, normed, *moments = rowwise_kernels.add_norm(
            _rows(tokens), None if branch is None else _rows(branch), bias, keep, (weight, shift, eps), ctx.drop
        )
        ctx.save_for_backward(total, *moments, weight, keep)
        ctx.types = [None if tensor is None else tensor.dtype for tensor in (bias, weight, shift)]
        ctx.set_materialize_grads(False)
        return total.view_as(tokens), normed.view_as(tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor | None, grad_normed: Tensor) -> tuple[Tensor | None, ...]:
        total, mean, rstd, weight, keep = ctx.saved_tensors
        rows = None if grad_total is None else _rows(grad_total)
        grad, grad_branch, (for_weight, for_shift, for_bias) = rowwise_kernels.add_norm_backward(
            rows, _rows(grad_normed), total, (mean, rstd), weight, keep, ctx.drop
        )
        for_bias_type, weight_type, shift_type = ctx.types
        shape = grad_normed.shape
        waiting = for_bias_type is not None
        return (
            grad.view(shape),
            grad_branch.view(shape) if waiting else None,
            for_bias.to(for_bias_type) if waiting else None,
            None,
            None,
            for_weight.to(weight_type),
            for_shift.to(shift_type),
            None,
        )


class FusedSelfAttention(Function):
    """Projects tokens to queries, keys and values, mixes the values, and projects them back, without the last bias."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, qkv: Tensor, bias: Tensor, out: Tensor, heads: int) -> Tensor:
        dtype, rows = tokens.dtype, _rows(tokens)
        weights = qkv.to(dtype), out.to(dtype)
        packed = product(rows, weights[0].t(), bias=bias.to(dtype)).view(*tokens.shape[:2], -1)
        mixed, lse = attend(packed, heads)
        ctx.save_for_backward(rows, packed, mixed, lse, *weights)
        ctx.heads, ctx.types = heads, (qkv.dtype, bias.dtype, out.dtype)
        return product(_rows(mixed), weights[1].t()).view(*tokens.shape[:2], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, packed, mixed, lse, qkv, out = ctx.saved_tensors
        qkv_type, bias_type, out_type = ctx.types
        shape, grad = grad.shape, _rows(grad)
        grad_mixed = product(grad, out).view(*shape[:2], -1)
        grad_packed, for_bias = attend_backward(grad_mixed, packed, mixed, lse, ctx.heads)
        grad_packed = _rows(grad_packed)
        return (
            product(grad_packed, qkv).view(shape),
            product(grad_packed.t(), rows, qkv_type) if ctx.needs_input_grad[1] else None,
            for_bias.to(bias_type),
            product(grad.t(), _rows(mixed), out_type) if ctx.needs_input_grad[3] else None,
            None,
        )


class FusedMLP(Function):
    """Two dense layers around a GELU with its dropout, without the last bias."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, up: Tensor, bias: Tensor, down: Tensor, exact: bool, drop: DropoutMask
    ) -> Tensor:
        dtype, rows = tokens.dtype, _rows(tokens)
        weights = up.to(dtype), down.to(dtype)
        # Masking what a product with GELU inside wrote would read and write the widest tensor once more; GELU with its
        # mask outside the product only reads it once more.
        ctx.inside = not exact and not drop.rate and len(up) % 8 == 0 and _own_products(rows)
        if ctx.inside:
            hidden = rows.new_empty(len(rows), len(up))
            active = matmul.product(rows, weights[0].t(), bias=bias.to(dtype), gelu=hidden)
        else:
            hidden = product(rows, weights[0].t())
            active = rowwise_kernels.gelu(hidden, bias, exact, drop)
        ctx.save_for_backward(rows, hidden, active, bias, *weights)
        ctx.exact, ctx.drop, ctx.types = exact, drop, (up.dtype, down.dtype)
        return product(active, weights[1].t()).view(tokens.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, hidden, active, bias, up, down = ctx.saved_tensors
        shape, grad = grad.shape, _rows(grad)
        if ctx.inside and grad.shape[1] > NARROW:
            grad_hidden = matmul.product(grad, down, gelu_gradient=hidden)
            for_bias = rowwise_kernels.column_sums(grad_hidden)
        else:
            outside = None if ctx.inside else bias
            grad_hidden, for_bias = rowwise_kernels.gelu_backward(
                product(grad, down), hidden, outside, ctx.exact, ctx.drop
            )
        return (
            product(grad_hidden, up).view(shape),
            product(grad_hidden.t(), rows, ctx.types[0]) if ctx.needs_input_grad[1] else None,
            for_bias.to(bias.dtype),
            product(grad.t(), active, ctx.types[1]) if ctx.needs_input_grad[3] else None,
            None,
            None,
        )


def product(left: Tensor, right: Tensor, dtype: torch.dtype | None = None, bias: Tensor | None = None) -> Tensor:
    """Return `left @ right + bias`, in the type of a weight whose gradient it is without rounding to another first."""
    if _own_products(left):
        return matmul.product(left, right, dtype, bias)
    out = torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)
    return out if dtype is None else out.to(dtype)


def _own_products(rows: Tensor) -> bool:
    return rows.is_cuda and matmul.available(rows.dtype)


def _rows(tokens: Tensor) -> Tensor:
    return tokens.flatten(0, 1).contiguous()  # einops takes three times as long, and the host is busy
