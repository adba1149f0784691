"""A line per run that begins or ends."""

from pathlib import Path

import pytest

from vit_lightning.commands.sweep import progress as module
from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.commands.sweep.progress import SweepProgress, newest_progress
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
    with SweepProgress(4, Path("/runs")) as progress:
        for number in range(4):
            progress.began(cell(number))
        progress.ended(Outcome(cell(2), "finished", 12.6), "test/top1 0.5")
        progress.ended(Outcome(cell(0), "failed", 3.2, "too bold"), "")
        progress.ended(Outcome(cell(1), "stopped"), "")
        progress.ended(Outcome(cell(3), "elsewhere", reason="another sweep began it"), "")
        for sentence in ("a", None, "b", "a"):
            progress.warn(sentence)
    assert lines == [
        *(f"start    rates/s={number}  log /runs/rates/s={number}/log.txt" for number in range(4)),
        "done     /runs/rates/s=2  13 s  test/top1 0.5",
        "failed   /runs/rates/s=0  3 s  too bold",
        "stopped  /runs/rates/s=1",
        "skipped  /runs/rates/s=3  another sweep began it",
        "warning  a",
        "warning  b",
    ]


def test_a_run_says_now_and_then_how_far_it_is(lines, tmp_path):
    log = tmp_path / "rates/s=0/log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("epoch 1/9 done, 8 min left\nepoch 2/9 done, 7 min left\nwarning  x\n")
    progress = SweepProgress(2, tmp_path)
    progress.began(cell(0))
    progress.began(cell(1))  # which has no log yet
    looks = iter((False, True))
    progress._is_over = type("Event", (), {"wait": lambda self, seconds: next(looks)})()
    progress._look()
    assert lines[2:] == ["running  rates/s=0  epoch 2/9 done, 7 min left"]


def test_only_the_end_of_a_long_log_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TAIL", 40)
    log = tmp_path / "log.txt"
    log.write_text("epoch 1/9 done\n" + "-" * 50 + "\n")
    assert newest_progress(log) == ""
    log.write_text("-" * 50 + "\nepoch 1/9 done\n")
    assert newest_progress(log) == "epoch 1/9 done"


def test_what_is_done_is_named_by_the_folder_that_other_verbs_take(lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/rates/s=0/digits/0").mkdir(parents=True)
    with SweepProgress(1, Path("runs")) as progress:
        progress.began(cell(0))
        progress.ended(Outcome(cell(0), "finished", 2.0), "")
    assert lines[-1] == "done     runs/rates/s=0/digits/0  2 s"
