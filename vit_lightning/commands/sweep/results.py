"""What came out of a plan: a row per finished cell, its learning curves, and means over the seeds."""

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from rich.table import Table

from vit_lightning.commands.sweep.plan import Cell, SweepPlan
from vit_lightning.commands.sweep.run import LOG, Outcome, check_unchanged, is_finished, read_record
from vit_lightning.errors import InputError
from vit_lightning.evaluation.scores import MAIN_METRICS, METRICS, SCORES, best_value, set_and_score
from vit_lightning.files import check_regular, spreadsheet_cell, write_atomically

POINTS = 50
"""Validations of a cell that its learning curve keeps."""
FACTS = ("seconds", "device", "precision", "torch", "version", "commit", "date")
STATUS = ("status", "error")
"""How a cell ended (finished, failed, stopped, waiting), and the sentence of one that failed."""


def unfinished_rows(plan: SweepPlan, runs: Path, outcomes: Iterable[Outcome] = ()) -> dict[str, dict[str, str]]:
    """What <plan>.csv says of each cell without scores, by its place: how it ended, and why.

    Args:
        plan: The plan.
        runs: Folder of the runs.
        outcomes: How runs of this call ended; one that could not begin has left no record.
    """
    failed = {outcome.cell.place: outcome for outcome in outcomes if outcome.state == "failed"}
    lines = {}
    for cell in plan.cells:
        record = read_record(runs / cell.place)
        if is_finished(cell, record):
            continue
        has_begun = record.lines and record.lines == cell.lines[: len(record.lines)] and record.ended != "finished"
        status, error = (record.ended, record.error) if has_begun else ("waiting", "")
        if cell.place in failed:
            status, error = "failed", failed[cell.place].reason
        took = {"seconds": f"{record.seconds:.1f}", "date": record.date} if has_begun and record.date else {}
        lines[cell.place] = cell.labels | took | {"status": status, "error": error}
    return lines


@dataclass
class SweepRow:
    """A finished cell: its labels, its final metrics, its validations, and where it ran."""

    cell: Cell
    metrics: dict[str, float]
    curve: list[dict[str, float]]
    facts: dict[str, str]

    @property
    def cells(self) -> dict[str, str]:
        """Everything that results.csv says of it."""
        scores = {name: f"{value:.6g}" for name, value in self.metrics.items()}
        return self.cell.labels | scores | self.facts | {"status": "finished"}


def read_rows(plan: SweepPlan, runs: Path) -> list[SweepRow]:
    """Rows of all finished cells of a plan, whoever ran them, in the plan's order."""
    return [read_row(cell, runs) for cell in plan.cells if is_finished(cell, check_unchanged(cell, runs))]


def read_row(cell: Cell, runs: Path) -> SweepRow:
    """Row of a finished cell."""
    folder, record = runs / cell.place, check_unchanged(cell, runs)
    logged = _read(next(folder.glob("*/0/metrics.csv"), None), folder)
    columns = {name: [line[name] for line in logged if name in line] for line in logged for name in line}
    metrics: dict[str, float] = {}
    for name, values in columns.items():
        if name.startswith("perf/"):
            metrics[name] = max(values) if name == "perf/memory_gib" else median(values)
        elif name.startswith(("val/", "train/", "cost/")):
            metrics[name] = values[-1]
        if name.startswith("val/"):
            metrics[f"best {name}"] = best_value(name, values)
    for number in range(1, len(cell.lines)):
        if cell.lines[number][0] == "predict":
            continue
        for name, value in _read(next(folder.glob(f"then{number}/*/metrics.csv"), None), folder)[-1].items():
            if "/" in name:  # not epoch and step
                metrics[f"{name} (then {number})" if name in metrics else name] = value
    curve = [
        {"step": line["step"] + 1} | {name: value for name, value in line.items() if name.startswith("val/")}
        for line in logged
        if any(name.startswith("val/") for name in line)
    ]
    return SweepRow(
        cell, metrics, _thinned(curve), _origin(folder) | {"seconds": f"{record.seconds:.1f}", "date": record.date}
    )


def _read(path: Path | None, folder: Path) -> list[dict[str, float]]:
    """Lines of a metrics.csv, each without what it does not hold."""
    if path is None:
        raise InputError(f"{folder} has lost its metrics.csv; remove it to run the cell anew")
    check_regular(path)
    try:
        text = path.read_text()
        lines = list(csv.DictReader(text.splitlines()))
        if not text.endswith("\n") or any(None in line or None in line.values() for line in lines):
            raise ValueError("a row is cut")
        return [{name: float(value) for name, value in line.items() if value} for line in lines]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} is damaged ({error}); remove {folder} to run the cell anew") from error


def _thinned(points: list[Any]) -> list[Any]:
    """At most `POINTS` of them, evenly spread, with the first and the last."""
    if len(points) <= POINTS:
        return points
    return [points[round(place * (len(points) - 1) / (POINTS - 1))] for place in range(POINTS)]


def _origin(folder: Path) -> dict[str, str]:
    """Device and versions of a cell's run; the name of the device stands in the plan that the fit prints."""
    try:
        facts = json.loads(next(folder.glob("*/0/env.json")).read_text())
        versions = {"torch": facts["versions"]["torch"], "version": facts["versions"]["vit-lightning"]}
        commit = (facts["git_commit"] or "")[:9] + "+" * facts["git_dirty"]
        printed = re.findall(
            r"^device +(.+), precision (\S+)$", (folder / LOG).read_text(errors="replace"), re.MULTILINE
        )
        device, precision = printed[-1] if printed else (facts["device"], "")
    except (StopIteration, OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder} has lost its env.json or {LOG}; remove it to run the cell anew") from error
    return {"device": device, "precision": precision, "commit": commit} | versions


def write_results(plan: SweepPlan, rows: list[SweepRow], folder: Path, unfinished: dict[str, dict[str, str]]) -> None:
    """Write <plan>.csv, and the learning curves, where runs were validated on the way, as <plan>.curves.csv.

    Args:
        plan: The plan.
        rows: Its finished cells.
        folder: Folder of the results.
        unfinished: What is said of its other cells, by their places.
    """
    metrics = sorted({name for row in rows for name in row.metrics}, key=_place)
    said_of = unfinished | {row.cell.place: row.cells for row in rows}
    lines = [said_of[cell.place] for cell in plan.cells]
    _write(folder / f"{plan.name}.csv", [*plan.axes, *metrics, *FACTS, *STATUS], lines)
    points = [
        row.cell.labels | {name: f"{value:.6g}" for name, value in point.items()} for row in rows for point in row.curve
    ]
    curves = sorted({name for row in rows for point in row.curve for name in point} - {"step"})
    if points:
        _write(folder / f"{plan.name}.curves.csv", [*plan.axes, "step", *curves], points)


def _place(name: str) -> tuple[int, str]:
    return next((place for place, start in enumerate(METRICS) if name.startswith(start)), len(METRICS)), name


def _write(path: Path, columns: Sequence[str], lines: Iterable[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_cell(cell) for name, cell in line.items()} for line in lines)
    write_atomically(path, text.getvalue())


def grouped(rows: list[SweepRow], axes: Iterable[str]) -> dict[tuple[str, ...], list[SweepRow]]:
    """Rows by their labels on some axes, in order."""
    groups: dict[tuple[str, ...], list[SweepRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.cell.labels[axis] for axis in axes), []).append(row)
    return groups


def mean_deviation(rows: list[SweepRow], metric: str) -> tuple[float, float] | None:
    """Mean of a metric and its standard deviation, 0 for a single value; None where no row has it."""
    values = [row.metrics[metric] for row in rows if metric in row.metrics]
    return (fmean(values), stdev(values) if len(values) > 1 else 0.0) if values else None


def main_metric(plan: SweepPlan, rows: list[SweepRow]) -> str | None:
    """The metric that speaks for a run: the one drawn, else a score of the test set, else of the validation set."""
    wanted = [*(figure.y for figure in plan.figures), *MAIN_METRICS]
    return next((name for name in wanted if any(name in row.metrics for row in rows)), None)


def table(plan: SweepPlan, rows: list[SweepRow]) -> Table:
    """Means and standard deviations of scores and speed."""
    axes = [axis for axis in plan.axes if axis != plan.spread]
    found = {name for row in rows for name in row.metrics}
    wanted = [*(figure.y for figure in plan.figures), *MAIN_METRICS, "perf/images_per_s"]
    metrics = [name for name in dict.fromkeys(wanted) if name in found]
    shown = Table(title=plan.name)
    for name in (*axes, "runs", *metrics, "seconds"):
        shown.add_column(name, justify="left" if name in axes else "right", no_wrap=True)
    for labels, group in grouped(rows, axes).items():
        seconds = fmean(float(row.facts["seconds"]) for row in group)
        shown.add_row(*labels, str(len(group)), *(_cell(group, name) for name in metrics), f"{seconds:.0f}")
    return shown


def said(metric: str, value: float) -> str:
    """Return a metric as a person reads it: a share of images in per cent, which the CSV files keep as it is."""
    score = SCORES.get(set_and_score(metric)[1])
    return score.said(value) if score and score.is_share else f"{value:.4g}"


def _cell(rows: list[SweepRow], metric: str) -> str:
    if (found := mean_deviation(rows, metric)) is None:
        return ""
    mean, deviation = found
    if (text := said(metric, mean)).endswith("%"):
        return f"{100 * mean:.2f} ± {said(metric, deviation)}" if len(rows) > 1 else text
    return f"{mean:.4g}" + f" ± {deviation:{'.0f' if deviation > 10 else '.2g'}}" * (len(rows) > 1)
