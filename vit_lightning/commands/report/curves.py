"""Curves of one run, or of several over each other, as SVG whose colours follow the reader's theme."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from vit_lightning.commands.report.run import Run
from vit_lightning.commands.report.tables import Point
from vit_lightning.evaluation.scores import SCORES, score_of, set_and_score
from vit_lightning.inspection.drawing.style import printable, styled
from vit_lightning.terminal import number, percentage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THEME = {
    "#010101": ("ink", "#1b1f24", "#e6e8eb"),
    "#020202": ("rule", "#8a929c", "#6f7782"),
    "#030303": ("a", "#0060a0", "#62b5ee"),
    "#040404": ("b", "#b84a00", "#ff9a57"),
    "#050505": ("c", "#00795a", "#4fd0a5"),
    "#060606": ("d", "#a3467d", "#eb9fcb"),
    "#070707": ("e", "#8a6100", "#f0c04a"),
    "#080808": ("f", "#5b4fc0", "#b3a9ff"),
}
"""What matplotlib draws with: the name of a colour, and its values on white and on black."""
INK, RULE, *LINES = THEME
DASHES = ("-", "--", ":", "-.")
MOST_POINTS = 300
"""Of a line; of more, the mean of each stretch is drawn."""
MOST_IN_A_FIGURE, FEWEST_POINTS = 4_000, 40
"""Points of all lines of a figure, and how many a line of many keeps."""
MOST_NAMED = 16
"""Lines that a legend names."""
SIZE = 4.8, 3.1
"""Inches, in which letters of 11 points can be read on a phone."""


class Panel(NamedTuple):
    """What stands in one figure: metrics of one unit."""

    title: str
    metrics: tuple[str, ...]
    unit: str
    share: bool = False


@dataclass
class Picture:
    """A figure of the page."""

    title: str
    source: str
    """Address of its data: URI."""
    alt: str
    wide: bool = False
    caption: str = ""


def panels(runs: Sequence[Run]) -> list[Panel]:
    """Return the figures for which one of the runs has values."""
    known = {metric for run in runs for metric in run.curves}
    scores = [name for name in known if name.startswith("val/") and (one := score_of(name)) and one.is_share]
    order = list(SCORES)
    scores.sort(key=lambda name: (order.index(name.rpartition("/")[2]), name))
    losses = [name for name in sorted(known) if name.startswith("val/") and name.rpartition("/")[2] == "loss"]
    made = [
        Panel("Loss", ("train/loss", *losses), "loss"),
        Panel("Validation scores", tuple(scores[:6]), "share of the images", share=True),
        Panel("Learning rate", ("lr",), "learning rate"),
        Panel("Speed", ("perf/images_per_s",), "images/s"),
        Panel("Share of the device's peak (MFU)", ("perf/mfu",), "share of the peak", share=True),
        Panel("Waiting for data", ("perf/data_wait",), "share of the time", share=True),
        Panel("Norm of the gradient", ("train/gradient_norm",), "norm before clipping"),
    ]
    kept = [panel._replace(metrics=tuple(name for name in panel.metrics if name in known)) for panel in made]
    return [panel for panel in kept if panel.metrics]


def draw_run(run: Run) -> list[Picture]:
    """Draw the curves of a run."""
    return [_draw(panel, {_label(name): run.curves[name] for name in panel.metrics}) for panel in panels([run])]


def draw_runs(runs: Sequence[Run], names: Sequence[str]) -> list[Picture]:
    """Draw each metric of several runs over each other.

    Args:
        runs: the runs.
        names: what each is called.
    """
    pictures = []
    for panel in panels(runs):
        for metric in panel.metrics[:3]:
            lines = {name: run.curves[metric] for name, run in zip(names, runs, strict=True) if metric in run.curves}
            title = _label(metric) if panel.metrics[1:] or panel.title == "Loss" else panel.title
            pictures.append(_draw(panel._replace(title=title[0].upper() + title[1:]), lines, is_named=True))
    return pictures


def _label(metric: str) -> str:
    group, _, last = metric.partition("/")
    called, name = set_and_score(metric)
    score = SCORES.get(name)
    said = score.label if score else last.replace("_", " ")
    said = {"lr": "learning rate", "images_per_s": "speed", "data_wait": "waiting"}.get(last or group, said)
    known = SCORES.get(called)
    of = f"on {known.short if known else called} " if called else ""
    return {"train": "training ", "val": "validation "}.get(group, "") + of + said


def _draw(panel: Panel, lines: Mapping[str, Sequence[Point]], is_named: bool = False) -> Picture:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    with styled(), _letters():
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        most = min(MOST_POINTS, max(FEWEST_POINTS, MOST_IN_A_FIGURE // len(lines)))
        for place, (name, points) in enumerate(lines.items()):
            steps, values = zip(*thinned([(step + 1, value) for step, value in points], most), strict=True)
            few = len(steps) <= 30
            axes.plot(
                steps,
                values,
                DASHES[place // len(LINES) % len(DASHES)],
                color=LINES[place % len(LINES)],
                linewidth=1.6,
                marker="o" if few else None,
                markersize=3.5,
                label=_legend(name) if place < MOST_NAMED else "_",
            )
        axes.set(xlabel="optimiser step", ylabel=panel.unit)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        if panel.share:
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
        axes.grid(color=RULE, alpha=0.35, linewidth=0.6)
        if is_named or len(lines) > 1:
            more = f"and {len(lines) - MOST_NAMED} more" if len(lines) > MOST_NAMED else None
            axes.legend(fontsize=9 if len(lines) <= 6 else 7, ncols=1 if len(lines) <= 8 else 2, title=more)
        source = svg(figure)
    return Picture(panel.title, source, _alt(panel, lines))


def _legend(name: str) -> str:
    """Return a name as a legend shows it, which leaves out those that begin with an underscore."""
    return f" {printable(name, 32)}" if name.startswith("_") else printable(name, 32)


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Return at most so many points: the means of stretches of equal length, and the last one as it is."""
    if len(points) <= most:
        return list(points)
    import numpy as np

    rows = np.asarray(points[:-1], float)
    parts = np.array_split(rows, most - 1)
    return [(round(float(part[:, 0].mean())), float(part[:, 1].mean())) for part in parts] + [points[-1]]


def _alt(panel: Panel, lines: Mapping[str, Sequence[Point]]) -> str:
    """Say what a curve shows to those who cannot see it."""
    said = percentage if panel.share else number
    parts = []
    for name, points in list(lines.items())[:8]:
        (first, begin), (last, end) = points[0], points[-1]
        if first == last:
            parts.append(f"{printable(name, 60)} is {said(end)} at step {last + 1:,}")
        else:
            parts.append(
                f"{printable(name, 60)} goes from {said(begin)} at step {first + 1:,} to {said(end)} at {last + 1:,}"
            )
    more = f"; and {len(lines) - 8} more lines" if len(lines) > 8 else ""
    return f"Line chart of {panel.unit} by optimiser step: {'; '.join(parts)}{more}."


def _letters() -> Any:
    import matplotlib

    look = ("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "text.color")
    return matplotlib.rc_context(
        {"font.size": 11, "axes.labelsize": 11, "font.family": "sans-serif", **dict.fromkeys(look, INK)}
    )


def svg(figure: "Figure") -> str:
    """Return a figure as a data: URI, its background left out and its colours those of the reader's theme."""
    drawn = BytesIO()
    figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = drawn.getvalue().decode()
    for placeholder, (name, *_) in THEME.items():
        text = text.replace(placeholder, f"var(--{name})")
    light, dark = (";".join(f"--{row[0]}:{row[place]}" for row in THEME.values()) for place in (1, 2))
    style = f"<style>svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    head, sign, rest = text[text.index("<svg") :].partition(">")
    return "data:image/svg+xml;base64," + base64.b64encode(f"{head}{sign}{style}{rest}".encode()).decode()
