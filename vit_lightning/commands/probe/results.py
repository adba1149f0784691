"""What probes find, as a table, a CSV file and a JSON file."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich import box
from rich.table import Table

from vit_lightning.files import write_atomically
from vit_lightning.terminal import duration, percentage

COLUMNS = ("probe", "setting", "top1", "deviation", "runs", "regularisation", "seconds")


@dataclass(frozen=True)
class ProbeRow:
    """A classifier's score.

    Args:
        probe: what kind of classifier: few-shot, k-NN or logistic.
        setting: which one of its kind.
        values: top-1 accuracy of each run, which differ by their training images.
        regularisation: its regularisation and how it was chosen; empty: it has none.
        seconds: what all runs took.
    """

    probe: str
    setting: str
    values: list[float]
    regularisation: str
    seconds: float

    @property
    def top1(self) -> float:
        """Mean over the runs."""
        return mean(self.values)

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over the runs; None of one run."""
        return stdev(self.values) if len(self.values) > 1 else None

    def cells(self) -> dict[str, Any]:
        """Return the columns of a file."""
        figures = {"top1": self.top1, "deviation": self.deviation, "runs": len(self.values)}
        return {name: value for name, value in (asdict(self) | figures).items() if name in COLUMNS}


def table(rows: Sequence[ProbeRow]) -> Table:
    """Return what a person reads."""
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, column in enumerate(("probe", "setting", "top-1", "deviation", "runs", "time", "regularisation")):
        shown.add_column(column, justify="right" if 2 <= place <= 5 else "left", no_wrap=place < 6)
    for row in rows:
        deviation = "" if row.deviation is None else percentage(row.deviation)
        runs, time = str(len(row.values)), duration(row.seconds)
        shown.add_row(row.probe, row.setting, percentage(row.top1), deviation, runs, time, row.regularisation)
    return shown


def write(rows: Sequence[ProbeRow], facts: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """Write probe.csv and probe.json, in place of those of an earlier call."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: cells[name] for name in COLUMNS} for cells in (row.cells() for row in rows))
    content = facts | {"rows": [row.cells() | {"values": row.values} for row in rows]}
    paths = folder / "probe.csv", folder / "probe.json"
    write_atomically(paths[0], text.getvalue())
    write_atomically(paths[1], json.dumps(content, indent=2) + "\n")
    return paths
