"""What the fits of a plan would be refused for, found before hours of runs: each is planned, and trains nothing."""

import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from vit_lightning.commands.sweep import run
from vit_lightning.commands.sweep.plan import Cell

SEED = "--seed_everything"
"""Flag that changes no check: cells that differ in it alone are planned once."""


class Refusals(NamedTuple):
    """What planning the fits of some cells has found."""

    refused: dict[str, str]
    """Why the fit of a cell would be refused, by the cell's place."""
    unready: list[str]
    """Places of cells whose fit begins with what another run has yet to leave."""


def refusals(cells: list[Cell], runs: Path, report: Callable[[str], None]) -> Refusals:
    """Plan the fit of each cell: build data, net and weights as it would, up to its first step, and write nothing.

    Args:
        cells: The cells.
        runs: Folder of all runs.
        report: Takes a line every few seconds that says how far this is.
    """
    unready = [cell for cell in cells if _waits(cell, runs)]
    fits: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        if cell not in unready:
            fits.setdefault(_checked(cell.lines[0]), []).append(cell)
    refused: dict[str, str] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        last = time.monotonic()
        for number, (words, answer) in enumerate(zip(fits, pool.map(_planned, fits), strict=True), 1):
            if answer.returncode:
                why = run.last_words(answer.stderr, answer.returncode)
                refused |= {cell.place: why for cell in fits[words]}
            if time.monotonic() - last > run.PAUSE:
                report(f"planned {number} of {len(fits)} fits")
                last = time.monotonic()
    return Refusals(refused, [cell.place for cell in unready])


def _planned(words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*run.PYTHON_MODULE, "plan", *words], capture_output=True, text=True)


def _checked(line: list[str]) -> tuple[str, ...]:
    """The words of a fit that bear on whether it is refused."""
    pairs = pairwise(line)
    return tuple(word for before, word in pairs if SEED not in (before, word.partition("=")[0]))


def _waits(cell: Cell, runs: Path) -> bool:
    """Whether a fit names a file below the folder of runs that is not there yet."""
    values = (Path(word.rpartition("=")[2] if word.startswith("-") else word) for word in cell.lines[0][1:])
    return any(value.is_relative_to(runs) and not value.exists() for value in values)
