"""Several runs side by side: scores, cost, and the settings in which they differ."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from vit_lightning.commands.report import sources, wording
from vit_lightning.commands.report.collect import Run
from vit_lightning.errors import listing
from vit_lightning.evaluation.scores import best_value
from vit_lightning.runs.loggers import flat
from vit_lightning.terminal import near

PARTS = ("model", "data", "trainer", "seed_everything")
"""What of a config decides what a run learns."""
MOST_ROWS = 200


class Cell(NamedTuple):
    """What a run has in a row."""

    said: str
    is_best: bool = False


class Row(NamedTuple):
    """A name, and a cell of each run."""

    name: str
    cells: list[Cell]
    unlike: str = ""
    """In what the images differ that the cells are of; empty: in nothing that is known."""


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return what each run is called: experiment and number, where these tell them apart, else its folder."""
    short = [run.name for run in runs]
    return short if len(set(short)) == len(runs) else [str(near(run.folder)) for run in runs]


def scores(runs: Sequence[Run]) -> list[Row]:
    """Return a row for each score that a run has; the best of several on the same images is marked."""
    found = [{(row.of.partition(",")[0], row.name): row for row in wording.score_rows(run)} for run in runs]
    names, rows = names_of(runs), []
    for key in dict.fromkeys(key for one in found for key in one):
        have = [one[key] for one in found if key in one]
        values = [row.value for row in have]
        called = [name for one, name in zip(found, names, strict=True) if key in one]
        unlike = "; ".join(sources.differences([row.source for row in have], called))
        has_best = not unlike and bool(have[0].metric) and len(set(values)) > 1
        best = best_value(have[0].metric, values) if has_best else None
        cells = [Cell(one[key].said, one[key].value == best) if key in one else Cell("") for one in found]
        rows.append(Row(f"{key[0]} {key[1]}", cells, unlike))
    return rows


def without_best(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each reason for which rows have no best, since their cells are of different images."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.unlike:
            names.setdefault(row.unlike, []).append(row.name)
    return [f"No best is marked of {listing(of)}, which are of different images: {why}." for why, of in names.items()]


def beside(runs: Sequence[Run], rows_of: Callable[[Run], wording.Rows]) -> list[Row]:
    """Return rows of several runs under the same names."""
    found = [dict(rows_of(run)) for run in runs]
    names = dict.fromkeys(name for one in found for name in one)
    return [Row(name, [Cell(one.get(name, "")) for one in found]) for name in names]


def different_settings(runs: Sequence[Run]) -> list[Row]:
    """Return the settings in which the runs differ, under the names of their flags."""
    settings = []
    for run in runs:
        told = flat({part: run.config[part] for part in PARTS if part in run.config})
        settings.append({name.replace("init_args.", ""): _typed(value) for name, value in told.items()})
    names = sorted({name for one in settings for name in one})
    rows = [Row(name, [Cell(one.get(name, "")) for one in settings]) for name in names]
    return [row for row in rows if len({cell.said for cell in row.cells}) > 1][:MOST_ROWS]


def _typed(value: bool | float | str) -> str:
    """Return a setting as one types it."""
    return str(value).lower() if isinstance(value, bool) else "unset" if value == "None" else str(value)
