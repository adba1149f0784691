"""What attention looks at: its mean distance and its rollout (paper, appendices D.7 and D.8).

Functions take the attention of all layers; the classes take one layer after the other, so that one alone is in memory.
Tokens are the class token and registers, where a net has them, then the patches in raster order (letters as in
`models.vit`).
"""

from collections.abc import Sequence
from typing import Literal

import torch
from einops import rearrange, reduce
from torch import Tensor

from vit_lightning.models.config import ResolvedConfig

Reads = Literal["token", "patches"]
"""Whose attention stands for the whole image: that of the first token, or the mean of the patches."""


def reads_of(config: ResolvedConfig) -> Reads:
    """Returns whose attention stands for the image: the class token's where the head reads it, else the patches'."""
    return "token" if config.pool in ("token", "token_and_gap") else "patches"


def pixels_per_patch(config: ResolvedConfig) -> int:
    """Returns the distance between two neighbouring patches in pixels of the image, through a hybrid's stem."""
    return config.stride * (2 ** (len(config.stages) + 1) if config.stages else 1)


def mean_distance(attention: Sequence[Tensor] | Tensor, grid: tuple[int, int], patch: float, prefix: int = 1) -> Tensor:
    """Returns how far each head looks, in pixels, `(layers, b, h)` (paper, appendix D.7).

    A query's distance is the mean distance to the keys, weighted by its attention. Class token and registers are left
    out as queries and keys, and rows are not made to sum to 1 again, as in the paper's figure.

    Args:
        attention: `b h n n` of each layer; rows sum to 1.
        grid: rows and columns of patches.
        patch: distance between neighbouring patches in pixels.
        prefix: tokens in front of the patches.
    """
    taker = MeanDistance(grid, patch, prefix)
    for weights in attention:
        taker.append(_floats(weights))
    return taker.result()


def rollout(
    attention: Sequence[Tensor] | Tensor, grid: tuple[int, int], prefix: int = 1, reads: Reads | None = None
) -> Tensor:
    """Returns how much each patch has entered what the head reads, `(b, y, x)` (paper, appendix D.8).

    Heads are averaged, the identity of the residual path is added, rows are made to sum to 1, and the layers'
    matrices are multiplied (Abnar and Zuidema, 2020). Class token and registers are left out at the end; the patches
    of a map sum to less than 1.

    Args:
        attention: `b h n n` of each layer, from the first one; rows sum to 1.
        grid: rows and columns of patches.
        prefix: tokens in front of the patches.
        reads: "token" takes the row of the first token, "patches" the mean of their rows. None: the token where there
            is one.
    """
    taker = Rollout(grid, prefix, reads)
    for weights in attention:
        taker.append(_floats(weights))
    return taker.result()


def row_read(weights: Tensor, grid: tuple[int, int], prefix: int = 1, reads: Reads | None = None) -> Tensor:
    """Returns the row of matrices `(..., n, n)` that stands for the image, as a map `(..., y, x)` of the patches."""
    reads = reads or ("token" if prefix else "patches")
    row = weights[..., 0, prefix:] if reads == "token" else weights[..., prefix:, prefix:].mean(-2)
    return rearrange(row, "... (y x) -> ... y x", y=grid[0], x=grid[1])


def patch_distances(grid: tuple[int, int], patch: float) -> Tensor:
    """Returns the distances in pixels between the patches of a grid, `(n, n)`."""
    places = torch.cartesian_prod(*(torch.arange(size, dtype=torch.float64) for size in grid)).reshape(-1, 2)
    return torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist") * patch


class MeanDistance:
    """Mean distance of each layer's heads; the arguments are those of `mean_distance`."""

    def __init__(self, grid: tuple[int, int], patch: float, prefix: int = 1) -> None:
        self.distances, self.prefix = patch_distances(grid, patch), prefix
        self.layers: list[Tensor] = []

    def append(self, weights: Tensor) -> None:
        """Takes the attention `b h n n` of the next layer."""
        weights = weights[:, :, self.prefix :, self.prefix :]
        distances = self.distances.to(weights)
        self.layers.append(reduce(weights * distances, "b h i j -> b h i", "sum").mean(-1))

    def result(self) -> Tensor:
        """Returns the distances `(layers, b, h)`."""
        return torch.stack(self.layers)


class Rollout:
    """Rollout over the layers that came; the arguments are those of `rollout`."""

    def __init__(self, grid: tuple[int, int], prefix: int = 1, reads: Reads | None = None) -> None:
        self.grid, self.prefix, self.reads = grid, prefix, reads
        self.matrix: Tensor | None = None
        """The product of the layers, `b n n`."""

    def append(self, weights: Tensor) -> None:
        """Takes the attention `b h n n` of the next layer."""
        mixed = reduce(weights, "b h i j -> b i j", "mean")
        mixed = mixed + torch.eye(mixed.shape[-1]).to(mixed)
        mixed = mixed / mixed.sum(-1, keepdim=True)
        self.matrix = mixed if self.matrix is None else mixed @ self.matrix

    def result(self) -> Tensor:
        """Returns the maps `(b, y, x)`."""
        assert self.matrix is not None, "no layer came"
        return row_read(self.matrix, self.grid, self.prefix, self.reads)


class RowsRead:
    """The rows that stand for the image in chosen layers, head by head.

    Args:
        layers: numbers of the layers.
        grid: rows and columns of patches.
        prefix: tokens in front of the patches.
        reads: whose rows they are, as in `rollout`.
    """

    def __init__(
        self, layers: Sequence[int], grid: tuple[int, int], prefix: int = 1, reads: Reads | None = None
    ) -> None:
        self.wanted, self.came = set(layers), 0
        self.grid, self.prefix, self.reads = grid, prefix, reads
        self.maps: dict[int, Tensor] = {}
        """Maps `(b, h, y, x)` by layer."""

    def append(self, weights: Tensor) -> None:
        """Takes the attention `b h n n` of the next layer."""
        if self.came in self.wanted:
            self.maps[self.came] = row_read(weights, self.grid, self.prefix, self.reads)
        self.came += 1


def _floats(weights: Tensor) -> Tensor:
    """Returns numbers of at least 32 bits; arrays become tensors."""
    found = torch.as_tensor(weights)
    return found if found.dtype in (torch.float32, torch.float64) else found.float()
