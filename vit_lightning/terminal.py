"""What our own loops and tables show: a bar and a table's full width in a terminal, else lines now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

PAUSE = 30.0
"""Seconds between two lines where there is no terminal."""
WIDTH = 160
"""Characters of a table's line where there is no terminal, for which rich would take 80."""


def console() -> Console:
    """Return where tables are printed."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def report(text: str) -> None:
    """Print a line at once, also into a pipe."""
    print(text, flush=True)


def bar(*columns: ProgressColumn) -> Progress | None:
    """Return a bar of these columns in a terminal; None elsewhere."""
    return Progress(*columns) if sys.stdout.isatty() else None


def stderr_bar(disable: bool = False) -> Progress:
    """Return a bar on stderr, for work before the first line of output."""
    return Progress(console=Console(stderr=True), disable=disable)


@contextmanager
def progress(split: str, participle: str, total: int) -> Iterator[Callable[[int], Any]]:
    """Show how many images of a split are done; give a function to call with how many more are.

    Args:
        split: what the images are for.
        participle: what is done to them, such as prepared.
        total: number of images.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    if shown := bar(*columns):
        with shown:
            task = shown.add_task(split, total=total)
            yield lambda more: shown.advance(task, more)
        return
    done, reported = 0, time.monotonic()

    def advance(more: int) -> None:
        nonlocal done, reported
        done += more
        if done == total or time.monotonic() - reported >= PAUSE:
            reported = time.monotonic()
            report(f"{participle} {done:,} of {total:,} {split} images")

    yield advance
