"""The Vision Transformer (Dosovitskiy et al., 2021) and its pooling heads; `blocks` holds its block.

Letters, here and in the whole package:
    b batch, c channels, y x rows and columns of patches, p q rows and columns of pixels inside a patch,
    n tokens, d width of a token, h heads, k width of a head.
"""

import math
from functools import partial
from typing import Protocol

import torch
from einops import rearrange, reduce, repeat
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from vit_lightning.models.attention_init import look_at_neighbours_
from vit_lightning.models.blocks import MLP, Block, Norm
from vit_lightning.models.config import ResolvedConfig, check_images, grid_of, patches_kept
from vit_lightning.models.dense import Dense, lecun_normal_, normal_, xavier_
from vit_lightning.models.fast.fast_path import fusible
from vit_lightning.models.fast.fp8_scales import Fp8Scales
from vit_lightning.models.position import STD, additive
from vit_lightning.models.resnet import Stem


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
        before = repeat(torch.arange(self.prefix, device=tokens.device), "n -> b n", b=b)
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

    def __init__(self, config: ResolvedConfig) -> None:
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


class TakesAttention(Protocol):
    """A list, or whatever else takes the attention of one layer after the other."""

    def append(self, weights: Tensor, /) -> object:
        """Takes the attention `b h n n` of the next layer."""


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
        stem: a hybrid's ResNet, which turns images into the map that is patched; None: the images are patched.

    Raises:
        InputError: the patch does not divide the image size.
    """

    def __init__(
        self, config: ResolvedConfig, image_size: tuple[int, int], num_classes: int, stem: Stem | None = None
    ) -> None:
        super().__init__()
        d = config.width
        self.config, self.image_size, self.num_classes = config, image_size, num_classes
        self.grid = grid_of(config, image_size)
        self.num_prefix_tokens = config.prefix_tokens
        self.fp8: Fp8Scales | None = None  # factors of products in fp8, where the net is trained with them

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
        blocks = [Block(config, self.grid, axis, skip * i) for i, axis in enumerate(axes)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = Norm(config)
        if config.pool == "map":
            self.pool = MapPool(config)
        pooled, size = config.pooled_width, config.representation
        self.representation = Representation(pooled, size) if size else nn.Identity()
        head_bias = partial(nn.init.constant_, val=config.head_bias)
        self.head = Dense(size or pooled, num_classes, nn.init.zeros_, head_bias) if num_classes else nn.Identity()
        self.reset_parameters()
        if config.attention_init == "local":
            writers = [layer for block in blocks for layer in (block.attention.out, block.mlp.down)]
            look_at_neighbours_(config, [block.attention.qkv for block in blocks], [self.patches.proj, *writers])

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
        return self.read(self.encode(self.embed(images), first_token_only=class_token_alone))

    def read(self, tokens: Tensor) -> Tensor:
        """Returns what the head reads of the encoder's output `b n d`."""
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

    def encode(self, patches: Tensor, maps: TakesAttention | None = None, first_token_only: bool = False) -> Tensor:
        """Returns the encoder's output `b n d` for projected patches `b (y x) d`.

        Args:
            patches: what `embed` returns.
            maps: takes each layer's attention; None: attention is not computed explicitly.
            first_token_only: return the first token alone, `b 1 d`.
        """
        tokens = self.place(patches)
        if maps is None and fusible(self.config, tokens):
            from vit_lightning.models.fast.fused import encode

            norm = None if self.config.norm_after_pool else self.norm
            fp8 = self.fp8 if self.training else None
            return encode(tokens, self.blocks, norm, self.dropout, first_token_only, fp8)
        return self.through_blocks(tokens, maps, first_token_only)

    def place(self, patches: Tensor) -> Tensor:
        """Returns the input `b n d` of the first block: class token and registers in front, with positions."""
        learned = [token for token in (self.class_token, self.registers) if token is not None]
        prefix = [repeat(token.to(patches.dtype), "1 n d -> b n d", b=patches.shape[0]) for token in learned]
        tokens = torch.cat([*prefix, patches], dim=1) if prefix else patches
        return self.embed_norm(self.patch_dropout(self.dropout(self.position(tokens))))

    def through_blocks(
        self, tokens: Tensor, maps: TakesAttention | None = None, first_token_only: bool = False, start: int = 0
    ) -> Tensor:
        """Returns the encoder's output `b n d` for the input `b n d` of block `start`; `encode` has the others."""
        shared = self.config.position_at == "every_layer_shared"
        for i in range(start, len(self.blocks)):
            block = self.blocks[i]
            if shared and i:
                tokens = self.position(tokens)
            if maps is not None:
                maps.append(block.weights(tokens))  # type: ignore[operator]
            tokens = block(tokens, first_token_only and i == len(self.blocks) - 1)
        return tokens if self.config.norm_after_pool else self.norm(tokens)

    def depth_of(self, name: str) -> int:
        """Returns the layer of a parameter: 0 before the blocks, i + 1 in block i, depth + 1 after the blocks."""
        first, *rest = name.split(".")
        if first == "blocks":
            return int(rest[0]) * self.config.depth // len(self.blocks) + 1
        before = ("stem", "patches", "class_token", "registers", "position", "embed_norm")
        return 0 if first in before else self.config.depth + 1
