"""Which places a net takes for near: how alike its position embeddings are (paper, appendix D.4 and figure 10)."""

from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor
from torch.nn.functional import normalize

from vit_lightning.models.position import Additive
from vit_lightning.models.vit import ViT

KINDS = {
    "learned": "learned, a vector for each place",
    "learned_2d": "learned, a vector for each row and each column",
    "sincos_2d": "fixed sines and cosines, not learned",
}
NO_VECTORS = {
    "none": "the net has no position embeddings",
    "relative": "the net has relative positions: a place has no vector of its own",
}


class Positions(NamedTuple):
    """Position embeddings of a net."""

    vectors: Tensor | None
    """Of the patches in raster order, `(n, d)`; None: it has none."""
    said: str
    """What they are, in words."""


def positions_of(net: ViT) -> Positions:
    """Returns the position embeddings of the patches; where every block has its own, those of the first."""
    config = net.config
    if config.position in NO_VECTORS:
        return Positions(None, NO_VECTORS[config.position])
    every = config.position_at == "every_layer"
    table = net.blocks[0].position if every else net.position
    assert isinstance(table, Additive)
    vectors = table.vectors()[0, int(config.class_token) :].detach().float().cpu()
    return Positions(vectors, KINDS[config.position] + ", those of the first block" * every)


def similarity(vectors: Tensor, grid: tuple[int, int]) -> Tensor:
    """Returns the cosine between the vectors `(n, d)` of all places of a grid, `(y, x, y, x)`, from -1 to 1.

    The first two axes say for which place, the last two with which.
    """
    unit = normalize(torch.as_tensor(vectors).double(), dim=1)
    (rows, columns), cosines = grid, unit @ unit.T
    return rearrange(cosines, "(y x) (v w) -> y x v w", y=rows, x=columns, v=rows, w=columns).clamp(-1, 1)
