"""What a sweep says of its runs at the end, and what its words and plans mean, without running any."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.commands.sweep import verb as module
from vit_lightning.commands.sweep.plan import Cell, Figure, SweepPlan, read_plan
from vit_lightning.commands.sweep.results import SweepRow
from vit_lightning.commands.sweep.run import Outcome, Record
from vit_lightning.errors import InputError


def cell(label: str, plan: str = "p", lines: int = 1) -> Cell:
    return Cell(plan, {"rate": label}, [["fit"], ["test"], ["predict"]][:lines])


ELSEWHERE = Outcome(cell("3"), "elsewhere", reason="another sweep")


def test_a_run_that_another_sweep_has_ended_meanwhile_is_not_missing(tmp_path, capsys):
    folder = tmp_path / ELSEWHERE.cell.place
    folder.mkdir(parents=True)
    Record(ELSEWHERE.cell.lines, done=1).write(folder)
    module._exit([ELSEWHERE], None, tmp_path, 1)
    assert capsys.readouterr().err == ""


def test_of_this_part_s_runs_those_are_left_that_have_not_ended(tmp_path):
    cells = [cell(label, plan, 2) for plan in ("p", "q") for label in ("1", "2", "3")]
    plans = [SweepPlan(name, {"rate": ["1", "2", "3"]}, [each for each in cells if each.plan == name], [], frozenset())
             for name in ("p", "q")]  # fmt: skip
    for place, done in ((cells[0].place, 2), (cells[1].place, 1), (cells[4].place, 2), (cells[5].place, 2)):
        (tmp_path / place).mkdir(parents=True)
        Record([["fit"], ["test"]][:done], done=done).write(tmp_path / place)
    mine = {each.place for each in cells} - {cells[2].place, cells[5].place}
    left, finished = module._left(plans, mine, tmp_path)
    assert [each.place for each in left] == [cells[1].place, cells[3].place] and finished == 2


def write(folder: Path, name: str, more: str = "") -> str:
    text = f"fit: --a {{DATA}}\nover: {{--s: [0, 1]}}\nthen: [test --ckpt_path last]\n{more}"
    (folder / name).write_text(text)
    return str(folder / name)


def test_plans_have_names_of_their_own_their_first_stages_too(tmp_path):
    (tmp_path / "other").mkdir()
    choose = "choose: {by: val/top1, over: {--r: [1, 2]}}\n"
    first, second = write(tmp_path, "a.yaml"), write(tmp_path, "b.yaml", choose)
    plans = module._plans([first, second], {"DATA": "x"}, Path("runs"))
    assert [plan.name for plan in plans] == ["a", "b"] and plans[1].choice.plan.name == "b.choose"
    with pytest.raises(InputError, match="two plans are called a, which is the name of their folder"):
        module._plans([first, write(tmp_path / "other", "a.yaml")], {"DATA": "x"}, Path("runs"))
    with pytest.raises(InputError, match=r"two plans are called b\.choose"):
        module._plans([second, write(tmp_path, "b.choose.yaml")], {"DATA": "x"}, Path("runs"))
    with pytest.raises(InputError, match=r"--set DTA: no plan has \{DTA\} to fill; did you mean DATA\?"):
        module._plans([first], {"DATA": "x", "DTA": "y"}, Path("runs"))


def row(**metrics: float) -> SweepRow:
    return SweepRow(cell("1"), {name.replace("_", "/", 1): value for name, value in metrics.items()}, [], {})


def plan(**facts) -> SweepPlan:
    usual = {"name": "p", "axes": {"rate": ["1"]}, "cells": [], "figures": [], "filled": frozenset()}
    return SweepPlan(**usual | facts)


def test_the_first_rows_tell_what_a_plan_lacks():
    drawn = plan(figures=[Figure("rate", "val/top1"), Figure("rate", "val/loss")])
    first, second = module._doubts(drawn, [row(val_loss=1.0)])
    assert first.startswith("figure of plan p: no run has logged val/top1") and second is None
    assert list(module._doubts(plan(by="val/top1"), [row(val_top1=0.5)])) == [None]
    (said,) = module._doubts(plan(by="val/top1"), [row(test_top1=0.5)])
    assert said.startswith("plan p: no run has logged val/top1")


def test_runs_that_are_tested_should_hold_nothing_out():
    chosen = plan(choice=SimpleNamespace())
    said = "the runs of plan p hold images out: they log val/top1; let fit train on all of them"
    assert list(module._doubts(chosen, [row(test_top1=0.5, val_top1=0.5)])) == [said]
    assert list(module._doubts(chosen, [row(test_top1=0.5)])) == []
    assert list(module._doubts(plan(), [row(val_top1=0.5)])) == []


def test_tables_that_others_take_a_column_from_are_written_first(tmp_path, monkeypatch):
    text = "fit: --a 1\nover: {{task: {{x: --b 1}}}}\nthen: [test --ckpt_path last]\n"
    text += "table: {{tasks: task, y: test/top1{}}}\n"
    plans = []
    for name, more in (("late", ", plans: {early: early}"), ("early", ""), ("empty", "")):
        (tmp_path / f"{name}.yaml").write_text(text.format(more))
        plans.append(read_plan(tmp_path / f"{name}.yaml", {}, Path("runs")))
    rows = {"late": [row()], "early": [row()], "empty": []}
    written: list[str] = []
    monkeypatch.setattr(module, "read_rows", lambda plan, runs: rows[plan.name])
    monkeypatch.setattr(module, "net_rows", lambda plan, rows, results: [SimpleNamespace(net="n", missing=["x", "y"])])
    monkeypatch.setattr(module, "split_facts", lambda *words: {})
    monkeypatch.setattr(module, "write_task_table", lambda plan, *words: written.append(plan.name))
    monkeypatch.setattr(module, "shown_task_table", lambda *words: "")
    monkeypatch.setattr(module, "draw_groups", lambda *words: None)
    said: list[str] = []
    monkeypatch.setattr(module, "report", said.append)
    module._write_task_tables(plans, tmp_path, tmp_path)
    assert written == ["early", "late"]
    assert [line.partition(":")[2] for line in said if line.startswith("missing")] == [" x, y"] * 2


def test_runs_and_results_go_to_folders(tmp_path):
    (tmp_path / "x").touch()
    for flag in ("runs", "results"):
        with pytest.raises(InputError, match=f"--{flag} .*x is a file; give a folder"):
            module.sweep([], **{flag: tmp_path / "x"})
    with pytest.raises(InputError, match="--jobs 0: expected 1 or more"):
        module.sweep([], jobs=0)
    module._make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(InputError, match=str(tmp_path / "x")):
        module._make_folder(tmp_path / "x" / "y")


@pytest.mark.parametrize(("count", "said"), [(1, "1 run waits"), (2, "2 runs wait")])
def test_runs_that_wait_for_a_choice_are_counted(tmp_path, capsys, count, said):
    waiting = [Outcome(cell(str(number)), "waiting", reason=f"lacks {number}") for number in range(count)]
    with pytest.raises(SystemExit) as ended:
        module._exit([*waiting, Outcome(cell("9"), "finished")], None, tmp_path, count + 1)
    assert ended.value.code == 1
    assert capsys.readouterr().err == (f"{said} for the choice of a setting: lacks 0; the same command goes on then\n")
