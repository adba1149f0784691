"""Progress of a sweep: a bar in a terminal, and a line per run that begins or ends."""

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from vit_lightning import terminal
from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.commands.sweep.run import Outcome

STATES = {"finished": "done", "failed": "failed", "stopped": "stopped", "elsewhere": "skipped"}
"""What a line calls them."""


class SweepProgress:
    """Reports runs, from whichever thread.

    Args:
        total: How many runs there are.
    """

    def __init__(self, total: int) -> None:
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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def began(self, cell: Cell) -> None:
        """A run begins, or goes on."""
        self._running.append(cell.place)
        if self._bar:
            self._bar.update(self._task, description=", ".join(self._running))
        else:
            self._print(f"start    {cell.place}")

    def ended(self, outcome: Outcome, score: str) -> None:
        """A run ended; `score` is its main figure."""
        self._running.remove(outcome.cell.place)
        took = f"{outcome.seconds:.0f} s" if outcome.seconds else ""
        parts = [f"{STATES[outcome.state]:<8} {outcome.cell.place}", took, score or outcome.reason]
        self._print("  ".join(part for part in parts if part))
        if self._bar:
            self._bar.update(self._task, advance=1, description=", ".join(self._running))

    def warn(self, sentence: str | None) -> None:
        """Print a sentence, if there is one, once, however many runs give cause to."""
        if sentence and sentence not in self._warned:
            self._warned.add(sentence)
            self._print(f"warning  {sentence}")

    def _print(self, line: str) -> None:
        if self._bar:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            terminal.report(line)
