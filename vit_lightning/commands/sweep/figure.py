"""The figures of a plan: a metric over an axis or another metric, with error bars."""

from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from vit_lightning.commands.sweep.plan import Figure, SweepPlan, are_numbers
from vit_lightning.commands.sweep.results import SweepRow, grouped, mean_deviation
from vit_lightning.commands.sweep.task_scores import NetRow
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.scores import SCORES
from vit_lightning.files import write_atomically

AXIS_LABELS = {
    **{score.name: score.label for score in SCORES.values()},
    "exaflops": "training compute, exaFLOPs",
    "device_hours": "training time, device hours",
    "images_per_s": "training speed, images/s",
    "mfu": "share of the device's peak (MFU)",
    "data_wait": "share of time that waits for data",
    "memory_gib": "peak memory, GiB",
    "lr": "learning rate",
    "fraction": "share of the training images",
    "weight_decay": "weight decay",
    "max_epochs": "epochs",
    "max_steps": "optimiser steps",
    "image_size": "image size, pixels",
    "batch_size": "batch size per device",
    "seed_everything": "seed",
}
SETS = {"test": "test", "val": "validation", "best val": "best validation", "train": "training"}
SHARES = (*(score.name for score in SCORES.values() if score.is_share), "mfu", "data_wait")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, told apart by colour-blind readers."""
MARKERS = "osD^vPX"
STYLE = {"svg.fonttype": "none", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}


def check_installed() -> None:
    """Say before hours of runs that their figures could not be drawn."""
    if find_spec("matplotlib") is None:
        raise InputError('figure needs matplotlib: pip install "vit-lightning[figures]", or take it out of the plan')


def draw(figure: Figure, plan: SweepPlan, rows: list[SweepRow], path: Path) -> None:
    """Draw a figure of the finished cells into a file, whose ending says its format.

    Raises:
        InputError: no cell has logged its metric.
    """
    if lacking := missing_metric(figure, plan, rows):
        raise InputError(lacking)
    import matplotlib
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import NullFormatter, PercentFormatter

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": plan.name}):
        canvas = Canvas(figsize=(5.6, 3.8), layout="constrained")
        axes = canvas.subplots()
        lines = grouped(rows, [figure.line] if figure.line else [])
        for number, (labels, group) in enumerate(lines.items()):
            _line(axes, figure, plan, group, number, labels[0] if labels else "ours" if figure.published else None)
        _published(axes, figure)
        axes.set(xlabel=_axis_label(figure.x), ylabel=_axis_label(figure.y), title=figure.title)
        numbers = figure.x not in plan.axes or are_numbers(plan.axes[figure.x])
        axes.set(yscale=figure.yscale, **({"xscale": figure.xscale} if numbers else {}))
        if not numbers:
            axes.margins(x=0.15)
        elif figure.x in plan.axes and not figure.published:
            ticks = [float(label) for label in plan.axes[figure.x]]
            axes.set_xticks(ticks, plan.axes[figure.x])
            axes.xaxis.set_minor_formatter(NullFormatter())
        for axis, name in ((axes.xaxis, figure.x), (axes.yaxis, figure.y)):
            if name.rpartition("/")[2] in SHARES:
                axis.set_major_formatter(PercentFormatter(1))
        axes.grid(alpha=0.25, linewidth=0.6)
        if figure.line or figure.published:
            title = _axis_label(figure.line) if figure.line and not figure.published else None
            axes.legend(title=title, frameon=False, fontsize=7 if figure.published else None)
        drawing = BytesIO()
        canvas.savefig(
            drawing, format=path.suffix[1:], dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None
        )
    write_atomically(path, drawing.getvalue())


def missing_metric(figure: Figure, plan: SweepPlan, rows: list[SweepRow]) -> str | None:
    """Say which metric of a figure none of the finished cells has logged, and the nearest that one has."""
    found = {name for row in rows for name in row.metrics}
    lacking = next((name for name in (figure.y, figure.x) if name not in found.union(plan.axes)), None)
    return lacking and f"figure of plan {plan.name}: no run has logged {lacking}{did_you_mean(lacking, found)}"


def _line(axes: Any, figure: Figure, plan: SweepPlan, rows: list[SweepRow], number: int, label: str | None) -> None:
    """One line: a point per group of runs that differ in nothing but the axis that is averaged over."""
    points = []
    for group in grouped(rows, [axis for axis in plan.axes if axis != figure.spread]).values():
        y = mean_deviation(group, figure.y)
        x = _x(figure, plan, group)
        if x is not None and y is not None:
            points.append((*x, *y))
    if not points:
        return
    if not isinstance(points[0][0], str):
        points.sort()
    x, dx, y, dy = zip(*points, strict=True)
    look = {"marker": MARKERS[number % len(MARKERS)], "color": COLOURS[number % len(COLOURS)]}
    look["linestyle"] = "none" if isinstance(x[0], str) or figure.x == "seed_everything" else "-"  # seeds have no order
    spread = {"yerr": dy if any(dy) else None, "xerr": dx if any(dx) else None}
    axes.errorbar(x, y, **spread, **look, label=label, capsize=3, markersize=5, linewidth=1.5)


def _published(axes: Any, figure: Figure) -> None:
    """Published lines, in grey and with open markers."""
    for number, line in enumerate(figure.published_lines):
        look = {"marker": MARKERS[number % len(MARKERS)], "color": "#777777", "markerfacecolor": "none"}
        axes.plot(line.x, line.y, **look, linestyle=":", label=f"{line.name} ({line.source})", markersize=4)


def _x(figure: Figure, plan: SweepPlan, group: list[SweepRow]) -> tuple[Any, float] | None:
    if figure.x not in plan.axes:
        return mean_deviation(group, figure.x)
    label = group[0].cell.labels[figure.x]
    return float(label) if are_numbers(plan.axes[figure.x]) else label, 0.0


def _axis_label(name: str) -> str:
    """Label of an axis of a figure."""
    group, _, last = name.rpartition("/")
    word = AXIS_LABELS.get(last.rpartition(".")[2], last)
    return f"{SETS[group]} {word}" if group in SETS else word


def draw_groups(plan: SweepPlan, rows: list[NetRow], path: Path) -> str | None:
    """Draw bars of a table's averages, a group of bars for each average and a bar for each net.

    Returns:
        What became of it, as a line; None for a table without groups.
    """
    assert plan.table
    means = [name for name in plan.table.averages if any(name in row.scores for row in rows)]
    if not means:
        return "figure   left out: no net has a score for all tasks of a group" if plan.table.groups else None
    if find_spec("matplotlib") is None:
        return 'figure   left out: it needs matplotlib: pip install "vit-lightning[figures]"'
    import matplotlib
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import PercentFormatter

    shown = [row for row in rows if any(name in row.scores for name in means)]
    width = 0.8 / len(shown)
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": plan.name}):
        canvas = Canvas(figsize=(2 + 1.4 * len(means), 3.8), layout="constrained")
        axes = canvas.subplots()
        for number, row in enumerate(shown):
            found = [(place, row.scores[name]) for place, name in enumerate(means) if name in row.scores]
            places = [place - 0.4 + width * (number + 0.5) for place, _ in found]
            spread = [stat.deviation or 0 for _, stat in found]
            label = row.net if row.source is None else f"{row.net} ({row.source})"
            axes.bar(
                places,
                [stat.mean for _, stat in found],
                width,
                yerr=spread if any(spread) else None,
                capsize=3,
                color=COLOURS[number % len(COLOURS)],
                label=label,
            )
        axes.set_xticks(range(len(means)), means)
        axes.set_ylabel(_axis_label(plan.table.y))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.legend(frameon=False, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.1))
        drawing = BytesIO()
        canvas.savefig(drawing, format="svg", metadata={"Date": None})
    write_atomically(path, drawing.getvalue())
    return f"figure   {path}"
