"""How attention begins where there are few images to learn it from: each head at one neighbour of every patch.

Source: the idea of Zheng et al., "Structured Initialization for Attention in Vision Transformers" (arXiv 2404.01139),
whose maps begin as random filters of 3 x 3 with a single weight. Sine and cosine positions need no search for such
weights: a wave turned by an angle is the wave of another place.
"""

from itertools import product
from typing import TYPE_CHECKING

import torch
from einops import rearrange
from torch import Tensor

from vit_lightning.models.position import frequencies

if TYPE_CHECKING:
    from vit_lightning.models.vit import ViT

LOGIT = 9.6
"""What a query gives the place that it looks for, where tokens are positions alone and no norm scales them."""
OFFSETS = tuple(product((-1, 0, 1), repeat=2))
"""Rows and columns between a patch and what its heads look at."""


@torch.no_grad()
def look_at_neighbours_(net: "ViT") -> None:
    """Fill queries and keys so that the heads of a layer look at different neighbours, or at the patch itself.

    A head compares the shortest waves, as many as it has room for. Patches, attention and MLPs begin by writing nothing
    where these lie, since it would be compared as well: without that CIFAR-10 was learnt no better than from mimetic.
    """
    written = [net.patches.proj, *(layer for block in net.blocks for layer in (block.attention.out, block.mlp.down))]
    if net.patches.proj.weight.is_meta:
        return
    width, heads = net.config.width, net.config.heads
    with torch.device("cpu"):  # the same offsets on every device
        room = width // heads // 4
        waves = rearrange(torch.arange(width), "(four f) -> four f", four=4)[:, :room].flatten()
        omega = frequencies(width, net.config.position_temperature)[:room]
        for layer in written:
            layer.weight[waves] = 0
        for block in net.blocks:
            order = torch.randperm(len(OFFSETS)).tolist()
            pairs = [_pair(OFFSETS[order[head % len(order)]], omega, waves, width, heads) for head in range(heads)]
            block.attention.qkv.weight[: 2 * width] = rearrange(pairs, "h two k d -> (two h k) d")


def _pair(offset: tuple[int, int], omega: Tensor, waves: Tensor, width: int, heads: int) -> Tensor:
    """Return the weights `(2, k, width)` of a head's queries and keys.

    Args:
        offset: rows and columns from the patch to what it looks at.
        omega: frequencies that are compared `(f,)`.
        waves: features of a token where these lie, `(4 f,)`: sin x, cos x, sin y, cos y.
        width: width of a token.
        heads: heads that share it.
    """
    rows, columns = offset
    keys = torch.zeros(width // heads, width)
    keys[torch.arange(len(waves)), waves] = 1
    turns = []
    for distance in (columns, rows):
        cos, sin = (wave.diag() for wave in ((omega * distance).cos(), (omega * distance).sin()))
        turns.append(torch.cat([torch.cat([cos, sin], dim=1), torch.cat([-sin, cos], dim=1)]))
    queries = torch.zeros_like(keys)
    queries[: len(waves)] = torch.block_diag(*turns) @ keys[: len(waves)]
    gain = (LOGIT * len(keys) ** 0.5 / (2 * len(omega))) ** 0.5
    return gain * torch.stack([queries, keys])
