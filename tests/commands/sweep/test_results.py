"""A cell whose log is not what its run wrote is named, and never read in part."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from vit_lightning.commands.sweep import results
from vit_lightning.commands.sweep.plan import Cell, Figure, SweepPlan
from vit_lightning.commands.sweep.results import (
    SweepRow,
    _origin,
    _read,
    _thinned,
    grouped,
    main_metric,
    mean_deviation,
    read_row,
    said,
    table,
    write_results,
)
from vit_lightning.commands.sweep.run import Record
from vit_lightning.errors import InputError

LOG = b"epoch,step,val/top1\n0,9,0.1\n1,19,0.25\n"


def test_empty_fields_are_left_out(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(LOG + b"2,29,\n")
    assert _read(path, tmp_path)[1:] == [{"epoch": 1, "step": 19, "val/top1": 0.25}, {"epoch": 2, "step": 29}]


@pytest.mark.parametrize(
    "content", [LOG[:-1], LOG[:-5], LOG + b"2,29\n", LOG + b"\xff", LOG + b"2,29,x\n", b"\xff\xfe"]
)
def test_a_damaged_log_is_one_sentence(tmp_path, content):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"metrics.csv is damaged \(.*\); remove .* to run the cell anew"):
        _read(path, tmp_path)


@pytest.mark.parametrize("content", [None, "", "[]", '{"versions": {}}'])
def test_a_lost_record_of_the_machine_is_one_sentence(tmp_path, content):
    run = tmp_path / "scratch" / "0"
    run.mkdir(parents=True)
    if content is not None:
        (run / "env.json").write_text(content)
    with pytest.raises(InputError, match=r"has lost its env.json or log.txt; remove it to run the cell anew"):
        _origin(tmp_path)


def finished(runs: Path, *lines: str, **facts) -> Cell:
    """A cell whose run left two logs of what follows its fit."""
    cell = Cell("rates", {"rate": "0.1"}, [["fit"], *([line] for line in lines)])
    run = runs / cell.place / "digits" / "0"
    run.mkdir(parents=True)
    env = {"versions": {"torch": "2.9", "vit-lightning": "0.1"}, "device": "x", "git_commit": "0123456789abc"}
    (run / "env.json").write_text(json.dumps(env | {"git_dirty": False} | facts))
    (run.parents[1] / "log.txt").write_text(
        "device   old card, precision 32-true\ndevice   new card, precision bf16-mixed\n"
    )
    Record(cell.lines, len(cell.lines), seconds=12.34, date="2026-01-02").write(run.parents[1])
    rows = [
        {"step": 4, "perf/images_per_s": 8, "perf/memory_gib": 3, "train/loss": 3},
        {"step": 9, "val/loss": 2, "val/top1": 0.5, "cost/exaflops": 1},
        {"step": 14, "perf/images_per_s": 1, "perf/memory_gib": 9, "train/loss": 2},
        {"step": 19, "val/loss": 1, "val/top1": 0.7, "cost/exaflops": 2},
        {"step": 24, "perf/images_per_s": 4, "perf/memory_gib": 5, "train/loss": 2.5},
        {"step": 29, "val/loss": 1.5, "val/top1": 0.6, "cost/exaflops": 3, "lr/a": 7},
        {"step": 34, "perf/images_per_s": 2},
    ]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = "\n".join(",".join(str(row.get(name, "")) for name in columns) for row in rows)
    (run / "metrics.csv").write_text(",".join(columns) + f"\n{text}\n")
    for number, line in enumerate(lines, 1):
        if line != "predict":
            (run.parents[1] / f"then{number}" / "version_0").mkdir(parents=True)
            (run.parents[1] / f"then{number}" / "version_0" / "metrics.csv").write_text(
                f"epoch,step,test/top1\n0,1,0.99\n0,9,0.{number}\n"
            )
    return cell


def test_a_row_tells_how_its_run_ended_and_was_at_best(tmp_path):
    row = read_row(finished(tmp_path, "test", "predict", "test"), tmp_path)
    assert row.metrics == {
        "perf/images_per_s": 3.0,  # the median of four
        "perf/memory_gib": 9.0,  # the peak
        "train/loss": 2.5,
        "val/loss": 1.5,
        "best val/loss": 1.0,
        "val/top1": 0.6,
        "best val/top1": 0.7,
        "cost/exaflops": 3.0,
        "test/top1": 0.1,
        "test/top1 (then 3)": 0.3,
    }
    assert row.curve == [
        {"step": 10, "val/loss": 2.0, "val/top1": 0.5},
        {"step": 20, "val/loss": 1.0, "val/top1": 0.7},
        {"step": 30, "val/loss": 1.5, "val/top1": 0.6},
    ]
    assert row.facts == {
        "device": "new card",
        "precision": "bf16-mixed",
        "commit": "012345678",
        "torch": "2.9",
        "version": "0.1",
        "seconds": "12.3",
        "date": "2026-01-02",
    }
    scores = {name: f"{value:g}" for name, value in row.metrics.items()}
    assert row.cells == {"rate": "0.1"} | scores | row.facts | {"status": "finished"}


@pytest.mark.parametrize(
    ("facts", "commit"),
    [({"git_commit": None}, ""), ({"git_dirty": True}, "012345678+"), ({"git_commit": "abc"}, "abc")],
)
def test_a_commit_tells_whether_files_differed(tmp_path, facts, commit):
    assert read_row(finished(tmp_path, **facts), tmp_path).facts["commit"] == commit


def test_without_a_plan_in_the_log_the_device_is_that_of_the_record(tmp_path):
    cell = finished(tmp_path)
    (tmp_path / cell.place / "log.txt").write_text("a word of the device   none, precision x\n")
    facts = read_row(cell, tmp_path).facts
    assert (facts["device"], facts["precision"]) == ("x", "")


def test_points_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(results, "POINTS", 4)
    assert _thinned(list(range(4))) == [0, 1, 2, 3]
    assert _thinned(list(range(5))) == [0, 1, 3, 4]
    assert _thinned(list(range(10))) == [0, 3, 6, 9]


def row(labels: dict[str, str], seconds: float = 1.0, **metrics: float) -> SweepRow:
    named = {name.replace("_", "/", 1): value for name, value in metrics.items()}
    return SweepRow(Cell("rates", labels, []), named, [], {"seconds": str(seconds)})


def test_means_are_of_those_that_have_the_metric():
    rows = [row({}, a_b=1.0), row({}, a_b=4.0), row({}), row({}, a_b=7.0)]
    assert mean_deviation(rows, "a/b") == (4.0, 3.0)  # of a sample
    assert mean_deviation(rows[:1], "a/b") == (1.0, 0.0)
    assert mean_deviation(rows[2:3], "a/b") is None


def plan(*figures: Figure) -> SweepPlan:
    axes = {"net": ["b", "a", "c"], "seed": ["0", "1"]}
    return SweepPlan("rates", axes, [], list(figures), frozenset())


def test_groups_stand_in_the_order_of_the_plan():
    rows = [row({"net": net, "seed": seed}) for net in "bac" for seed in "01"]
    assert list(grouped(rows, ["net"])) == [("b",), ("a",), ("c",)]
    assert [each.cell.labels for each in grouped(rows, ["seed"])["1",]] == [{"net": net, "seed": "1"} for net in "bac"]


def test_the_metric_of_the_figure_speaks_first_and_the_test_s_before_the_validation_s():
    rows = [row({}, val_loss=1.0, val_top1=0.5), row({}, test_top1=0.5, perf_mfu=0.1)]
    assert main_metric(plan(), rows) == "test/top1"
    assert main_metric(plan(), rows[:1]) == "val/top1"
    assert main_metric(plan(Figure("net", "perf/mfu")), rows) == "perf/mfu"
    assert main_metric(plan(Figure("net", "perf/none")), rows) == "test/top1"
    assert main_metric(plan(), [row({})]) is None


def test_the_table_has_a_row_per_label_with_mean_and_deviation_over_the_seeds():
    rows = [
        row({"net": net, "seed": str(seed)}, seconds, test_top1=top1, perf_images_per_s=speed, lr_x=3.0)
        for net, seed, seconds, top1, speed in (
            ("b", 0, 10, 0.5, 100),
            ("b", 1, 31, 0.7, 160),
            ("a", 0, 7, 0.25, 50),
        )
    ]
    shown = table(plan(Figure("net", "test/top1", spread="seed")), rows)
    assert [column.header for column in shown.columns] == ["net", "runs", "test/top1", "perf/images_per_s", "seconds"]
    assert list(zip(*(list(column.cells) for column in shown.columns), strict=True)) == [
        ("b", "2", "60.00 ± 14.14 %", "130 ± 42", "20"),
        ("a", "1", "25.00 %", "50", "7"),
    ]


def test_files_have_a_column_per_axis_then_scores_of_the_test_first(tmp_path):
    rows = [row({"net": "b", "seed": "0"}, 3.0, val_top1=0.123456789, cost_x=1.0, perf_x=2.0, train_loss=1.0)]
    rows.append(row({"net": "a", "seed": "1"}, 4.0, test_top1=0.5))
    rows[1].curve.extend([{"step": 10, "val/top1": 0.25}, {"step": 20, "val/loss": 1e-7}])
    write_results(replace(plan(), cells=[row.cell for row in rows]), rows, tmp_path, {})
    with (tmp_path / "rates.csv").open() as file:
        first, second = csv.DictReader(file)
    names = ["test/top1", "val/top1", "train/loss"]
    assert [name for name in first if name in names] == names
    assert list(first)[:2] == ["net", "seed"] and list(first)[-9:] == [*results.FACTS, "status", "error"]
    assert (first["val/top1"], first["test/top1"], second["test/top1"]) == ("0.123457", "", "0.5")
    assert (tmp_path / "rates.curves.csv").read_text().splitlines() == [
        "net,seed,step,val/loss,val/top1",
        "a,1,10,,0.25",
        "a,1,20,1e-07,",
    ]


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("test/top1", 0.9875, "98.75 %"),
        ("best val/macro_f1", 0.5, "50.00 %"),
        ("test/night/ece", 0.015, "1.50 %"),
        ("test/real", 0.875, "87.50 %"),
        ("val/loss", 0.9875, "0.9875"),
        ("perf/images_per_s", 130.25, "130.2"),
        ("test/of_mine", 0.5, "0.5"),
    ],
)
def test_shares_are_read_in_per_cent(metric, value, text):
    assert said(metric, value) == text
