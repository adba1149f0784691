"""How attention begins where there are few images to learn it from: like that of nets trained on many.

Source: Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers" (arXiv 2305.09828).
"""

import math

import torch
from einops import rearrange
from torch import Tensor

LOGITS = 0.7, 0.7
"""Noise and identity in the product of the query and key weights of a head."""
VALUES = 0.4, -0.4
"""Noise and identity in the product of the value and output weights."""


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
        queries, keys = _factors(*LOGITS, heads, width, width // heads)
        values, outputs = _factors(*VALUES, 1, width, width)
    qkv.copy_(torch.cat([rearrange(each, "h d k -> (h k) d") for each in (queries, keys, values)]))
    out.copy_(rearrange(outputs, "1 d k -> d k"))


def _factors(noise: float, identity: float, count: int, width: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return a, b `(count, width, rank)`: the best a b^T for matrices of normal noise around multiples of identity."""
    products = noise / math.sqrt(width) * torch.randn(count, width, width) + identity * torch.eye(width)
    left, values, right = torch.linalg.svd(products)
    root = rearrange(values[:, :rank].sqrt(), "n k -> n 1 k")
    return left[..., :rank] * root, right.mT[..., :rank] * root
