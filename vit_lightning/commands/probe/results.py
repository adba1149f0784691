"""What probes find, as a table, a CSV file and a JSON file."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich import box
from rich.table import Table

from vit_lightning.evaluation.accuracy import Accuracy
from vit_lightning.files import write_atomically
from vit_lightning.terminal import duration, percentage

COLUMNS = ("probe", "setting", "top1", "mean_class", "deviation", "runs", "regularisation", "seconds")

HEADINGS = ("probe", "setting", "top-1", "per-class", "deviation", "runs", "time", "regularisation")


@dataclass(frozen=True)
class ProbeRow:
    """A classifier's score.

    Args:
        probe: what kind of classifier: few-shot, k-NN or logistic.
        setting: which one of its kind.
        values: accuracies of each run, which differ by their training images.
        regularisation: its regularisation and how it was chosen; empty: it has none.
        seconds: what all runs took.
    """

    probe: str
    setting: str
    values: list[Accuracy]
    regularisation: str
    seconds: float

    @property
    def top1(self) -> float:
        """Mean over the runs of the accuracy on all images."""
        return mean(value.top1 for value in self.values)

    @property
    def mean_class(self) -> float:
        """Mean over the runs of the mean accuracy of the classes."""
        return mean(value.mean_class for value in self.values)

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation of `top1` over the runs; None of one run."""
        return stdev(value.top1 for value in self.values) if len(self.values) > 1 else None

    def cells(self) -> dict[str, Any]:
        """Return the columns of a file."""
        return {name: len(self.values) if name == "runs" else getattr(self, name) for name in COLUMNS}

    def each_run(self) -> dict[str, list[float]]:
        """Return the accuracies of each run by itself."""
        return {
            "values": [value.top1 for value in self.values],
            "mean_class_values": [value.mean_class for value in self.values],
        }


def table(rows: Sequence[ProbeRow]) -> Table:
    """Return what a person reads."""
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, column in enumerate(HEADINGS):
        shown.add_column(column, justify="right" if 2 <= place <= 6 else "left", no_wrap=place < 7)
    for row in rows:
        deviation = "" if row.deviation is None else percentage(row.deviation)
        runs, time = str(len(row.values)), duration(row.seconds)
        accuracies = percentage(row.top1), percentage(row.mean_class)
        shown.add_row(row.probe, row.setting, *accuracies, deviation, runs, time, row.regularisation)
    return shown


def write(rows: Sequence[ProbeRow], facts: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write probe.csv and probe.json, in place of those of an earlier call."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.cells() for row in rows)
    content = facts | {"rows": [row.cells() | row.each_run() for row in rows]}
    paths = folder / "probe.csv", folder / "probe.json"
    write_atomically(paths[0], text.getvalue())
    write_atomically(paths[1], json.dumps(content, indent=2) + "\n")
    return paths
