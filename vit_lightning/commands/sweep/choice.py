"""From the first stage of a plan to the second: the setting that the runs on held-out images choose."""

from collections.abc import Iterable
from dataclasses import replace
from math import isfinite, nan
from pathlib import Path
from statistics import fmean

from vit_lightning.commands.sweep.plan import Cell, Choice, SweepPlan
from vit_lightning.commands.sweep.results import SweepRow, grouped, read_rows
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.scores import SCORES, best_value, score_of

Labels = tuple[str, ...]


def settled(plan: SweepPlan, runs: Path) -> SweepPlan:
    """Return a plan with those of its cells whose setting is chosen; a plan without a choice as it is.

    Args:
        plan: The plan.
        runs: Folder of the runs; whoever ran those of the first stage.

    Raises:
        InputError: a run of the first stage has not logged the metric that decides.
    """
    if (choice := plan.choice) is None:
        return plan
    chosen = _chosen(choice, read_rows(choice.plan, runs))
    cells = [cell for cell in plan.cells if chosen.get(at(cell, choice.per)) == at(cell, choice.over)]
    return replace(plan, cells=cells)


def undecided(plan: SweepPlan, runs: Path) -> list[tuple[Cell, str]]:
    """Return the runs whose setting is not chosen yet, each with its first setting, and what the choice lacks."""
    if (choice := plan.choice) is None:
        return []
    needed = _counts(choice, choice.plan.cells)
    have = _counts(choice, (row.cell for row in read_rows(choice.plan, runs)))
    lacking = {group: count - have.get(group, 0) for group, count in needed.items()}
    first = {at(cell, open_axes(plan)): cell for cell in reversed(plan.cells)}.values()
    return [
        (cell, f"its choice lacks {lacking[group]} of {needed[group]} runs of {choice.plan.name}")
        for cell in reversed(list(first))
        if lacking[group := at(cell, choice.per)]
    ]


def unlogged(plan: SweepPlan, rows: list[SweepRow]) -> str | None:
    """Say that none of the runs that choose has logged the metric that decides, if that is so."""
    found = {name for row in rows for name in row.metrics}
    lacks = plan.by not in found
    return f"plan {plan.name}: no run has logged {plan.by}{did_you_mean(plan.by or '', found)}" if lacks else None


def doubted(plan: SweepPlan) -> str | None:
    """Say that the metric that decides is none of the table of scores, if that is so; another may log it."""
    by = plan.choice.plan.by if plan.choice else None
    if by is None or score_of(by):
        return None
    split = by.rpartition("/")[0]
    hint = did_you_mean(by, [f"{split}/{name}" for name in SCORES])
    return (
        f"plan {plan.name} chooses by {by}, which Classifier does not log by itself: a model or callback of your own, "
        f"or a set of --data.also, must do so{hint}"
    )


def at(cell: Cell, axes: Iterable[str]) -> Labels:
    """Labels of a cell on some axes."""
    return tuple(cell.labels[axis] for axis in axes)


def open_axes(plan: SweepPlan) -> list[str]:
    """Axes of a plan whose labels are all run, those of the settings left out."""
    return [axis for axis in plan.axes if plan.choice is None or axis not in plan.choice.over]


def _chosen(choice: Choice, rows: list[SweepRow]) -> dict[Labels, Labels]:
    """The chosen setting of each group whose runs have all finished; of equal settings the first."""
    chosen, needed, by = {}, _counts(choice, choice.plan.cells), choice.plan.by
    assert by
    if rows and (sentence := unlogged(choice.plan, rows)):
        raise InputError(sentence)
    for group, candidates in grouped(rows, choice.per).items():
        if len(candidates) < needed[group]:
            continue
        if lacking := next((row.cell for row in candidates if not isfinite(row.metrics.get(by, nan))), None):
            raise InputError(f"{lacking.place} has not logged a number as {by}, by which plan {lacking.plan} chooses")
        means = {
            setting: fmean(row.metrics[by] for row in same)
            for setting, same in grouped(candidates, choice.over).items()
        }
        best = best_value(by, means.values())
        chosen[group] = next(setting for setting, mean in means.items() if mean == best)
    return chosen


def _counts(choice: Choice, cells: Iterable[Cell]) -> dict[Labels, int]:
    counts: dict[Labels, int] = {}
    for cell in cells:
        counts[at(cell, choice.per)] = counts.get(at(cell, choice.per), 0) + 1
    return counts
