"""Principal components of vectors that come in any number of parts, the same ones in every run."""

from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from vit_lightning.errors import InputError

SPAN = 2.5
"""Standard deviations of a component from the middle of a colour to its end."""


class Components(NamedTuple):
    """Principal components, by falling variance."""

    mean: Tensor
    """Of the vectors, `(d,)`."""
    axes: Tensor
    """One a row, of length 1, `(k, d)`."""
    variances: Tensor
    """Of the vectors along each axis, `(k,)`."""
    shares: Tensor
    """Of the whole variance, `(k,)`."""

    def project(self, vectors: Tensor) -> Tensor:
        """Returns the components `(..., k)` of vectors `(..., d)`."""
        return (vectors.double() - self.mean.to(vectors.device)) @ self.axes.to(vectors.device).T


class RunningPCA:
    """Principal components from one pass over the vectors: their mean and covariance alone are kept, in float64."""

    def __init__(self) -> None:
        self.count = 0
        self._mean: Tensor | None = None
        self._scatter: Tensor | None = None

    def add(self, vectors: Tensor) -> None:
        """Take vectors `(n, d)` into account, merged as Chan et al. (1979) merge means and scatter matrices."""
        vectors = vectors.detach().to("cpu" if vectors.device.type == "mps" else vectors.device).double()
        mean = vectors.mean(0)
        centred = vectors - mean
        scatter, count = centred.T @ centred, len(vectors)
        if self._mean is None or self._scatter is None:
            self._mean, self._scatter, self.count = mean, scatter, count
            return
        total = self.count + count
        step = mean - self._mean
        self._scatter += scatter + torch.outer(step, step) * (self.count * count / total)
        self._mean, self.count = self._mean + step * (count / total), total

    def result(self, count: int) -> Components:
        """Return the first `count` components, or as many as vectors have entries.

        Raises:
            InputError: fewer than two vectors came.
        """
        if self.count < 2 or self._mean is None or self._scatter is None:
            raise InputError(f"principal components of {self.count} vectors mean nothing; give two or more")
        covariance = self._scatter.cpu() / (self.count - 1)
        variances, axes = torch.linalg.eigh(covariance)
        variances, axes = variances.flip(0).clamp(min=0), axes.T.flip(0)
        total = variances.sum().clamp(min=torch.finfo(torch.float64).tiny)
        return Components(self._mean.cpu(), fixed_signs(axes[:count]), variances[:count], variances[:count] / total)


def fixed_signs(axes: Tensor) -> Tensor:
    """Returns axes `(k, d)` of which the largest entry is positive, since a component's sign means nothing."""
    largest = axes.abs().argmax(1, keepdim=True)
    return axes * torch.where(axes.gather(1, largest) < 0, -1.0, 1.0)


def colour_maps(tokens: Tensor, components: Components, grid: tuple[int, int]) -> Tensor:
    """Returns pictures `(b, y, x, 3)` in [0, 1] of tokens `b (y x) d`: three components as red, green and blue.

    A colour is in the middle at the mean of all images, and ends at 2.5 standard deviations, for all images alike.
    """
    found = components.project(tokens)[..., :3]
    scale = components.variances[:3].sqrt().clamp(min=1e-12).to(found.device)
    colours = (0.5 + found / (2 * SPAN * scale)).clamp(0, 1)
    if missing := 3 - colours.shape[-1]:
        colours = torch.cat([colours, colours.new_full((*colours.shape[:-1], missing), 0.5)], -1)
    return rearrange(colours, "b (y x) c -> b y x c", y=grid[0], x=grid[1]).float()
