"""Rows of a table by task: which of another plan's nets is meant, and what was chosen for each task."""

import json
from pathlib import Path

import pytest

from vit_lightning.commands.sweep.plan import SweepPlan, read_plan
from vit_lightning.commands.sweep.results import SweepRow
from vit_lightning.commands.sweep.task_files import shown_task_table, write_task_table
from vit_lightning.commands.sweep.task_scores import NetRow, Stat, net_rows, split_facts

NETS = """
fit: --a 1
over:
  task: {dtd: --b 1, pets: --b 2}
  net: {small: --c 1, large: --c 2}
  depth: {"6": --d 6, "12": --d 12}
then: [test --ckpt_path last]
table: {tasks: task, y: test/top1, plans: {elsewhere: other}}
"""
CHOICE = """
fit: --a 1
choose: {by: val/top1, over: {--rate: [1, 2], --decay: [3, 4]}}
over:
  task: {dtd: --b 1, pets: --b 2}
  --seed_everything: [0, 1]
then: [test --ckpt_path last]
table: {tasks: task, y: test/top1, also: {real: pets test/real}}
"""


def read(folder: Path, text: str) -> SweepPlan:
    (folder / "mine.yaml").write_text(text)
    return read_plan(folder / "mine.yaml", {}, Path("runs"))


def scored(plan: SweepPlan, metric: str = "test/top1") -> list[SweepRow]:
    """Rows of all cells whose scores are their numbers in hundredths."""
    return [SweepRow(cell, {metric: number / 100}, [], {}) for number, cell in enumerate(plan.cells)]


def of_other(folder: Path, *nets: tuple[str, str | None, float]) -> None:
    rows = [
        {"net": net, "source": source, "scores": {"mean": {"mean": mean, "deviation": None, "runs": 1}}}
        for net, source, mean in nets
    ]
    (folder / "other.table.json").write_text(json.dumps({"rows": rows}))


def test_every_axis_but_tasks_and_seeds_tells_nets_apart(tmp_path):
    plan = read(tmp_path, NETS)
    rows = net_rows(plan, scored(plan), tmp_path)
    assert [row.net for row in rows] == ["small, 6", "small, 12", "large, 6", "large, 12"]
    assert [(row.scores["dtd"].mean, row.scores["pets"].mean) for row in rows] == [
        (0.0, 0.04),
        (0.01, 0.05),
        (0.02, 0.06),
        (0.03, 0.07),
    ]
    assert all(stat.deviation is None and stat.runs == 1 for row in rows for stat in row.scores.values())
    assert {row.missing[0] for row in rows} == {"elsewhere (by the plan other)"}


def test_a_net_takes_the_mean_of_its_namesake_in_another_plan(tmp_path):
    plan = read(tmp_path, NETS)
    of_other(tmp_path, ("large, 6", None, 0.5), ("small, 12", None, 0.7), ("small, 6", "a paper", 0.9))
    found = [row.scores.get("elsewhere") for row in net_rows(plan, scored(plan), tmp_path)]
    assert found == [None, Stat(0.7, None, 1), Stat(0.5, None, 1), None]


def test_the_only_net_of_another_plan_serves_all_and_one_of_several_none(tmp_path):
    plan = read(tmp_path, NETS)
    of_other(tmp_path, ("x", None, 0.5), ("y", "a paper", 0.9))
    assert [row.scores["elsewhere"].mean for row in net_rows(plan, scored(plan), tmp_path)] == [0.5] * 4
    of_other(tmp_path, ("x", None, 0.5), ("y", None, 0.9))
    assert not any("elsewhere" in row.scores for row in net_rows(plan, scored(plan), tmp_path))
    of_other(tmp_path, ("x", "a paper", 0.5))
    assert not any("elsewhere" in row.scores for row in net_rows(plan, scored(plan), tmp_path))


def chosen_rows(plan: SweepPlan) -> list[SweepRow]:
    """Of dtd the first rate and the second decay are chosen, of pets the second rate and the first decay."""
    chosen = {"dtd": {"rate": "1", "decay": "4"}, "pets": {"rate": "2", "decay": "3"}}
    cells = [cell for cell in plan.cells if chosen[cell.labels["task"]].items() <= cell.labels.items()]
    scores = {("dtd", "0"): 0.5, ("dtd", "1"): 0.75, ("pets", "0"): 0.25, ("pets", "1"): 0.25}
    return [
        SweepRow(cell, {"test/top1": scores[cell.labels["task"], cell.labels["seed_everything"]]}, [], {})
        for cell in cells
    ]


def test_the_setting_of_each_task_stands_beside_its_mean_over_the_seeds(tmp_path):
    plan = read(tmp_path, CHOICE)
    (row,) = net_rows(plan, chosen_rows(plan), tmp_path)
    assert row.net == "mine" and row.missing == ["real"]
    assert row.settings == {"dtd": {"rate": "1", "decay": "4"}, "pets": {"rate": "2", "decay": "3"}}
    assert row.scores["dtd"] == Stat(0.625, pytest.approx(0.25 / 2**0.5), 2)
    write_task_table(plan, [row], {}, tmp_path)
    text = (tmp_path / "mine.table.md").read_text()
    assert "## Chosen on held-out images\n\n| net | task | rate | decay |\n| --- | --- | --- | --- |\n" in text
    assert "| mine | dtd | 1 | 4 |\n| mine | pets | 2 | 3 |" in text
    assert json.loads((tmp_path / "mine.table.json").read_text())["rows"][0]["settings"] == row.settings


def test_a_further_column_is_of_its_own_task_alone(tmp_path):
    plan = read(tmp_path, CHOICE)
    rows = [SweepRow(row.cell, {"test/real": row.metrics["test/top1"]}, [], {}) for row in chosen_rows(plan)]
    (found,) = net_rows(plan, rows, tmp_path)
    assert found.scores == {"real": Stat(0.25, 0.0, 2)} and found.missing == ["dtd", "pets"]


def test_one_run_of_three_that_held_other_images_is_told(tmp_path):
    """Whichever it is: the first, the second or the last."""
    text = CHOICE.replace("choose: {by: val/top1, over: {--rate: [1, 2], --decay: [3, 4]}}\n", "")
    plan = read(tmp_path, text.replace("[0, 1]", "[0, 1, 2]"))
    rows = [row for row in scored(plan) if row.cell.labels["task"] == "dtd"]
    for odd in (None, 0, 1, 2):
        for number, row in enumerate(rows):
            folder = tmp_path / row.cell.place / "tuned" / "0"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "splits.json").write_text(json.dumps({"train": {"n": int(number == odd)}, "test": {"n": 5}}))
        train = {"n": 0} if odd is None else None
        assert split_facts(plan, [], rows, tmp_path) == {"dtd": {"train": train, "test": {"n": 5}}}


def test_few_columns_stand_side_by_side_and_bars_of_names_are_escaped(tmp_path):
    plan = read(tmp_path, NETS)
    rows = [NetRow(f"n|{number}", None if number else "p", {"dtd": Stat(number / 8)}) for number in range(4)]
    shown = shown_task_table(plan, rows)
    assert [column.header for column in shown.columns] == ["", "dtd", "pets", "elsewhere"]
    assert list(shown.columns[0].cells) == ["n|0 (p)", "n|1", "n|2", "n|3"]
    assert list(shown.columns[1].cells) == ["0.00", "12.50", "25.00", "37.50"]
    assert [column.justify for column in shown.columns] == ["left", "right", "right", "right"]
    write_task_table(plan, rows, {}, tmp_path)
    assert r"| n\|1 | 12.50 | - | - |" in (tmp_path / "mine.table.md").read_text()
    assert "## Splits" not in (tmp_path / "mine.table.md").read_text()
