"""Charts over all images: distances, positions, filters, norms, ablations, a map of images."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from vit_lightning.inspection.ablation import Lost
from vit_lightning.inspection.artefacts import LEVELS, NormReport
from vit_lightning.inspection.drawing.style import AMOUNT, COLOURS, new_figure, plain, printable, styled
from vit_lightning.inspection.embeddings import NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TILES = 16
"""Rows and columns of maps in the figure of positions; of a larger grid every second or third place is shown."""
MOST_NAMED = 14
"""Classes that a legend names."""


def distances(found: Tensor, uniform: float, images: int) -> "Figure":
    """Draws the mean attention distance `(layers, h)` in pixels against the layer (paper, figures 7 and 11).

    Args:
        found: the distances.
        uniform: that of attention to all patches alike.
        images: how many images they are the mean of.
    """
    layers, heads = found.shape
    with styled():
        figure = new_figure(5.6, 3.9, "Mean attention distance", f"a point is a head; mean of {images:,} images")
        axes = figure.subplots()
        for head in range(heads):
            axes.scatter(range(layers), found[:, head], s=16, color=COLOURS[0], alpha=0.65, linewidths=0)
        axes.plot(range(layers), found.mean(1), color=COLOURS[1], linewidth=1.5, label="mean of the heads")
        axes.axhline(
            uniform, color="#777777", linestyle="--", linewidth=1, label=f"uniform attention, {uniform:.1f} px"
        )
        axes.set(xlabel="layer", ylabel="distance, pixels", ylim=(0, None))
        _whole_numbers(axes.xaxis)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(fontsize=8, loc="lower right")
    return figure


def positions(similarity: Tensor, said: str) -> "Figure":
    """Draws the similarity of position embeddings `(y, x, y, x)`, a tile for each place (paper, figures 7 and 10)."""
    rows, columns = similarity.shape[:2]
    step = -(-max(rows, columns) // MOST_TILES)
    shown_rows, shown_columns = range(0, rows, step), range(0, columns, step)
    note = said + (f"; every {step}. place of {rows} x {columns}" if step > 1 else f"; {rows} x {columns} places")
    with styled():
        side = 7.0 / max(len(shown_rows), len(shown_columns))
        size = len(shown_columns) * side + 1.4, len(shown_rows) * side + 1.0
        figure = new_figure(*size, "Similarity of position embeddings", note)
        grid = figure.subplots(len(shown_rows), len(shown_columns), squeeze=False, gridspec_kw={"wspace": 0.08})
        drawn: Any = None
        for axes_row, y in zip(grid, shown_rows, strict=True):
            for axes, x in zip(axes_row, shown_columns, strict=True):
                drawn = axes.imshow(similarity[y, x], cmap="viridis", vmin=-1, vmax=1)
                plain(axes)
                if x == 0:
                    axes.set_ylabel(str(y), fontsize=7, rotation=0, labelpad=6, va="center")
                if y == shown_rows[-1]:
                    axes.set_xlabel(str(x), fontsize=7)
        figure.colorbar(drawn, ax=grid, label="cosine similarity", shrink=0.6, aspect=30, pad=0.02)
    return figure


def filters(tiles: Tensor, shares: Tensor, said: str) -> "Figure":
    """Draws components of filters `(k, p, q, c)` as pictures (paper, figure 7, left); grey is 0."""
    columns = min(7, len(tiles))
    rows = -(-len(tiles) // columns)
    with styled():
        figure = new_figure(1.0 * columns + 0.3, 1.2 * rows + 0.8, "Principal components of the filters", said)
        grid = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes in grid:
            plain(axes)
        for number, (axes, tile) in enumerate(zip(grid, tiles, strict=False)):
            axes.imshow(coloured(tile), cmap="gray", vmin=0, vmax=1)
            plain(axes, f"{number + 1}: {100 * float(shares[number]):.1f} %", 7)
    return figure


def coloured(tile: Tensor) -> np.ndarray:
    """Returns a filter `(p, q, c)` as a picture in [0, 1]: three channels as colours, others as their mean."""
    picture = tile if tile.shape[-1] == 3 else tile.mean(-1)
    return np.asarray(0.5 + picture / (2 * picture.abs().max().clamp(min=1e-12)))


def norms(report: NormReport, images: int) -> "Figure":
    """Draws the norms of patches behind every block, with the limit from which on they are artefacts."""
    layers = np.arange(len(report.quantiles))
    band = {level: report.quantiles[:, place] for place, level in enumerate(LEVELS)}
    found = f"{100 * report.share:.3g} % of the patches of {images:,} images are artefacts"
    note = f"{found}; the largest norm is {report.largest:.2f} x the median"
    with styled():
        figure = new_figure(5.6, 3.9, "Norms of the patches", note)
        axes = figure.subplots()
        axes.fill_between(layers, band[0.05], band[0.95], color=COLOURS[0], alpha=0.18, linewidth=0, label="5 to 95 %")
        axes.fill_between(layers, band[0.25], band[0.75], color=COLOURS[0], alpha=0.35, linewidth=0, label="25 to 75 %")
        axes.plot(layers, band[0.5], color=COLOURS[0], label="median")
        axes.plot(layers, band[0.999], color=COLOURS[1], linestyle=":", label="99.9 %")
        axes.plot(layers[-1:], [report.threshold], marker="_", markersize=16, color="black", linestyle="none",
                  label="artefacts lie above")  # fmt: skip
        axes.set(xlabel="behind block", ylabel="norm", yscale="log")
        axes.yaxis.set_major_formatter("{x:g}")
        _whole_numbers(axes.xaxis)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(fontsize=8)
    return figure


def lost_heads(lost: Mapping[str, Lost], images: int) -> "Figure":
    """Draws what is lost without each head, `(layers, h)`, side by side for each replacement."""
    layers, heads = next(iter(lost.values())).features.shape
    with styled():
        size = (0.32 * heads + 1.2) * len(lost) + 1.2, 0.26 * layers + 1.6
        figure = new_figure(max(size[0], 5.0), max(size[1], 3.2), "What is lost without a head", _measure(images))
        most = max(float(one.features.max()) for one in lost.values()) or 1.0
        grid = figure.subplots(1, len(lost), squeeze=False)[0]
        drawn: Any = None
        for axes, (by, one) in zip(grid, lost.items(), strict=True):
            drawn = axes.imshow(one.features, cmap=AMOUNT, vmin=0, vmax=most, aspect="auto", origin="lower")
            axes.set(title=REPLACED[by], xlabel="head", ylabel="layer")
            _whole_numbers(axes.xaxis, axes.yaxis)
        figure.colorbar(drawn, ax=grid, label="1 - cosine of the features")
    return figure


def lost_tokens(lost: Mapping[str, Mapping[str, Lost]], images: int) -> "Figure":
    """Draws what is lost where tokens are replaced behind each block, a line for each kind and replacement."""
    with styled():
        figure = new_figure(5.6, 3.9, "What is lost without tokens", _measure(images))
        axes = figure.subplots()
        for style, (by, groups) in zip(("-", "--"), lost.items(), strict=False):
            for colour, (name, one) in zip(COLOURS, groups.items(), strict=False):
                label = f"{name}, {REPLACED[by]}"
                axes.plot(one.features, style, color=colour, marker="o", markersize=3, linewidth=1.3, label=label)
        axes.set(xlabel="behind block", ylabel="1 - cosine of the features", ylim=(0, None))
        _whole_numbers(axes.xaxis)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(fontsize=7)
    return figure


REPLACED = {"mean": "replaced by the mean", "shuffle": "of another image"}


def embedding(places: np.ndarray, method: str, labels: np.ndarray | None, names: Sequence[str]) -> "Figure":
    """Draws a map of images `(n, 2)`, coloured by class.

    Args:
        places: where the images lie.
        method: what made the map.
        labels: a class per image, below 0 where nobody knows it; None: all the same.
        names: of the classes.
    """
    known = labels is not None and (labels >= 0).any()
    note = f"{len(places):,} images" + ("" if known else ", whose classes are not known")
    with styled():
        figure = new_figure(6.4, 5.0, f"Map of the images, {NAMES[method]} of their features", note)
        axes = figure.subplots()
        if labels is None or not known:
            axes.scatter(places[:, 0], places[:, 1], s=10, color="#777777", linewidths=0)
        else:
            _classes(axes, places, labels, names)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal", adjustable="datalim")
        if method == "pca":
            axes.set(xlabel="component 1", ylabel="component 2")
    return figure


def _classes(axes: Any, places: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> None:
    """Draws each class in its colour; the most frequent ones are named."""
    import matplotlib

    found, counts = np.unique(labels[labels >= 0], return_counts=True)
    order = found[np.argsort(-counts, kind="stable")]
    colours = matplotlib.colormaps["tab20" if len(found) > 10 else "tab10"].colors  # type: ignore[attr-defined]
    unknown = places[labels < 0]
    axes.scatter(unknown[:, 0], unknown[:, 1], s=8, color="#bbbbbb", linewidths=0)
    for number, label in enumerate(order):
        name = names[label] if label < len(names) else str(label)
        named = printable(name, 24) if number < MOST_NAMED else "_"
        chosen = places[labels == label]
        look = {"color": colours[number % len(colours)], "alpha": 0.85, "label": named}
        axes.scatter(chosen[:, 0], chosen[:, 1], s=10, linewidths=0, **look)
    more = f"and {len(order) - MOST_NAMED} more classes" if len(order) > MOST_NAMED else None
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), title=more, title_fontsize=7, markerscale=1.6)


def _whole_numbers(*axes: Any) -> None:
    """Let an axis have ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True))


def _measure(images: int) -> str:
    return f"mean of {images:,} images; 0: the features stay the same"
