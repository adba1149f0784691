"""The Vision Transformer (Dosovitskiy et al., 2021), its pooling heads and its axial form.

Letters, here and in the whole package:
    b batch, c channels, y x rows and columns of patches, p q rows and columns of pixels inside a patch,
    n tokens, d width of a token, h heads, k width of a head.
"""

import math
from functools import partial
from typing import TYPE_CHECKING

import torch
from einops import einsum, rearrange, reduce, repeat
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from vit_lightning.models.config import NetConfig, check_images, grid_of, patches_kept
from vit_lightning.models.dense import Dense, lecun_normal_, normal_, xavier_
from vit_lightning.models.fast.fast_path import fusible
from vit_lightning.models.local_init import look_at_neighbours_
from vit_lightning.models.mimetic import mimetic_
from vit_lightning.models.position import STD, Relative, additive

if TYPE_CHECKING:
    from vit_lightning.models.fast.fused import Stream

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

    def __init__(self, config: NetConfig) -> None:
        super().__init__(config.width, eps=config.norm_eps)


class Patches(nn.Module):
    """Cuts a map `b c height width` into patches and projects each to a token: equation 1 of the paper."""

    def __init__(self, channels: int, patch: int, stride: int, width: int) -> None:
        super().__init__()
        self.patch, self.stride = patch, stride
        self.proj = Dense(patch * patch * channels, width, lecun_normal_)

    def forward(self, images: Tensor) -> Tensor:
        if self.stride == self.patch:
            height, width = (size - size % self.patch for size in images.shape[2:])
            images = images[:, :, :height, :width]
            patches = rearrange(images, "b c (y p) (x q) -> b (y x) (p q c)", p=self.patch, q=self.patch)
        else:
            windows = images.unfold(2, self.patch, self.stride).unfold(3, self.patch, self.stride)
            patches = rearrange(windows, "b c y x p q -> b (y x) (p q c)")
        return self.proj(patches)


class Attention(nn.Module):
    """Multi-head self-attention over all tokens, or within each row or column of the grid."""

    def __init__(self, config: NetConfig, grid: tuple[int, int], axis: str) -> None:
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

    def forward(self, tokens: Tensor, first: bool = False) -> Tensor:
        queries, keys, values, bias = self.split_for_first(tokens) if first else self.split(tokens)
        mixed = scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        return self.dropout(self.out(rearrange(mixed, MERGE[self.axis], **self.places)))

    def split(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Returns queries, keys and values per head, and the logits that relative positions add."""
        queries, keys, values = rearrange(self.qkv(tokens), SPLIT[self.axis], three=3, h=self.heads, **self.places)
        return queries, keys, values, None if self.position is None else self.position(queries)

    def split_for_first(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Returns the first token's query, and all keys and values: what a class token needs of the last layer."""
        d = tokens.shape[-1]
        weight, bias = self.qkv.weight, self.qkv.bias
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

    def __init__(self, config: NetConfig, dropout: float = 0.0) -> None:
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


class Block(nn.Module):
    """Pre-norm transformer block: equations 2 and 3 of the paper.

    Args:
        config: the resolved config.
        grid: rows and columns of patches.
        axis: "global", "row" or "column".
        skip: stochastic depth's rate in this block.
    """

    def __init__(self, config: NetConfig, grid: tuple[int, int], axis: str, skip: float) -> None:
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
        if self.scale1 is not None:
            nn.init.constant_(self.scale1, self.layer_scale)
            nn.init.constant_(self.scale2, self.layer_scale)

    def forward(self, tokens: "Tensor | Stream", first: bool = False) -> "Tensor | Stream":
        """Returns the next tokens; with `first`, the first alone, `b 1 d`, for less than half of the work."""
        if not isinstance(tokens, Tensor):
            return tokens.through(self, first)
        tokens = self.position(tokens)
        return self.update(tokens, self.norm1(tokens), first)

    def update(self, tokens: Tensor, normed: Tensor, first: bool) -> Tensor:
        """Returns the next tokens, given the present ones before and after the first norm."""
        tokens = tokens[:, :1] if first else tokens
        tokens = tokens + self.branch(self.attention(normed, first), self.scale1)
        return tokens + self.branch(self.mlp(self.norm2(tokens)), self.scale2)

    def branch(self, output: Tensor, scale: Tensor | None) -> Tensor:
        return self.skip(output if scale is None else output * scale)

    def weights(self, tokens: Tensor) -> Tensor:
        """Returns the attention `b h n n` for the block's input."""
        return self.attention.weights(self.norm1(self.position(tokens)))


class PatchDropout(nn.Module):
    """Keeps some of an image's patches in training, which ones is drawn anew each time (arXiv 2208.07220).

    Args:
        kept: how many stay.
        prefix: tokens in front of the patches, which all stay.
    """

    def __init__(self, kept: int, prefix: int) -> None:
        super().__init__()
        self.kept, self.prefix = kept, prefix

    def forward(self, tokens: Tensor) -> Tensor:
        b, n, d = tokens.shape
        if not self.training or self.kept == n - self.prefix:
            return tokens
        chosen = torch.rand(b, n - self.prefix, device=tokens.device).topk(self.kept, sorted=False).indices
        before = torch.arange(self.prefix, device=tokens.device).expand(b, -1)
        chosen = torch.cat([before, self.prefix + chosen], dim=1)
        return tokens.gather(1, repeat(chosen, "b n -> b n d", d=d))


class ProbeAttention(nn.Module):
    """Multi-head attention of a few queries to all tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = Dense(width, width)
        self.kv = Dense(width, 2 * width, partial(xavier_, parts=2))
        self.out = Dense(width, width)

    def forward(self, probe: Tensor, tokens: Tensor) -> Tensor:
        queries = rearrange(self.q(probe), "b n (h k) -> b h n k", h=self.heads)
        keys, values = rearrange(self.kv(tokens), "b n (two h k) -> two b h n k", two=2, h=self.heads)
        mixed = scaled_dot_product_attention(queries, keys, values)
        return self.out(rearrange(mixed, "b h n k -> b n (h k)"))


class MapPool(nn.Module):
    """Multi-head attention pooling: a learned probe attends over the patches, then an MLP (big_vision's MAP head)."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.probe = nn.Parameter(torch.empty(1, 1, config.width))
        self.attention = ProbeAttention(config.width, config.heads)
        self.norm = Norm(config)
        self.mlp = MLP(config)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # Xavier as flax reads a (1, 1, d) kernel: one input, d outputs.
        bound = math.sqrt(6 / (1 + self.probe.shape[-1]))
        nn.init.uniform_(self.probe, -bound, bound)

    def forward(self, tokens: Tensor) -> Tensor:
        probe = repeat(self.probe, "1 n d -> b n d", b=tokens.shape[0])
        pooled = self.attention(probe, tokens)
        return rearrange(pooled + self.mlp(self.norm(pooled)), "b 1 d -> b d")


class Representation(Dense):
    """Dense layer with tanh between the pooled token and the head, used in pre-training and dropped for transfer."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__(width, size, lecun_normal_)

    def forward(self, pooled: Tensor) -> Tensor:
        return super().forward(pooled).tanh()


class ViT(nn.Module):
    """Vision Transformer.

    Args:
        config: a resolved config.
        image_size: (y, x) in pixels.
        num_classes: size of the logits.
        stem: what turns images into the map that is patched (a hybrid's ResNet, with `out_channels`); None: nothing.

    Raises:
        InputError: the patch does not divide the image size.
    """

    def __init__(
        self, config: NetConfig, image_size: tuple[int, int], num_classes: int, stem: nn.Module | None = None
    ) -> None:
        super().__init__()
        d = config.width
        self.config, self.image_size, self.num_classes = config, image_size, num_classes
        self.grid = grid_of(config, image_size)
        self.num_prefix_tokens = config.prefix_tokens

        self.stem = nn.Identity() if stem is None else stem
        self.patches = Patches(config.channels if stem is None else stem.out_channels, config.patch, config.stride, d)
        self.class_token = nn.Parameter(torch.empty(1, 1, d)) if config.class_token else None
        self.registers = nn.Parameter(torch.empty(1, config.registers, d)) if config.registers else None
        self.position = nn.Identity() if config.position_at == "every_layer" else additive(config, self.grid)
        self.dropout = nn.Dropout(config.dropout)
        self.embed_norm = Norm(config) if config.embed_norm else nn.Identity()
        self.patch_dropout = PatchDropout(patches_kept(config, math.prod(self.grid)), config.prefix_tokens)
        axes = ["row", "column"] * config.depth if config.attention == "axial" else ["global"] * config.depth
        skip = config.stochastic_depth / max(len(axes) - 1, 1)
        self.blocks = nn.ModuleList(Block(config, self.grid, axis, skip * i) for i, axis in enumerate(axes))
        self.norm = Norm(config)
        if config.pool == "map":
            self.pool = MapPool(config)
        pooled, size = config.pooled_width, config.representation
        self.representation = Representation(pooled, size) if size else nn.Identity()
        head_bias = partial(nn.init.constant_, val=config.head_bias)
        self.head = Dense(size or pooled, num_classes, nn.init.zeros_, head_bias) if num_classes else nn.Identity()
        self.reset_parameters()
        if config.attention_init == "local":
            look_at_neighbours_(self)

    def reset_parameters(self) -> None:
        if self.class_token is not None:
            nn.init.zeros_(self.class_token)
        if self.registers is not None:
            # Registers that start equal would stay equal: nothing else tells them apart.
            normal_(self.registers, STD)

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits `b classes` of normalised images `b c height width`; without classes, the features."""
        return self.head(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """Returns what the head reads, `b d` (or the tanh layer's size): "pre_logits" in the official code."""
        config = self.config
        class_token_alone = config.pool == "token" and config.attention == "global" and config.position != "relative"
        tokens = self.encode(self.embed(images), first=class_token_alone)
        token, patches = tokens[:, 0], tokens[:, self.num_prefix_tokens :]
        if self.config.pool == "token":
            pooled = token
        elif self.config.pool == "map":
            pooled = self.pool(patches)
        else:
            pooled = reduce(patches, "b n d -> b d", "mean")
        if self.config.norm_after_pool:
            pooled = self.norm(pooled)
        if self.config.pool == "token_and_gap":
            pooled = torch.cat([token, pooled], dim=1)
        return self.representation(pooled)

    def tokens(self, images: Tensor) -> Tensor:
        """Returns the encoder's output `b n d`: class token, registers, patches in raster order.

        The last norm is applied, unless the net has it after its pool.
        """
        return self.encode(self.embed(images))

    def attention(self, images: Tensor) -> list[Tensor]:
        """Returns the attention `b h n n` of each attention layer (an axial block has two); rows sum to 1."""
        maps: list[Tensor] = []
        self.encode(self.embed(images), maps)
        return maps

    def embed(self, images: Tensor) -> Tensor:
        """Returns the projected patches `b (y x) d` of images, before positions.

        Raises:
            InputError: channels or size of the images are not those of the net.
        """
        check_images(self.config, self.image_size, images.shape)
        return self.patches(self.stem(images))

    def encode(self, patches: Tensor, maps: list[Tensor] | None = None, first: bool = False) -> Tensor:
        """Returns the encoder's output for projected patches `b (y x) d`, of the first token alone if asked for.

        Each layer's attention goes into `maps`.
        """
        prefix = [token for token in (self.class_token, self.registers) if token is not None]
        prefix = [repeat(token.to(patches.dtype), "1 n d -> b n d", b=patches.shape[0]) for token in prefix]
        tokens = torch.cat([*prefix, patches], dim=1) if prefix else patches
        tokens = self.embed_norm(self.patch_dropout(self.dropout(self.position(tokens))))
        if maps is None and fusible(self.config, tokens):
            from vit_lightning.models.fast.fused import encode

            return encode(self, tokens, first)
        shared = self.config.position_at == "every_layer_shared"
        for i, block in enumerate(self.blocks):
            if shared and i:
                tokens = self.position(tokens)
            if maps is not None:
                maps.append(block.weights(tokens))
            tokens = block(tokens, first and i == len(self.blocks) - 1)
        return tokens if self.config.norm_after_pool else self.norm(tokens)

    def depth_of(self, name: str) -> int:
        """Returns the layer of a parameter: 0 before the blocks, i + 1 in block i, depth + 1 after the blocks."""
        first, *rest = name.split(".")
        if first == "blocks":
            return int(rest[0]) * self.config.depth // len(self.blocks) + 1
        before = ("stem", "patches", "class_token", "registers", "position", "embed_norm")
        return 0 if first in before else self.config.depth + 1
