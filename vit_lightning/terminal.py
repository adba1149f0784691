"""What our own loops and tables show: a bar and a table's full width in a terminal, else lines now and then."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vit_lightning.errors import seen

PAUSE = 30.0
"""Seconds between two lines where there is no terminal."""
WIDTH = 160
"""Characters of a table's line where there is no terminal, for which rich would take 80."""


def console() -> Console:
    """Return where tables are printed."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def is_live() -> bool:
    """Return whether a line can be drawn again and again: in a terminal that moves its cursor."""
    return sys.stdout.isatty() and not Console().is_dumb_terminal


def percentage(share: float, digits: int = 2) -> str:
    """Return a share as a person reads it."""
    return f"{100 * share:.{digits}f} %"


def number(value: float) -> str:
    """Return a number of four digits, without an exponent unless it is tiny."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if value == 0 or abs(value) >= 1e-4 else f"{value:.1e}"


def typed(values: Iterable[float]) -> str:
    """Return numbers as a flag takes them: without spaces, at which a shell would divide them."""
    return f"[{','.join(f'{value:.9g}' for value in values)}]"


def counted(count: int, what: str, grouped: bool = False) -> str:
    """Return a count with what is counted, such as `1 image`, `2 images`, `3 batches`, or, grouped, `1,000 images`."""
    ending = "" if count == 1 else "es" if what.endswith("tch") else "s"
    return f"{count:,} {what}{ending}" if grouped else f"{count} {what}{ending}"


def duration(seconds: float) -> str:
    """Return a time in its two greatest units."""
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24:02} h"


def near(path: str | Path) -> Path:
    """Return a path as it is typed in the current folder, if it lies there; any other is whole."""
    return Path(os.path.relpath(path)) if Path(path).is_relative_to(Path.cwd()) else Path(path)


def fitted(parts: Sequence[str], width: int | None) -> str:
    """Return parts joined by commas; the last ones are left out where a line has no more than `width` characters."""
    kept = list(parts)
    while width is not None and len(kept) > 1 and len(", ".join(kept)) > width:
        kept.pop()
    return ", ".join(kept)


def report(text: str) -> None:
    """Print a line at once and whole, also into a pipe and beside other threads; what is not seen in it is escaped."""
    print(f"{seen(text)}\n", end="", flush=True)


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


class BarLine:
    """One row of a terminal, whatever its width: what is done, a bar, its share, its state, and what else has room."""

    STATE = 16
    """Characters of the state, which changes without moving what follows."""

    def __init__(self) -> None:
        self.head, self.state = "", ""
        self.share: float | None = None
        """Of the whole; None: no end is known."""
        self.parts: list[str] = []
        """The last ones give way where the row is too short."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        length = min(max(width - 118, 6), 30)
        share = "" if self.share is None else f"{100 * self.share:.0f} %"
        bar = ProgressBar(1.0, self.share or 0.0, length, pulse=self.share is None)
        state, head = f"{share:>5} {self.state:<{self.STATE}}", Text(self.head)
        room = width - head.cell_len - length - len(state) - 3
        row = Table.grid(padding=(0, 1))
        for _ in range(4):
            row.add_column(no_wrap=True, overflow="crop")
        texts = (fitted(self.parts, room) if room > 0 else "")[: max(room, 0)]
        row.add_row(head, bar, Text(state), Text(texts))
        yield row
