"""Progress of a sweep: a bar in a terminal, and a line per run that begins or ends."""

import os
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from vit_lightning import terminal
from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.commands.sweep.run import LOG, Outcome
from vit_lightning.terminal import near

PROGRESS = ("epoch ", "validated ", "tested ", "predicted ")
"""How lines of a run begin that say how far it is."""
TAIL = 2**16
"""Bytes at the end of a log that are looked through for them."""
STATES = {"finished": "done", "failed": "failed", "stopped": "stopped", "elsewhere": "skipped"}
"""What a line calls them."""


class SweepProgress:
    """Reports runs, from whichever thread; where there is no bar, also the newest line of each log now and then.

    Args:
        total: How many runs there are.
        runs: Folder of all runs.
        seconds: Time between two looks into the logs.
    """

    def __init__(self, total: int, runs: Path, seconds: float = 60.0) -> None:
        self._runs, self._seconds = runs, seconds
        self._is_over = Event()
        self._looking = Thread(target=self._look, daemon=True)
        self._bar = terminal.bar(
            BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        )
        self._running: list[str] = []
        self._warned: set[str] = set()
        if self._bar:
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> "SweepProgress":
        if self._bar:
            self._bar.start()
        else:
            self._looking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._bar:
            self._bar.stop()
        else:
            self._looking.join()

    def began(self, cell: Cell) -> None:
        """A run begins, or goes on."""
        self._running.append(cell.place)
        if self._bar:
            self._bar.update(self._task, description=", ".join(self._running))
        else:
            self._print(f"start    {cell.place}  log {near(self._runs / cell.place / LOG)}")

    def ended(self, outcome: Outcome, score: str) -> None:
        """A run ended; `score` is its main figure."""
        self._running.remove(outcome.cell.place)
        took = f"{outcome.seconds:.0f} s" if outcome.seconds else ""
        folder = self._runs / outcome.cell.place
        run = next(folder.glob("*/0"), folder) if outcome.state == "finished" else folder
        parts = [f"{STATES[outcome.state]:<8} {near(run)}", took, score or outcome.reason]
        self._print("  ".join(part for part in parts if part))
        if self._bar:
            self._bar.update(self._task, advance=1, description=", ".join(self._running))

    def warn(self, sentence: str | None) -> None:
        """Print a sentence, if there is one, once, however many runs give cause to."""
        if sentence and sentence not in self._warned:
            self._warned.add(sentence)
            self._print(f"warning  {sentence}")

    def _look(self) -> None:
        while not self._is_over.wait(self._seconds):
            for place in list(self._running):
                if line := newest_progress(self._runs / place / LOG):
                    self._print(f"running  {place}  {line}")

    def _print(self, line: str) -> None:
        if self._bar:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            terminal.report(line)


def newest_progress(log: Path) -> str:
    """Return the last line of a run's log that says how far it is; empty if there is none."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
        lines = file.read().decode(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.startswith(PROGRESS)), "")
    return ""
