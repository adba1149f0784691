"""Several runs side by side."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.commands.report import comparison
from vit_lightning.commands.report.comparison import Cell, beside, names_of, scores
from vit_lightning.commands.report.scores import ScoreRow


def run(name: str = "a", folder: str = "runs/a", **facts: object) -> SimpleNamespace:
    return SimpleNamespace(name=name, folder=Path(folder), **facts)


def test_runs_of_one_name_are_called_by_their_folders():
    assert names_of([run("a/0"), run("b/0")]) == ["a/0", "b/0"]
    assert names_of([run("a/0", "x/a/0"), run("a/0", "y/a/0")]) == ["x/a/0", "y/a/0"]


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("test/top1", (0.5, 0.75, 0.75), (False, True, True)),
        ("test/loss", (0.5, 0.75, 0.75), (True, False, False)),
        ("test/top1", (0.5, 0.5, 0.5), (False, False, False)),
        ("", (0.5, 0.75, 0.25), (False, False, False)),
    ],
)
def test_the_best_of_several_is_marked_and_every_equal_one(monkeypatch, metric, values, best):
    rows = {value: [ScoreRow("test, 40 images", "score", f"{value}", value, metric)] for value in (*values, None)}
    rows[None] = [ScoreRow("test, 8 images", "other", "1", 1.0, "test/other")]
    monkeypatch.setattr(comparison.scored, "score_rows", lambda one: rows[one.value])
    first, other = scores([run(value=value) for value in (*values, None)])
    assert first.name == "test score" and other.name == "test other"
    assert first.cells == [*(Cell(f"{value}", mark) for value, mark in zip(values, best, strict=True)), Cell("")]
    assert other.cells == [Cell(""), Cell(""), Cell(""), Cell("1")]


def test_rows_stand_under_their_names_in_the_order_in_which_they_come():
    rows = {"a": [("net", "x"), ("lr", "1")], "b": [("lr", "2"), ("decay", "3")]}
    found = beside([run("a"), run("b")], lambda one: rows[one.name])
    assert [(row.name, [cell.said for cell in row.cells]) for row in found] == [
        ("net", ["x", ""]),
        ("lr", ["1", "2"]),
        ("decay", ["", "3"]),
    ]
