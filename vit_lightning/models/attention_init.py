"""How attention begins where there are few images to learn it from (`net.attention_init`).

`mimetic_` begins it like that of nets trained on many images: Trockman and Kolter, "Mimetic Initialization of
Self-Attention Layers" (arXiv 2305.09828).

`look_at_neighbours_` begins it with each head at one neighbour of every patch. The idea is that of Zheng et al.,
"Structured Initialization for Attention in Vision Transformers" (arXiv 2404.01139), whose maps begin as random filters
of 3 x 3 with a single weight. Sine and cosine positions need no search for such weights: a wave turned by an angle is
the wave of another place.
"""

import math
from collections.abc import Sequence
from itertools import product

import torch
from einops import rearrange
from torch import Tensor, nn

from vit_lightning.models.config import ResolvedConfig
from vit_lightning.models.position import frequencies

MIMETIC_LOGITS = 0.7, 0.7
"""Noise and identity in the product of the query and key weights of a head."""
MIMETIC_VALUES = 0.4, -0.4
"""Noise and identity in the product of the value and output weights."""


NEIGHBOUR_LOGIT = 9.6
"""What a query gives the place that it looks for, where tokens are positions alone and no norm scales them."""
OFFSETS = tuple(product((-1, 0, 1), repeat=2))
"""Rows and columns between a patch and what its heads look at."""


@torch.no_grad()
def mimetic_(qkv: Tensor, out: Tensor, heads: int) -> None:
    """Fill attention's weights so that tokens look at those alike, position included, and take away what they see.

    Args:
        qkv: weight `(3 d, d)` of queries, keys and values.
        out: weight `(d, d)` of the output.
        heads: heads that share the width.
    """
    if qkv.is_meta:
        return
    width = len(out)
    with torch.device("cpu"):  # many small decompositions, which a GPU does one after the other
        queries, keys = _factors(*MIMETIC_LOGITS, heads, width, width // heads)
        values, outputs = _factors(*MIMETIC_VALUES, 1, width, width)
    qkv.copy_(torch.cat([rearrange(each, "h d k -> (h k) d") for each in (queries, keys, values)]))
    out.copy_(rearrange(outputs, "1 d k -> d k"))


def _factors(noise: float, identity: float, count: int, width: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return a, b `(count, width, rank)`: the best a b^T for matrices of normal noise around multiples of identity."""
    products = noise / math.sqrt(width) * torch.randn(count, width, width) + identity * torch.eye(width)
    left, values, right = torch.linalg.svd(products)
    root = rearrange(values[:, :rank].sqrt(), "n k -> n 1 k")
    return left[..., :rank] * root, right.mT[..., :rank] * root


@torch.no_grad()
def look_at_neighbours_(config: ResolvedConfig, qkv: Sequence[nn.Linear], writers: Sequence[nn.Linear]) -> None:
    """Fill queries and keys so that the heads of a layer look at different neighbours, or at the patch itself.

    A head compares the shortest waves, as many as it has room for. The layers that write to the tokens begin by writing
    nothing where these waves lie, since it would be compared as well: without that CIFAR-10 was learnt no better than
    from mimetic.

    Args:
        config: the resolved config of the net.
        qkv: each block's layer of queries, keys and values.
        writers: the layers that write to the tokens: of the patches, and each block's last of attention and of the MLP.
    """
    if any(layer.weight.is_meta for layer in writers):
        return
    width, heads = config.width, config.heads
    with torch.device("cpu"):  # the same offsets on every device
        room = width // heads // 4
        waves = rearrange(torch.arange(width), "(four f) -> four f", four=4)[:, :room].flatten()
        omega = frequencies(width, config.position_temperature)[:room]
        for layer in writers:
            layer.weight[waves] = 0
        for layer in qkv:
            order = torch.randperm(len(OFFSETS)).tolist()
            pairs = [_pair(OFFSETS[order[head % len(order)]], omega, waves, width, heads) for head in range(heads)]
            layer.weight[: 2 * width] = rearrange(pairs, "h two k d -> (two h k) d")


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
    gain = (NEIGHBOUR_LOGIT * len(keys) ** 0.5 / (2 * len(omega))) ** 0.5
    return gain * torch.stack([queries, keys])
