"""What the first layer looks for: the principal components of its filters (paper, section 4.5 and figure 7, left)."""

from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from vit_lightning.inspection.features import fixed_signs
from vit_lightning.models.vit import ViT

SHOWN = 28
"""Components in the paper's figure."""


class PrincipalFilters(NamedTuple):
    """Principal components of filters, by falling variance."""

    tiles: Tensor
    """`(k, p, q, c)`, each of length 1."""
    shares: Tensor
    """Of the filters' whole variance, `(k,)`."""


def filters_of(net: ViT) -> Tensor:
    """Returns the filters that read the image, `(d, p, q, c)`: of the patches, or of the first layer of a hybrid."""
    if net.config.stages:
        kernel: Tensor = net.stem.conv_root.standardised()  # type: ignore[union-attr, operator]
        return rearrange(kernel, "d c p q -> d p q c").detach().cpu()
    side = net.config.patch
    return rearrange(net.patches.proj.kernel, "d (p q c) -> d p q c", p=side, q=side).detach().cpu()


def principal_filters(filters: Tensor, count: int = SHOWN) -> PrincipalFilters:
    """Returns the first components of filters `(d, p, q, c)`, whose mean is taken off first.

    The paper states no centring. The sign of a component is that which makes its largest entry positive.
    """
    rows = rearrange(torch.as_tensor(filters).double(), "d p q c -> d (p q c)")
    _, values, axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    shares = values.square() / values.square().sum().clamp(min=torch.finfo(torch.float64).tiny)
    _, p, q, c = filters.shape
    tiles = rearrange(fixed_signs(axes[:count]), "k (p q c) -> k p q c", p=p, q=q, c=c)
    return PrincipalFilters(tiles, shares[:count])
