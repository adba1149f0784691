"""The transformer's block: pre-norm, multi-head self-attention and an MLP (letters as in `vit`)."""

from functools import partial
from typing import Protocol

import torch
from einops import einsum, rearrange
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from vit_lightning.models.attention_init import mimetic_
from vit_lightning.models.config import ResolvedConfig
from vit_lightning.models.dense import Dense, normal_, xavier_
from vit_lightning.models.position import Relative, additive

# How attention along an axis groups the tokens: sequences in front, heads beside them.
SPLIT = {
    "global": "b n (three h k) -> three b h n k",
    "row": "b (y x) (three h k) -> three (b y) h x k",
    "column": "b (y x) (three h k) -> three (b x) h y k",
}
MERGE = {
    "global": "b h n k -> b n (h k)",
    "row": "(b y) h x k -> b (y x) (h k)",
    "column": "(b x) h y k -> b (y x) (h k)",
}


class Norm(nn.LayerNorm):
    """LayerNorm over the width of a token."""

    def __init__(self, config: ResolvedConfig) -> None:
        super().__init__(config.width, eps=config.norm_eps)


class Attention(nn.Module):
    """Multi-head self-attention over all tokens, or within each row or column of the grid."""

    def __init__(self, config: ResolvedConfig, grid: tuple[int, int], axis: str) -> None:
        super().__init__()
        d, (rows, columns) = config.width, grid
        self.axis, self.heads = axis, config.heads
        self.places = {} if axis == "global" else {"y": rows, "x": columns}
        self.qkv = Dense(d, 3 * d, partial(xavier_, parts=3))
        self.out = Dense(d, d)
        if config.attention_init == "mimetic":
            mimetic_(self.qkv.weight, self.out.weight, self.heads)
        self.dropout = nn.Dropout(config.dropout)
        length = {"global": config.prefix_tokens + rows * columns, "row": columns, "column": rows}[axis]
        self.position = Relative(length, d // self.heads) if config.position == "relative" else None

    def forward(self, tokens: Tensor, first_token_only: bool = False) -> Tensor:
        queries, keys, values, bias = self.split_for_first_token(tokens) if first_token_only else self.split(tokens)
        mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        return self.dropout(self.out(rearrange(mixed, MERGE[self.axis], **self.places)))

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Returns queries, keys and values per head, and the logits that relative positions add."""
        queries, keys, values = rearrange(self.qkv(tokens), SPLIT[self.axis], three=3, h=self.heads, **self.places)
        return queries, keys, values, None if self.position is None else self.position(queries)

    def split_for_first_token(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Returns the first token's query, and all keys and values: what a class token needs of the last layer."""
        d = tokens.shape[-1]
        weight, bias = self.qkv.kernel, self.qkv.bias
        query = rearrange(linear(tokens[:, :1], weight[:d], bias[:d]), "b n (h k) -> b h n k", h=self.heads)
        both = linear(tokens, weight[d:], bias[d:])
        keys, values = rearrange(both, "b n (two h k) -> two b h n k", two=2, h=self.heads)
        return query, keys, values, None

    def weights(self, tokens: Tensor) -> Tensor:
        """Returns the attention `b h n n` of every query (third axis) to every key; rows sum to 1."""
        queries, keys, _, bias = self.split(tokens)
        logits = einsum(queries, keys, "b h i k, b h j k -> b h i j") * queries.shape[-1] ** -0.5
        weights = (logits if bias is None else logits + bias).softmax(dim=-1)
        if self.axis == "global":
            return weights
        # Attention along an axis never leaves it: zero between two different lines (rows or columns) l and m.
        lines = self.places["y" if self.axis == "row" else "x"]
        blocks = rearrange(weights, "(b l) h i j -> b h l i j", l=lines)
        full = einsum(blocks, torch.eye(lines).to(blocks), "b h l i j, l m -> b h l i m j")
        raster = "b h (l i) (m j)" if self.axis == "row" else "b h (i l) (j m)"
        return rearrange(full, f"b h l i m j -> {raster}")


class SwiGLU(nn.Module):
    """The second half of the last axis, gated by the SiLU of the first."""

    def forward(self, tokens: Tensor) -> Tensor:
        gate, values = rearrange(tokens, "b n (two m) -> two b n m", two=2)
        return silu(gate) * values


class MLP(nn.Module):
    """Two dense layers around a GELU, or around a gate."""

    def __init__(self, config: ResolvedConfig, dropout: float = 0.0) -> None:
        super().__init__()
        near_zero = partial(normal_, std=1e-6)
        self.up = Dense(config.width, config.mlp * (2 if config.swiglu else 1), bias=near_zero)
        gelu = nn.GELU(approximate="tanh" if config.gelu == "tanh" else "none")
        self.activation = SwiGLU() if config.swiglu else gelu
        self.down = Dense(config.mlp, config.width, bias=near_zero)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.down(self.dropout(self.activation(self.up(tokens)))))


class StochasticDepth(nn.Module):
    """Zeroes a branch for a share `rate` of the images in training, and scales up the others to keep the mean."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        factor = self.factor(branch)
        return branch if factor is None else branch * rearrange(factor, "b -> b 1 1")

    def factor(self, branch: Tensor) -> Tensor | None:
        """Returns what each image's branch is multiplied by, `b`; None where nothing is dropped."""
        if not self.training or self.rate == 0:
            return None
        keep = 1 - self.rate
        return torch.empty(branch.shape[0], dtype=branch.dtype, device=branch.device).bernoulli_(keep) / keep


class PassesBlocks(Protocol):
    """Tokens in a form of their own, such as the fast path's residual stream, that knows how it passes a block."""

    def through(self, block: "Block", first_token_only: bool) -> "Tensor | PassesBlocks":
        """Returns the next tokens; with `first_token_only`, the first alone, `b 1 d`."""


class Block(nn.Module):
    """Pre-norm transformer block: equations 2 and 3 of the paper.

    Args:
        config: the resolved config.
        grid: rows and columns of patches.
        axis: "global", "row" or "column".
        skip: stochastic depth's rate in this block.
    """

    def __init__(self, config: ResolvedConfig, grid: tuple[int, int], axis: str, skip: float) -> None:
        super().__init__()
        self.position = additive(config, grid) if config.position_at == "every_layer" else nn.Identity()
        self.norm1 = Norm(config)
        self.attention = Attention(config, grid, axis)
        self.norm2 = Norm(config)
        self.mlp = MLP(config, config.dropout)
        self.skip = StochasticDepth(skip)
        self.layer_scale = config.layer_scale
        self.scale1, self.scale2 = (
            nn.Parameter(torch.empty(config.width)) if config.layer_scale else None for _ in range(2)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for scale in (self.scale1, self.scale2):
            if scale is not None:
                nn.init.constant_(scale, self.layer_scale)

    def forward(self, tokens: Tensor | PassesBlocks, first_token_only: bool = False) -> Tensor | PassesBlocks:
        """Returns the next tokens; with `first_token_only`, `b 1 d` for less than half of the work."""
        if not isinstance(tokens, Tensor):
            return tokens.through(self, first_token_only)
        placed = self.position(tokens)
        return self.update(placed, self.norm1(placed), first_token_only)

    def update(self, tokens: Tensor, normed: Tensor, first_token_only: bool) -> Tensor:
        """Returns the next tokens, given the present ones before and after the first norm."""
        tokens = tokens[:, :1] if first_token_only else tokens
        tokens = tokens + self.branch(self.attention(normed, first_token_only), self.scale1)
        return tokens + self.branch(self.mlp(self.norm2(tokens)), self.scale2)

    def branch(self, output: Tensor, scale: Tensor | None) -> Tensor:
        return self.skip(output if scale is None else output * scale)

    def weights(self, tokens: Tensor) -> Tensor:
        """Returns the attention `b h n n` for the block's input."""
        return self.attention.weights(self.norm1(self.position(tokens)))
