"""Several runs side by side: scores, cost, and the settings in which they differ."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from vit_lightning.commands.report import scores as scored
from vit_lightning.commands.report import settings, sources, wording
from vit_lightning.commands.report.damage import place_of
from vit_lightning.commands.report.run import Run
from vit_lightning.errors import listing
from vit_lightning.evaluation.scores import best_value

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
    return short if len(set(short)) == len(runs) else [str(place_of(run.folder, len(run.folder.parts))) for run in runs]


def scores(runs: Sequence[Run]) -> list[Row]:
    """Return a row for each score that a run has; the best of those on the same images is marked."""
    found = [{(row.of.partition(",")[0], row.name): row for row in scored.score_rows(run)} for run in runs]
    names, rows = names_of(runs), []
    for key in dict.fromkeys(key for one in found for key in one):
        have = [one[key] for one in found if key in one]
        called = [name for one, name in zip(found, names, strict=True) if key in one]
        unlike = "; ".join(sources.differences([row.source for row in have], called))
        best = {row.source: _best_of([other for other in have if other.source == row.source]) for row in have}
        cells = [
            Cell(one[key].said, one[key].value == best[one[key].source]) if key in one else Cell("") for one in found
        ]
        rows.append(Row(f"{key[0]} {key[1]}", cells, unlike))
    return rows


def _best_of(rows: Sequence[scored.ScoreRow]) -> float | None:
    """Return the best of a score on the same images; None: there are no two values, or the score speaks for no run."""
    values = {row.value for row in rows}
    metric = rows[0].metric
    return best_value(metric, values) if metric and len(values) > 1 else None


def unlike_images(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each way in which the cells of rows are of different images, among which none is best."""
    names: dict[tuple[str, bool], list[str]] = {}
    for row in rows:
        if row.unlike:
            names.setdefault((row.unlike, any(cell.is_best for cell in row.cells)), []).append(row.name)
    return [
        f"{'The best is marked among runs with the same images alone' if is_marked else 'No best is marked'}: "
        f"{listing(of)} {'is' if len(of) == 1 else 'are'} of different images ({why})."
        for (why, is_marked), of in names.items()
    ]


def beside(runs: Sequence[Run], rows_of: Callable[[Run], wording.Rows]) -> list[Row]:
    """Return rows of several runs under the same names."""
    found = [dict(rows_of(run)) for run in runs]
    names = dict.fromkeys(name for one in found for name in one)
    return [Row(name, [Cell(one.get(name, "")) for one in found]) for name in names]


def different_settings(runs: Sequence[Run]) -> list[Row]:
    """Return the resumes and the settings in which those runs differ of which these are known, in words."""
    known = [settings.told_by(run) for run in runs if run.configs]
    resumes = [settings.resumes_told(run) for run in runs]
    found = [Row("resumes", [Cell(said) for said in resumes])] if len(set(resumes)) > 1 else []
    for name, words in settings.differing(known):
        said = iter(words)
        found.append(Row(name, [Cell(next(said) if run.configs else "not known") for run in runs]))
    return found[:MOST_ROWS]


def without_settings(runs: Sequence[Run]) -> list[str]:
    """Return a sentence on the runs whose settings are not known, if there are any."""
    names = [name for name, run in zip(names_of(runs), runs, strict=True) if not run.configs]
    return [f"The settings of {listing(names)} are not known."] if names else []
