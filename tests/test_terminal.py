"""Progress of our own loops, in a terminal and in a log."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from vit_lightning import terminal as module
from vit_lightning.terminal import BarLine, console, counted, duration, fitted, near, number, percentage, progress


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


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.95, "9.9 s"),
        (10, "10 s"),
        (59.4, "59 s"),
        (60, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (3661, "1 h 01 min"),
        (48 * 3600 - 1, "47 h 59 min"),
        (48 * 3600, "2 d 00 h"),
        (75 * 3600, "3 d 03 h"),
    ],
)
def test_times_at_the_edge_of_a_unit(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (999.96, "1000"),
        (1000, "1,000"),
        (-1234567.5, "-1,234,568"),
        (0.0001, "0.0001"),
        (0.000099, "9.9e-05"),
        (-0.5, "-0.5"),
        (1 / 3, "0.3333"),
    ],
)
def test_numbers_at_the_edge_of_a_form(value, said):
    assert number(value) == said


@pytest.mark.parametrize(
    ("share", "digits", "said"),
    [(0.5, None, "50.00 %"), (0.12345, None, "12.35 %"), (1, 0, "100 %"), (0.9, 1, "90.0 %")],
)
def test_shares_are_hundredths(share, digits, said):
    assert (percentage(share) if digits is None else percentage(share, digits)) == said


@pytest.mark.parametrize(
    ("width", "said"),
    [(None, "aa, bb, cc"), (10, "aa, bb, cc"), (9, "aa, bb"), (6, "aa, bb"), (5, "aa"), (2, "aa"), (1, "aa")],
)
def test_parts_are_left_out_from_the_end_and_the_first_stays(width, said):
    parts = ["aa", "bb", "cc"]
    assert fitted(parts, width) == said and parts == ["aa", "bb", "cc"]
    assert fitted([], width) == ""


@pytest.mark.parametrize(
    ("tty", "term", "live"), [(True, "xterm", True), (True, "dumb", False), (False, "xterm", False)]
)
def test_only_a_terminal_that_moves_its_cursor_is_live(monkeypatch, tty, term, live):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: tty, raising=False)
    monkeypatch.setenv("TERM", term)
    assert module.is_live() is live and (module.bar() is not None) is tty


def test_a_table_has_its_full_width_in_a_log_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert console().width == 160
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert console().width == 70


def test_lines_come_after_their_pause_and_at_the_end(capsys, monkeypatch):
    times = iter([100.0, 129.9, 130.0, 130.0, 159.9, 160.0, 161.0, 161.0, 161.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times))
    with progress("test", "seen", 1500) as advance:
        for more in (1, 1, 1, 1198, 299):
            advance(more)
    assert capsys.readouterr().out.splitlines() == [
        "seen 2 of 1,500 test images",
        "seen 1,201 of 1,500 test images",
        "seen 1,500 of 1,500 test images",
    ]


def test_work_before_the_first_line_is_shown_beside_it(capsys):
    with module.stderr_bar() as shown:
        shown.add_task("reading", total=1)
    assert shown.console.stderr and not shown.disable and module.stderr_bar(disable=True).disable
    assert capsys.readouterr().out == ""


def test_a_bar_at_its_start_has_a_share():
    assert "  0 % " in row(100, **FACTS | {"share": 0.0}, parts=PARTS)


def test_wide_letters_take_two_places_of_a_row():
    lines = row(100, **FACTS | {"head": "\u5b66\u7fd2" * 5}, parts=PARTS).splitlines()
    assert len(lines) == 1 and lines[0].rstrip().endswith((PARTS[1], PARTS[2], PARTS[3]))
