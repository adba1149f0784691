"""Progress of our own loops, in a terminal and in a log."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from vit_lightning import terminal as module
from vit_lightning.terminal import BarLine, console, counted, duration, near, number, progress


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


@pytest.mark.parametrize(
    ("value", "said"), [(30560.7, "30,561"), (2.20567, "2.206"), (0.0, "0"), (0.00012, "0.00012"), (3e-7, "3.0e-07")]
)
def test_numbers_have_no_exponent_unless_they_are_tiny(value, said):
    assert number(value) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1.24, "1.2 s"),
        (9.97, "10 s"),
        (59.6, "1 min 00 s"),
        (192, "3 min 12 s"),
        (7500, "2 h 05 min"),
        (2e5, "2 d 07 h"),
    ],
)
def test_a_time_has_its_two_greatest_units(seconds, said):
    assert duration(seconds) == said


def test_paths_are_as_one_types_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert near(tmp_path / "runs/x/0") == near("runs/x/0") == Path("runs/x/0")
    assert near("/elsewhere/x") == Path("/elsewhere/x")


def row(width: int, **facts) -> str:
    line, shown = BarLine(), Console(width=width, record=True, force_terminal=True, file=io.StringIO())
    vars(line).update(facts)
    shown.print(line)
    return shown.export_text()


FACTS = {"head": "epoch 3/12", "share": 0.24, "state": "1 min 05 s left"}
PARTS = ["step 936/3744", "loss 1.141", "top-1 98.4 %", "1,234 images/s", "waiting for data 4 %"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 150, 250])
def test_a_bar_is_one_row_of_any_terminal(width):
    lines = row(width, **FACTS, parts=PARTS).splitlines()
    assert len(lines) == 1 and len(lines[0]) <= width


@pytest.mark.parametrize(("width", "last"), [(80, "top-1 98.4 %"), (100, "1,234 images/s"), (150, PARTS[-1])])
def test_a_bar_shows_whole_figures_in_their_order(width, last):
    shown = row(width, **FACTS, parts=PARTS).rstrip()
    assert shown.startswith("epoch 3/12") and " 24 % 1 min 05 s left" in shown
    assert shown.endswith(", ".join(PARTS[: PARTS.index(last) + 1]))


def test_what_a_validation_says_moves_nothing():
    left, validating = (row(100, **FACTS | {"state": state}, parts=PARTS) for state in ("12 s left", "validating"))
    assert left.replace("12 s left ", "validating") == validating


def test_a_bar_of_unknown_length_has_no_share():
    assert "%" not in row(150, head="epoch 3", share=None, state="", parts=["step 7"])


@pytest.mark.parametrize(
    ("count", "what", "said"),
    [(1, "image", "1 image"), (0, "epoch", "0 epochs"), (2, "batch", "2 batches"), (1, "batch", "1 batch")],
)
def test_a_count_of_one_is_singular(count, what, said):
    assert counted(count, what) == said
    assert counted(12345, what, grouped=True).startswith("12,345 ")
