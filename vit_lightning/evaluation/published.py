"""Published figures, to be printed beside one's own: a table of each benchmark, as printed, with sources."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vit_lightning.errors import InputError, did_you_mean

FOLDER = Path(__file__).parent / "published_rows"


@dataclass(frozen=True)
class PublishedRow:
    """What a source prints of a net.

    Args:
        net: The net, and what it was pre-trained on.
        source: Where it is printed.
        scores: Share of right answers by task, or by average where the source prints that alone.
        deviations: Standard deviation by task, where the source prints one.
    """

    net: str
    source: str
    scores: Mapping[str, float]
    deviations: Mapping[str, float]


@cache
def published(benchmark: str) -> tuple[PublishedRow, ...]:
    """Return the rows of a benchmark, in the order of its file.

    Raises:
        InputError: no figures of that name are known.
    """
    known = sorted(path.stem for path in FOLDER.glob("*.csv"))
    if benchmark not in known:
        hint = did_you_mean(benchmark, known)
        raise InputError(f"no published figures are called {benchmark}{hint} (there are {', '.join(known)})")
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    with (FOLDER / f"{benchmark}.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            found.setdefault((line["net"], line["source"]), []).append(line)
    return tuple(
        PublishedRow(net, source, _shares(lines, "percent"), _shares(lines, "deviation"))
        for (net, source), lines in found.items()
    )


def _shares(lines: list[dict[str, str]], column: str) -> dict[str, float]:
    return {line["task"]: float(line[column]) / 100 for line in lines if line[column]}
