"""Maps over photographs: rollout, attention of heads, components of the features, relevance, norms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.transforms.v2.functional import gaussian_blur

from vit_lightning.inspection.drawing.style import AMOUNT, SIGNED, new_figure, plain, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TAIL = 0.03
"""Share of the patches at either end of a map that are drawn alike."""
PANEL = 1.55
"""Inches of a picture's side."""


@dataclass
class Photograph:
    """An image as the net saw it, and maps of it."""

    name: str
    picture: np.ndarray
    """In [0, 1], `(y, x, 3)` or `(y, x)`."""
    maps: Mapping[str, Any] = field(default_factory=dict)
    """Arrays by name."""
    said: str = ""
    """What the net takes it for."""


def as_picture(image: Tensor) -> np.ndarray:
    """Returns an image `(c, y, x)`, uint8 or in [0, 1], as it is drawn; of many channels the mean."""
    pixels = image.detach().cpu().float() / (255 if image.dtype == torch.uint8 else 1)
    shown = pixels[:3] if len(pixels) in (3, 4) else pixels.mean(0, keepdim=True)
    return shown.squeeze(0).numpy() if len(shown) == 1 else shown.permute(1, 2, 0).numpy()


def stretched(values: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """Returns a map `(y, x)` of patches as large as its image, in [0, 1], blurred by half a patch as in the paper.

    The darkest and the brightest 3 % of the patches have one value each: some patches draw much attention from
    everywhere, and would leave the others without contrast.
    """
    found = np.asarray(values, dtype=np.float32)
    low, high = np.percentile(found, [100 * TAIL, 100 * (1 - TAIL)])
    clipped = torch.from_numpy((found.clip(low, high) - low) / max(high - low, 1e-12)).float()[None, None]
    large = interpolate(clipped, size=tuple(size[:2]), mode="bilinear", align_corners=False)
    blurred = gaussian_blur(large, *_kernel(found.shape, size[:2]))
    return blurred[0, 0].numpy()


def _kernel(patches: Sequence[int], size: Sequence[int]) -> tuple[list[int], list[float]]:
    """Returns size and deviation of a blur along x and y, for `(y, x)` patches in so many pixels; a size is odd."""
    sizes, deviations = [], []
    for count, side in zip(reversed(patches), reversed(size), strict=True):
        deviation = max(side / count / 2, 0.1)
        sizes.append(2 * min(int(2 * deviation), side - 1) + 1)  # an image is mirrored at its edge once
        deviations.append(deviation)
    return sizes, deviations


def rollouts(photographs: Sequence[Photograph]) -> "Figure":
    """Draws each image, its rollout, and the image seen through it (paper, figures 6 and 14)."""
    note = "from the least value to the greatest, 3 % of the patches at either end alike; right: the image times it"
    with styled():
        figure, groups = _sheet(photographs, 3, 2, "Attention rollout", note)
        drawn: Any = None
        for photograph, (first, second, third) in zip(photographs, groups, strict=False):
            seen = stretched(photograph.maps["rollout"], photograph.picture.shape)
            through = seen if photograph.picture.ndim == 2 else seen[..., None]
            _show(first, photograph.picture, photograph.name)
            drawn = second.imshow(seen, cmap=AMOUNT, vmin=0, vmax=1)
            _show(third, photograph.picture * through)
        figure.colorbar(drawn, ax=_all(groups), label="rollout", location="right", shrink=0.4, aspect=30, pad=0.01)
    return figure


def components(photographs: Sequence[Photograph], shares: Sequence[float]) -> "Figure":
    """Draws each image beside the first three principal components of its patches as red, green and blue."""
    said = " + ".join(f"{100 * share:.0f}" for share in shares)
    note = f"red, green, blue: components 1, 2, 3 of all images together, {said} % of the variance"
    with styled():
        figure, groups = _sheet(photographs, 2, 4, "Principal components of the features", note)
        for photograph, (first, second) in zip(photographs, groups, strict=False):
            _show(first, photograph.picture, photograph.name)
            _patches(second, photograph.maps["pca"], photograph)
    return figure


def relevances(photographs: Sequence[Photograph]) -> "Figure":
    """Draws which patches speak for a class: without gradients, and with them."""
    note = "middle: without gradients, red for the class and blue against it; right: with gradients"
    with styled():
        figure, groups = _sheet(photographs, 3, 2, "Which patches speak for the class", note, bars=2)
        left: Any = None
        right: Any = None
        for photograph, (first, second, third) in zip(photographs, groups, strict=False):
            size = photograph.picture.shape
            _show(first, photograph.picture, photograph.name)
            signed = np.asarray(photograph.maps["gradient_free_relevance"])
            shown = signed / max(float(np.percentile(np.abs(signed), 100 * (1 - TAIL))), 1e-12)
            left = _patches(second, shown, photograph, cmap=SIGNED, vmin=-1, vmax=1)
            plain(second, photograph.said)
            _faded(third, photograph.picture)
            seen = stretched(photograph.maps["gradient_relevance"], size)
            right = third.imshow(seen, cmap=AMOUNT, vmin=0, vmax=1, alpha=0.75)
        figure.colorbar(left, ax=_all(groups), label="without gradients", shrink=0.3, aspect=25, pad=0.01)
        figure.colorbar(right, ax=_all(groups), label="with gradients", shrink=0.3, aspect=25, pad=0.01)
    return figure


def heads(photograph: Photograph, layer: int, chosen: Sequence[int], row: str) -> "Figure":
    """Draws the attention of one layer's heads, a map each.

    Args:
        photograph: the image.
        layer: number of the layer, whose maps `(h, y, x)` are `heads_LAYER` of the photograph.
        chosen: numbers of the heads.
        row: whose attention it is, in words.
    """
    count = len(chosen) + 2
    columns = min(9, count)
    rows = -(-count // columns)
    found = np.asarray(photograph.maps[f"heads_{layer}"])
    with styled():
        title = f"Attention of layer {layer}"
        figure = new_figure(PANEL * columns + 0.8, (PANEL + 0.2) * rows + 0.55, title, f"attention of {row}")
        grid = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes in grid:
            plain(axes)
        _show(grid[0], photograph.picture, photograph.name)
        drawn: Any = None
        maps = {"mean of all heads": found.mean(0)} | {f"head {head}": found[head] for head in chosen}
        for axes, (name, values) in zip(grid[1:], maps.items(), strict=False):
            most = float(values.max())
            drawn = _patches(axes, values / max(most, 1e-12), photograph, cmap="viridis", vmin=0, vmax=1)
            plain(axes, f"{name}, up to {100 * most:.1f} %", 7)
        figure.colorbar(drawn, ax=list(grid), label="share of its largest", shrink=0.7, aspect=25, pad=0.01)
    return figure


def remedies(photographs: Sequence[Photograph], threshold: float) -> "Figure":
    """Draws the norms of patches behind the last block, before and after test-time registers."""
    note = f"norms behind the last block, from 0 to twice the limit {threshold:.4g}; right: with test-time registers"
    with styled():
        figure, groups = _sheet(photographs, 3, 2, "High-norm artefacts and their remedy", note)
        drawn: Any = None
        for photograph, (first, second, third) in zip(photographs, groups, strict=False):
            _show(first, photograph.picture, photograph.name)
            for axes, name in ((second, "norms"), (third, "norms_with_registers")):
                drawn = _patches(axes, photograph.maps[name], photograph, cmap=AMOUNT, vmin=0, vmax=2 * threshold)
        figure.colorbar(drawn, ax=_all(groups), label="norm", location="right", shrink=0.4, aspect=30, pad=0.01)
    return figure


def _sheet(
    photographs: Sequence[Photograph], panels: int, groups: int, title: str, note: str, bars: int = 1
) -> tuple["Figure", list[Any]]:
    """Returns a figure with a group of panels for each photograph, `groups` in a row, and room for colour bars."""
    groups = min(groups, len(photographs))
    rows = -(-len(photographs) // groups)
    height, width = photographs[0].picture.shape[:2]
    figure = new_figure(PANEL * panels * groups + 1.1 * bars, (PANEL * height / width + 0.22) * rows + 0.9, title, note)
    grid = figure.subplots(rows, panels * groups, squeeze=False)
    for axes in grid.flatten():
        plain(axes)
    cells = [axes_row[start : start + panels] for axes_row in grid for start in range(0, panels * groups, panels)]
    for unused in cells[len(photographs) :]:
        for axes in unused:
            axes.set_visible(False)
    return figure, cells


def _all(groups: list[Any]) -> list[Any]:
    return [axes for group in groups for axes in group]


def _show(axes: Any, picture: np.ndarray, title: str = "") -> None:
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
    plain(axes, title)


def _patches(axes: Any, values: Any, photograph: Photograph, **look: Any) -> Any:
    """Draws a map of patches, a square each, as large as its image."""
    height, width = photograph.picture.shape[:2]
    return axes.imshow(values, extent=(-0.5, width - 0.5, height - 0.5, -0.5), interpolation="nearest", **look)


def _faded(axes: Any, picture: np.ndarray) -> None:
    axes.imshow(picture if picture.ndim == 2 else picture.mean(-1), cmap="gray", vmin=0, vmax=1)
