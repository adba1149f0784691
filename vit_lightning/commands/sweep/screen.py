"""How far a sweep is: a bar in a terminal, and a line per run that begins or ends."""

import sys
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.commands.sweep.run import Outcome

WORDS = {"finished": "done", "failed": "failed", "stopped": "stopped", "elsewhere": "skipped"}


class Screen:
    """Tells of runs, from whichever thread.

    Args:
        total: How many runs there are.
    """

    def __init__(self, total: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns) if sys.stdout.isatty() else None
        self._running: list[str] = []
        self._warned: set[str] = set()
        self._task = self._bar.add_task("", total=total) if self._bar else None

    def __enter__(self) -> "Screen":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def began(self, cell: Cell) -> None:
        """A run begins, or goes on."""
        self._running.append(cell.place)
        if self._bar:
            self._bar.update(self._task, description=", ".join(self._running))
        else:
            self._print(f"start    {cell.place}")

    def ended(self, outcome: Outcome, said: str) -> None:
        """A run ended; `said` is its main figure."""
        self._running.remove(outcome.cell.place)
        took = f"{outcome.seconds:.0f} s" if outcome.seconds else ""
        parts = [f"{WORDS[outcome.state]:<8} {outcome.cell.place}", took, said or outcome.reason]
        self._print("  ".join(part for part in parts if part))
        if self._bar:
            self._bar.update(self._task, advance=1, description=", ".join(self._running))

    def warn(self, sentence: str | None) -> None:
        """Say a sentence, if there is one, once, however many runs give cause to."""
        if sentence and sentence not in self._warned:
            self._warned.add(sentence)
            self._print(f"warning  {sentence}")

    def _print(self, line: str) -> None:
        if self._bar:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            print(line, flush=True)
