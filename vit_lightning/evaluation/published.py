"""Published figures, to be printed beside one's own: a table of each benchmark, as printed, with sources."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

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


@dataclass(frozen=True)
class PublishedLine:
    """Scores that a source prints of one kind of net, over compute or data.

    Args:
        name: Kind of net.
        source: Where they are printed.
        x: What each point cost, in rising order.
        y: Shares of right answers.
    """

    name: str
    source: str
    x: Sequence[float]
    y: Sequence[float]


AVERAGE, AVERAGED = "average", ("imagenet", "cifar10", "cifar100", "pets", "flowers")
"""Mean over the five sets of figure 5 and table 7."""


@cache
def published(benchmark: str) -> tuple[PublishedRow, ...]:
    """Return the rows of a benchmark, in the order of its file.

    Raises:
        InputError: no figures of that name are known.
    """
    return tuple(
        PublishedRow(net, source, _shares(lines, "percent"), _shares(lines, "deviation"))
        for (net, source), lines in _rows(benchmark).items()
    )


def published_lines(benchmark: str, task: str, x: str) -> list[PublishedLine]:
    """Return the scores of a task over a column of a benchmark's file, a line for each kind of net.

    Args:
        benchmark: `compute` (table 6, figure 5) or `transfer` (table 5, figure 3).
        task: A task of it, or `average` over the five of figure 5.
        x: `exaflops` of pre-training, or its number of `images`.

    Raises:
        InputError: no figures of that name are known, or not of this task or over this column.
    """
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    tasks: dict[str, None] = {}
    for (_, source), rows in _rows(benchmark).items():
        if not rows[0].get(x):
            continue
        scores = _shares(rows, "percent")
        if all(each in scores for each in AVERAGED):
            scores[AVERAGE] = fmean(scores[each] for each in AVERAGED)
        tasks |= dict.fromkeys(scores)
        if task in scores:
            points.setdefault((rows[0]["line"], source), []).append((float(rows[0][x]), scores[task]))
    if not tasks:
        raise InputError(f"published figures {benchmark}: they do not stand over {x}")
    if not points:
        raise InputError(
            f"published figures {benchmark}: no task {task}{did_you_mean(task, tasks)} (of {', '.join(tasks)})"
        )
    return [PublishedLine(*name, *zip(*sorted(found), strict=True)) for name, found in points.items()]


def _rows(benchmark: str) -> dict[tuple[str, str], list[dict[str, str]]]:
    """Lines of a benchmark's file, by net and source."""
    known = sorted(path.stem for path in FOLDER.glob("*.csv"))
    if benchmark not in known:
        hint = did_you_mean(benchmark, known)
        raise InputError(f"no published figures are called {benchmark}{hint} (there are {', '.join(known)})")
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    with (FOLDER / f"{benchmark}.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            found.setdefault((line["net"], line["source"]), []).append(line)
    return found


def _shares(lines: list[dict[str, str]], column: str) -> dict[str, float]:
    return {line["task"]: float(line[column]) / 100 for line in lines if line[column]}
