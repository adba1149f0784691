"""Progress of our own loops, in a terminal and in a log."""

import sys

from rich.table import Table

from vit_lightning import terminal as module
from vit_lightning.terminal import console, progress


def test_a_bar_in_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with progress("training", "looked at", 3) as advance:
        advance(3)
    assert "training" in capsys.readouterr().out


def test_lines_elsewhere(capsys, monkeypatch):
    with progress("test", "looked at", 1000) as advance:
        advance(500)
        monkeypatch.setattr(module, "PAUSE", 0)
        advance(400)
        advance(100)
    assert capsys.readouterr().out.splitlines() == [
        "looked at 900 of 1,000 test images",
        "looked at 1,000 of 1,000 test images",
    ]


def test_a_pipe_does_not_wrap_a_table(capsys):
    table = Table("x" * 100)
    console().print(table)
    assert "x" * 100 in capsys.readouterr().out
