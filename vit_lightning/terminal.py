"""How far a pass over images is: a bar in a terminal, else a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PAUSE = 30.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def progress(split: str, done_to_them: str, total: int) -> Iterator[Callable[[int], Any]]:
    """Show how many images of a split are done; give a function to call with how many more are.

    Args:
        split: what the images are for.
        done_to_them: what is done, as a participle.
        total: number of images.
    """
    if sys.stdout.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns) as bar:
            task = bar.add_task(split, total=total)
            yield lambda more: bar.advance(task, more)
        return
    done, told = 0, time.monotonic()

    def tell(more: int) -> None:
        nonlocal done, told
        done += more
        if done == total or time.monotonic() - told >= PAUSE:
            told = time.monotonic()
            print(f"{done_to_them} {done:,} of {total:,} {split} images", flush=True)

    yield tell
