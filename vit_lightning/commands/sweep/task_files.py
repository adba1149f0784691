"""A table by task as files and on the screen: a row per net in CSV and JSON, the longer side downwards for readers."""

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from vit_lightning.commands.sweep.plan import SweepPlan
from vit_lightning.commands.sweep.task_scores import NetRow, Splits, Stat
from vit_lightning.errors import listing
from vit_lightning.files import spreadsheet_cell, write_atomically


def write_task_table(plan: SweepPlan, rows: list[NetRow], splits: dict[str, Splits], folder: Path) -> None:
    """Write <plan>.table.csv, .json and .md.

    Args:
        plan: A plan with a table.
        rows: Its rows.
        splits: Which images its runs held, by task and split.
        folder: Folder of the results.
    """
    assert plan.table
    path = folder / f"{plan.name}.table"
    content = {"plan": plan.name, "metric": plan.table.y, "columns": _columns(plan)}
    content |= {"rows": [asdict(row) for row in rows], "splits": splits}
    write_atomically(path.with_name(f"{path.name}.json"), json.dumps(content, indent=1) + "\n")
    write_atomically(path.with_name(f"{path.name}.csv"), _csv(plan, rows))
    write_atomically(path.with_name(f"{path.name}.md"), _markdown(plan, rows, splits))


def shown_task_table(plan: SweepPlan, rows: list[NetRow]) -> Table:
    """Return the table for a terminal, in percent."""
    head, *lines = _grid(plan, rows)
    shown = Table(title=f"{plan.name}, %")
    for number, name in enumerate(head):
        shown.add_column(name, justify="right" if number else "left")
    for line in lines:
        shown.add_row(*line)
    return shown


def _columns(plan: SweepPlan) -> list[str]:
    assert plan.table
    return [*plan.table.scores, *plan.table.averages]


def _csv(plan: SweepPlan, rows: list[NetRow]) -> str:
    """Means and deviations as shares of one, a row per net."""
    text, columns = io.StringIO(), _columns(plan)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["net", "source", *(part for name in columns for part in (name, f"{name} sd")), "missing"])
    for row in rows:
        stats = [row.scores.get(name) for name in columns]
        values = [f"{value:.6g}" if value is not None else "" for stat in stats for value in _pair(stat)]
        texts = [spreadsheet_cell(text) for text in (row.net, row.source or "")]
        writer.writerow([*texts, *values, spreadsheet_cell("; ".join(row.missing))])
    return text.getvalue()


def _pair(stat: Stat | None) -> tuple[float | None, float | None]:
    return (stat.mean, stat.deviation) if stat else (None, None)


def _grid(plan: SweepPlan, rows: list[NetRow]) -> list[list[str]]:
    """Cells of the table with its heads; what is longer, nets or columns, goes downwards."""
    columns = _columns(plan)
    nets = [row.net if row.source is None else f"{row.net} ({row.source})" for row in rows]
    lines = [[net, *(_percent(row.scores.get(name)) for name in columns)] for net, row in zip(nets, rows, strict=True)]
    grid = [["", *columns], *lines]
    return [list(line) for line in zip(*grid, strict=True)] if len(columns) > len(rows) else grid


def _percent(stat: Stat | None) -> str:
    if stat is None:
        return "-"
    return f"{100 * stat.mean:.2f}" + (f" ± {100 * stat.deviation:.2f}" if stat.deviation is not None else "")


def _markdown(plan: SweepPlan, rows: list[NetRow], splits: dict[str, Splits]) -> str:
    assert plan.table
    parts = [
        f"# {plan.name}",
        f"`{plan.table.y}` in %; ± is the standard deviation over runs.",
        _lines(_grid(plan, rows)),
    ]
    parts += [f"**Missing for {row.net}:** {', '.join(row.missing)}." for row in rows if row.missing]
    settings = {row.net: row.settings for row in rows if row.settings}
    if settings:
        axes = list(next(iter(next(iter(settings.values())).values())))
        chosen = [[net, task, *each.values()] for net, tasks in settings.items() for task, each in tasks.items()]
        parts += ["## Chosen on held-out images", _lines([["net", plan.table.tasks, *axes], *chosen])]
    held = [[task, split, *_split(facts)] for task, found in splits.items() for split, facts in found.items()]
    if held:
        head = [plan.table.tasks, "split", "images", "sha256 of the keys", "classes without an image"]
        parts += ["## Splits", _lines([head, *held])]
    return "\n\n".join(parts) + "\n"


def _split(facts: dict | None) -> list[str]:
    if facts is None:
        return ["differs among the runs", "", ""]
    absent = facts["absent_classes"]
    names = "not known" if absent is None else f"{len(absent)}: {listing(absent)}" if absent else "none"
    return [f"{facts['images']:,}", facts["sha256"][:16], names]


def _lines(grid: list[list[str]]) -> str:
    head, *lines = ([cell.replace("|", "\\|") for cell in line] for line in grid)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))
