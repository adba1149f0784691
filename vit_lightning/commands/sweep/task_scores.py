"""The rows of a table by task: what the runs of a plan have come to, and what others have published."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from vit_lightning.commands.sweep.plan import SweepPlan
from vit_lightning.commands.sweep.results import SweepRow, grouped
from vit_lightning.commands.sweep.task_table import TaskTable
from vit_lightning.errors import InputError
from vit_lightning.evaluation.averages import MEAN, averages
from vit_lightning.evaluation.published import PublishedRow, published

Splits = dict[str, dict[str, Any] | None]


@dataclass(frozen=True)
class Stat:
    """A mean; its standard deviation, and of how many runs, where that is known."""

    mean: float
    deviation: float | None = None
    runs: int | None = None


@dataclass
class NetRow:
    """A net: its scores and averages by column, and what of them is missing."""

    net: str
    source: str | None
    """Where its figures are printed; None: they are those of the plan's runs."""
    scores: dict[str, Stat]
    missing: list[str] = field(default_factory=list)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """The chosen setting by task."""


def net_rows(plan: SweepPlan, rows: list[SweepRow], results: Path) -> list[NetRow]:
    """Rows of a plan's table: a net for each combination of its other axes, then the published ones.

    Args:
        plan: A plan with a table, its settings chosen.
        rows: Its finished runs.
        results: Folder of the tables of other plans.
    """
    table, settings = _table(plan), plan.choice.over if plan.choice else []
    nets = [axis for axis in plan.axes if axis not in (table.tasks, plan.spread, *settings)]
    own = [_own(plan, ", ".join(labels) or plan.name, group, results) for labels, group in grouped(rows, nets).items()]
    return own + [_published(table, row) for row in (published(table.published) if table.published else ())]


def _own(plan: SweepPlan, net: str, rows: list[SweepRow], results: Path) -> NetRow:
    table, planned = _table(plan), len(plan.axes[plan.spread]) if plan.spread else 1
    wanted = {**{label: (label, table.y) for label in table.labels}, **table.also}
    by_task = {task: found for (task,), found in grouped(rows, [table.tasks]).items()}
    values = {
        column: {_seed(plan, row): row.metrics[metric] for row in by_task.get(task, []) if metric in row.metrics}
        for column, (task, metric) in wanted.items()
    }
    row = NetRow(net, None, {column: _stat(list(found.values())) for column, found in values.items() if found})
    row.missing = [
        f"{column} ({len(found)} of {planned} runs)" if found else column
        for column, found in values.items()
        if len(found) < planned
    ]
    means: dict[str, list[float]] = {}
    for seed in dict.fromkeys(seed for found in values.values() for seed in found):
        scores = {column: found[seed] for column, found in values.items() if seed in found}
        for name, mean in averages(scores, table.groups).items():
            means.setdefault(name, []).append(mean)
    row.scores |= {name: _stat(found) for name, found in means.items()}
    for column, other in table.plans.items():
        found = _of_other(results / f"{other}.table.json", net)
        row.scores |= {column: found} if found else {}
        row.missing += [] if found else [f"{column} (by the plan {other})"]
    over = plan.choice.over if plan.choice else []
    row.settings = {
        task: {axis: found[0].cell.labels[axis] for axis in over} for task, found in by_task.items() if over
    }
    return row


def _published(table: TaskTable, row: PublishedRow) -> NetRow:
    known = {**averages(row.scores, table.groups), **row.scores}
    columns = [*table.scores, *table.averages]
    scores = {name: Stat(known[name], row.deviations.get(name)) for name in columns if name in known}
    return NetRow(row.net, row.source, scores)


def _of_other(path: Path, net: str) -> Stat | None:
    """The mean of all tasks that another plan's table has for a net, or for its only one."""
    if not path.is_file():
        return None
    try:
        rows = [row for row in json.loads(path.read_text())["rows"] if row["source"] is None]
        same = [row for row in rows if row["net"] == net] or rows[: len(rows) == 1]
        return Stat(**same[0]["scores"][MEAN]) if same and MEAN in same[0]["scores"] else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no table of a plan; remove it, and run its sweep again") from error


def split_facts(plan: SweepPlan, first: list[SweepRow], second: list[SweepRow], runs: Path) -> dict[str, Splits]:
    """Which images the runs of a plan held, by task: of each split their number, hash and absent classes.

    Args:
        plan: A plan with a table.
        first: Its finished runs that chose on held-out images, whose training images are called `choose`.
        second: Its finished runs.
        runs: Folder of the runs.

    Returns:
        Facts by task and split; None where the runs of a task differ in a split. Where a setting was chosen, `val` is
        what it was chosen on, whatever the later runs, which hold nothing out, would validate on.
    """
    found: dict[str, Splits] = {}
    for row in [*first, *second]:
        task = found.setdefault(row.cell.labels[_table(plan).tasks], {})
        facts = _split_file(next((runs / row.cell.place).glob("*/0/splits.json"), None))
        chooses = row.cell.plan != plan.name
        for split, each in facts.items():
            if split == "val" and plan.choice and not chooses:
                continue
            name = "choose" if split == "train" and chooses else split
            task[name] = each if task.setdefault(name, each) == each else None
    return found


def _seed(plan: SweepPlan, row: SweepRow) -> str:
    return row.cell.labels[plan.spread] if plan.spread else ""


def _stat(values: list[float]) -> Stat:
    return Stat(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def _table(plan: SweepPlan) -> TaskTable:
    assert plan.table
    return plan.table


def _split_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not readable; remove it, and the table leaves out its splits") from error
    return found if isinstance(found, dict) else {}
