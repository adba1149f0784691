"""High-norm patches: few of flat background that a net turned into stores, and that spoil maps (arXiv 2309.16588)."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

FACTOR = 2.0
"""Times the median norm from which on a patch counts as an artefact."""
LOWEST, HIGHEST, BINS = 1e-4, 1e6, 8192
"""Norms that the histogram tells apart, and its bins: one is 0.28 % wide."""


class NormReport(NamedTuple):
    """Norms of patches over all images."""

    quantiles: Tensor
    """Of each block's output, `(layers, len(LEVELS))`."""
    threshold: float
    """Norm of the last block's output from which on a patch is an artefact."""
    share: float
    """Of the patches of all images that are artefacts."""
    shares: Tensor
    """The same for each block's output, against its own median, `(layers,)`."""
    largest: float
    """Norm over the median of the last block's output."""

    @property
    def emerges_at(self) -> int | None:
        """The first block whose output has at least half of the last one's artefacts; None: there are none."""
        if not self.share:
            return None
        return int((self.shares >= self.share / 2).nonzero()[0, 0])


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.999)
"""Quantiles of the report."""


class NormHistogram:
    """Norms of any number of patches, layer by layer, in a histogram of fixed size."""

    def __init__(self) -> None:
        self._counts: Tensor | None = None

    def add(self, norms: Tensor) -> None:
        """Take norms `(layers, b, patches)` into account."""
        logs = norms.float().clamp(LOWEST, HIGHEST).log()
        place = (logs - math.log(LOWEST)) / math.log(HIGHEST / LOWEST) * BINS
        numbers = place.long().clamp(0, BINS - 1).flatten(1).cpu()
        counts = torch.stack([torch.bincount(row, minlength=BINS) for row in numbers])
        self._counts = counts if self._counts is None else self._counts + counts

    def report(self, factor: float = FACTOR) -> NormReport:
        """Return quantiles and artefacts, exact to the width of a bin."""
        assert self._counts is not None, "no norms came"
        cumulative = self._counts.cumsum(1).double()
        cumulative = cumulative / cumulative[:, -1:]
        values = _middles()
        quantiles = torch.stack([values[(cumulative < level).sum(1).clamp(max=BINS - 1)] for level in LEVELS], dim=1)
        medians = quantiles[:, LEVELS.index(0.5)]
        high = values > factor * medians[:, None]
        shares = (self._counts * high).sum(1) / self._counts.sum(1)
        last = values[self._counts[-1].nonzero().max()]
        return NormReport(quantiles, float(factor * medians[-1]), float(shares[-1]), shares, float(last / medians[-1]))


def _middles() -> Tensor:
    """Returns the norm in the middle of each bin."""
    places = (torch.arange(BINS, dtype=torch.float64) + 0.5) / BINS
    return LOWEST * (HIGHEST / LOWEST) ** places
