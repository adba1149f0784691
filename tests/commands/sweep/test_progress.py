"""A line per run that begins or ends."""

import pytest

from vit_lightning.commands.sweep import progress as module
from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.commands.sweep.progress import SweepProgress
from vit_lightning.commands.sweep.run import Outcome


def cell(number: int) -> Cell:
    return Cell("rates", {"s": str(number)}, [])


@pytest.fixture
def lines(monkeypatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(module.terminal, "bar", lambda *columns: None)
    monkeypatch.setattr(module.terminal, "report", said.append)
    return said


def test_each_run_is_told_as_it_begins_and_ends(lines):
    with SweepProgress(4) as progress:
        for number in range(4):
            progress.began(cell(number))
        progress.ended(Outcome(cell(2), "finished", 12.6), "test/top1 0.5")
        progress.ended(Outcome(cell(0), "failed", 3.2, "too bold"), "")
        progress.ended(Outcome(cell(1), "stopped"), "")
        progress.ended(Outcome(cell(3), "elsewhere", reason="another sweep began it"), "")
        for sentence in ("a", None, "b", "a"):
            progress.warn(sentence)
    assert lines == [
        *(f"start    rates/s={number}" for number in range(4)),
        "done     rates/s=2  13 s  test/top1 0.5",
        "failed   rates/s=0  3 s  too bold",
        "stopped  rates/s=1",
        "skipped  rates/s=3  another sweep began it",
        "warning  a",
        "warning  b",
    ]
