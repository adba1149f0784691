"""What was measured, as a table and as JSON."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from vit_lightning.commands.benchmark.rounds import BenchmarkRow, ratio


def table(rows: list[BenchmarkRow]) -> Table:
    """Return the rows that have figures as a table."""
    shown = Table()
    shown.add_column("measure")
    shown.add_column("net", no_wrap=True)
    sized = any(row.largest_batch is not None for row in rows)  # each in one turn, in its fastest batch
    middle = ("largest", "images/s") if sized else ("images/s", "min to max")
    for name in ("size", "batch", *middle, "ms/batch", "MFU", "GiB"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        if row.rounds or row.largest_batch is not None:
            shown.add_row(*_cells(row))
    return shown


def show(rows: list[BenchmarkRow], console: Console) -> None:
    """Print the table, and the ratios of what was measured in turn; of nothing, nothing."""
    shown = table(rows)
    if not shown.row_count:
        return
    console.print(shown)
    for text in comparisons(rows):
        console.print(text, highlight=False, soft_wrap=True)


def comparisons(rows: list[BenchmarkRow]) -> list[str]:
    """Return a line per pair of rows that were measured in turn: the first of a measure with each other one."""
    lines = []
    for row, other in _pairs(rows):
        if found := ratio(row, other):
            median, least, most = found
            lines.append(f"{row.measure:<10} {row.net} / {other.net}: {median:.3f} ({least:.3f} to {most:.3f})")
            if row.measure == "fit":
                extra = row.batch * (1 / row.images_per_s - 1 / other.images_per_s) * 1e3
                lines.append(f"{'':<10} the fit adds {extra:.3f} ms to a step")
    return lines


def as_json(rows: list[BenchmarkRow], facts: dict[str, Any]) -> dict[str, Any]:
    """Return everything in plain types."""
    return facts | {
        "rows": [asdict(row) | {"images_per_s": row.images_per_s, "mfu": row.mfu} for row in rows],
        "ratios": [
            dict(zip(("measure", "of", "to", "median", "min", "max"), (a.measure, a.net, b.net, *found), strict=True))
            for a, b in _pairs(rows)
            if (found := ratio(a, b))
        ],
    }


def _pairs(rows: list[BenchmarkRow]) -> list[tuple[BenchmarkRow, BenchmarkRow]]:
    firsts: dict[str, BenchmarkRow] = {}
    pairs = []
    for row in rows:
        if row.largest_batch is not None:
            continue  # alone in its turn
        if row.measure in firsts:
            pairs.append((firsts[row.measure], row))
        firsts.setdefault(row.measure, row)
    return pairs


def _cells(row: BenchmarkRow) -> list[str]:
    y, x = row.image_size
    cells = [row.measure, row.net, str(y) if y == x else f"{y}x{x}", f"{row.batch:,}"]
    speed = row.images_per_s
    shown = "none fits" if speed is None else f"{speed:,.1f}"
    if row.largest_batch is not None:
        cells += [f"{row.largest_batch:,} {row.note}".strip(), shown]
    else:
        cells += [shown, f"{min(row.rounds):,.1f} to {max(row.rounds):,.1f}" if len(row.rounds) > 1 else ""]
    if speed is None:
        return [*cells, "", "", ""]
    mfu = "" if row.mfu is None else f"{row.mfu:.1%}"
    memory = "" if row.memory_gib is None else f"{row.memory_gib:.2f}"
    return [*cells, f"{row.batch / speed * 1e3:,.2f}", mfu, memory]
