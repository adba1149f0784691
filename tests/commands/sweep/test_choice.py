"""Plans that choose on held-out images first, over a stand-in for the runs."""

import csv
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from vit_lightning.commands.sweep import children, choice, run
from vit_lightning.commands.sweep.plan import SweepPlan, read_plan
from vit_lightning.commands.sweep.results import SweepRow
from vit_lightning.commands.sweep.shards import dealt
from vit_lightning.errors import InputError

PLAN = """
fit: --base {BASE}
choose:
  by: val/top1
  fit: --split train800
  over:
    --rate: [0.1, 0.3, 0.2]
    steps: {short: --steps 5, long: {cats: --steps 20, dogs: --steps 30}}
over:
  task: {cats: --task cats, dogs: --task dogs}
  --seed_everything: [4, 5]
then: [test --ckpt_path last]
"""
RUN = """
import json, os, sys, time
from pathlib import Path
words = sys.argv[1:]
if "--print_config" in words or words[0] == "plan":
    sys.exit()
value = lambda flag: words[words.index(flag) + 1] if flag in words else None
root, rate, seed = Path(value("--trainer.default_root_dir")), float(value("--rate")), int(value("--seed_everything"))
holds_out = value("--split") == "train800"
with open("calls.txt", "a") as calls:
    print(words[0], "choose" if holds_out else "final", value("--task"), rate, value("--steps"), seed, file=calls)
if Path("broken").exists() and value("--task") == Path("broken").read_text():
    print("error: no such task"); sys.exit(1)
time.sleep(float(value("--base")))
score = 1 - abs(rate - (0.3 if value("--task") == "cats" else 0.2)) - (value("--steps") == "5") / 100
if words[0] == "test":
    folder = root / value("--trainer.logger.name") / "version_0"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text(f"epoch,step,test/top1\\n0,0,{score - 0.1 + seed / 100}\\n")
    sys.exit()
folder = root / "tuned" / "0"
folder.mkdir(parents=True)
versions = {"torch": "2.9", "vit-lightning": "0.1.0"}
facts = {"versions": versions, "device": "x", "git_commit": None, "git_dirty": False}
(folder / "env.json").write_text(json.dumps(facts))
held = f",val/top1,val/loss\\n9,0.9,2\\n19,{score},{1 - score}"
held = held if holds_out or Path("leaky").exists() else ",train/loss\\n19,1"
(folder / "metrics.csv").write_text(f"step{held}\\n")
"""


@pytest.fixture
def sweep(app, monkeypatch, tmp_path):
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "tuned.yaml").write_text(PLAN)
    monkeypatch.setattr(run, "PYTHON_MODULE", (sys.executable, "-S", str(tmp_path / "run.py")))
    monkeypatch.setattr(children, "visible_gpus", lambda: [])
    return lambda *words: app("sweep", "tuned.yaml", "--set=BASE=0", *words)


def read(folder: Path, text: str = PLAN) -> SweepPlan:
    (folder / "tuned.yaml").write_text(text)
    return read_plan(folder / "tuned.yaml", {"BASE": "0"}, Path("runs"))


def rows(name: str) -> list[dict[str, str]]:
    """A table without what differs from one machine and day to another."""
    with Path(f"results/{name}.csv").open() as file:
        return [
            {column: value for column, value in row.items() if column not in ("seconds", "date")}
            for row in csv.DictReader(file)
        ]


def calls(kind: str) -> list[str]:
    return [line for line in Path("calls.txt").read_text().splitlines() if kind in line.split()]


BEST = {"cats": ("0.3", "20"), "dogs": ("0.2", "30")}


def test_the_first_stage_holds_images_out_and_has_the_first_seed_alone(tmp_path):
    plan = read(tmp_path)
    first = plan.choice.plan
    assert (first.name, first.by, plan.choice.per) == ("tuned.choose", "val/top1", ["task"])
    assert first.axes == {
        "task": ["cats", "dogs"],
        "seed_everything": ["4"],
        "rate": ["0.1", "0.3", "0.2"],
        "steps": ["short", "long"],
    }
    assert len(first.cells) == 2 * 3 * 2 and len(plan.cells) == 2 * 2 * 3 * 2
    cell = first.cells[1]
    assert cell.place == "tuned.choose/task=cats,seed_everything=4,rate=0.1,steps=long"
    words = "fit --base 0 --task cats --seed_everything 4 --rate 0.1 --steps 20 --split train800"
    assert cell.lines == [words.split()]
    final = plan.cells[-1]
    assert final.place == "tuned/task=dogs,seed_everything=5,rate=0.2,steps=long"
    own = ["--base", "0", "--task", "dogs", "--seed_everything", "5", "--rate", "0.2", "--steps", "30"]
    assert final.lines == [["fit", *own], ["test", *own, "--ckpt_path", "last"]]


def test_what_is_held_out_may_depend_on_an_axis(tmp_path):
    plan = read(tmp_path, PLAN.replace("fit: --split train800", "fit: {cats: --held 1, dogs: --held 2}"))
    held = [cell.lines[0][-1] for cell in plan.choice.plan.cells]
    assert held == ["1"] * 6 + ["2"] * 6


def test_a_setting_is_chosen_for_each_task_and_tested_once_a_seed(sweep):
    done = sweep("--jobs", 3)
    assert done.code == 0, done.err
    assert "16 runs, 0 finished before" in done.out
    assert len(calls("choose")) == 12 and all(
        line.startswith("fit") and line.endswith(" 4") for line in calls("choose")
    )
    wanted = [f"final {task} {rate} {steps} {seed}" for task, (rate, steps) in BEST.items() for seed in (4, 5)]
    assert sorted(line.partition(" ")[2] for line in calls("test")) == sorted(wanted)
    assert calls("test") and sorted(line.split()[0] for line in calls("final")) == ["fit"] * 4 + ["test"] * 4
    found = rows("tuned")
    assert [(row["task"], row["seed_everything"], row["rate"], row["steps"]) for row in found] == [
        (task, seed, rate, "long") for task, (rate, _) in BEST.items() for seed in "45"
    ]
    assert [float(row["test/top1"]) for row in found] == pytest.approx([0.94, 0.95, 0.94, 0.95])
    assert len(rows("tuned.choose")) == 12 and "test/top1" not in rows("tuned.choose")[0]
    again = sweep()
    assert again.code == 0 and "16 runs, 16 finished before" in again.out and len(calls("test")) == 4


def test_one_setting_for_all_tasks_is_the_best_on_average(sweep):
    Path("tuned.yaml").write_text(PLAN.replace("fit: --split", "per: []\n  fit: --split"))
    assert sweep("--jobs", 3).code == 0
    # Means over cats and dogs: 0.85 at 0.1, 0.95 at 0.3 and at 0.2, of which 0.3 stands first.
    assert {(row["rate"], row["steps"]) for row in rows("tuned")} == {("0.3", "long")}


def test_a_loss_is_best_where_it_is_least_and_the_best_of_a_run_may_decide(tmp_path):
    for by, values, best in (
        ("val/loss", (3.0, 1.0, 2.0), "0.3"),
        ("val/top1", (3.0, 1.0, 2.0), "0.1"),
        ("best val/top1", (1.0, 1.0, 2.0), "0.2"),
        ("val/top1", (1.0, 2.0, 2.0), "0.3"),
    ):
        plan = read(tmp_path, PLAN.replace("by: val/top1", f"by: {by}"))
        found = dict(zip(("0.1", "0.3", "0.2"), values, strict=True))
        first = [SweepRow(cell, {by: found[cell.labels["rate"]]}, [], {}) for cell in plan.choice.plan.cells]
        assert choice._chosen(plan.choice, first) == {("cats",): (best, "short"), ("dogs",): (best, "short")}
        assert choice._chosen(plan.choice, first[1:]) == {("dogs",): (best, "short")}


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_run_without_a_number_of_the_metric_that_decides_is_named(tmp_path, value):
    plan = read(tmp_path)
    first = [SweepRow(cell, {"val/top1": 0.5}, [], {}) for cell in plan.choice.plan.cells]
    first[1].metrics = {} if value is None else {"val/top1": value}
    place = first[1].cell.place
    with pytest.raises(InputError, match=f"^{place} has not logged a number as val/top1, by which plan tuned.choose"):
        choice._chosen(plan.choice, first)


@pytest.mark.parametrize("by", ["val/top1", "best val/ece", "val/night/top1", "val/fewshot10"])
def test_a_metric_of_the_table_of_scores_is_not_doubted(tmp_path, by):
    assert choice.doubted(read(tmp_path, PLAN.replace("by: val/top1", f"by: {by}"))) is None


@pytest.mark.parametrize(("by", "hint"), [("val/tpo1", "; did you mean val/top1?"), ("val/brightness", "")])
def test_a_dry_run_warns_of_a_metric_that_classifier_does_not_log(sweep, by, hint):
    Path("tuned.yaml").write_text(PLAN.replace("by: val/top1", f"by: {by}"))
    done = sweep("--dry_run")
    said = f"warning  plan tuned chooses by {by}, which Classifier does not log by itself: a model or callback of"
    assert done.code == 0 and done.out.count(said) == 1 and f"must do so{hint}\n" in done.out


def test_runs_wait_for_a_choice_that_failed(sweep):
    Path("broken").write_text("dogs")
    done = sweep("--jobs", 3)
    assert done.code == 1
    assert {row["task"] for row in rows("tuned")} == {"cats"}
    assert "error: 6 of 16 runs failed" in done.err
    said = "2 runs wait for the choice of a setting: its choice lacks 6 of 6 runs of tuned.choose; the same command"
    assert said in done.err
    shown = sweep("--dry_run").out
    assert (
        "# tuned/task=dogs,seed_everything=5,rate=0.1,steps=short, or with another setting: its choice lacks" in shown
    )
    Path("broken").unlink()
    assert sweep().code == 0 and len(rows("tuned")) == 4


def test_final_runs_that_hold_images_out_are_named(sweep):
    Path("leaky").touch()
    done = sweep()
    assert done.code == 0
    assert (
        done.out.count("warning  the runs of plan tuned hold images out: they log val/top1; let fit train on all") == 1
    )


def test_a_metric_that_decides_and_nobody_logged_is_told_after_the_first_run(sweep):
    Path("tuned.yaml").write_text(PLAN.replace("by: val/top1", "by: val/top2"))
    done = sweep()
    said = "plan tuned.choose: no run has logged val/top2; did you mean val/top1?"
    assert done.code == 1 and done.err == f"error: {said}\n" and not calls("final")
    assert [line.split()[0] for line in done.out.splitlines()[1:6]] == ["warning", "start", "done", "warning", "start"]


def test_shards_keep_a_choice_with_the_runs_that_follow_it(sweep, tmp_path):
    assert sweep("--shard", "2/2").code == 0
    assert {row["task"] for row in rows("tuned")} == {"dogs"} and not any("cats" in line for line in calls("fit"))
    assert sweep("--shard", "1/2").code == 0
    assert len(rows("tuned")) == 4 and len(calls("test")) == 4


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 16, 20])
def test_every_run_belongs_to_one_shard_whatever_is_chosen(tmp_path, parts):
    plan = read(tmp_path)
    shares = [dealt([plan], part, parts) for part in range(1, parts + 1)]
    places = [cell.place for cell in [*plan.choice.plan.cells, *plan.cells]]
    assert sorted(place for share in shares for place in share) == sorted(places)
    for share in shares:  # a run of the second stage stays in its part, whichever setting it gets
        finals = {place for place in share if place.startswith("tuned/")}
        assert len(finals) % 6 == 0


def test_more_shards_than_choices_wait_for_each_other(sweep):
    assert sweep("--shard", "1/16").code == 0
    done = sweep("--shard", "13/16")
    assert done.code == 1 and "1 run waits for the choice of a setting: its choice lacks 5 of 6 runs" in done.err


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 1800
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_killed_in_either_stage_it_comes_to_the_same_table(sweep):
    assert sweep("--jobs", 2).code == 0
    whole = {name: rows(name) for name in ("tuned", "tuned.choose")}
    for folder in ("runs", "results"):
        Path(folder).rename(f"whole_{folder}")
    Path("calls.txt").unlink()
    code = (
        f"from vit_lightning.commands.sweep import run; run.PYTHON_MODULE = {run.PYTHON_MODULE!r}\n"
        "from vit_lightning.commands.sweep import sweep; sweep(['tuned.yaml'], set=['BASE=0.05'])"
    )
    for count, kind in ((3, "choose"), (2, "final")):
        killed = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.DEVNULL)
        until(lambda count=count, kind=kind: Path("calls.txt").exists() and len(calls(kind)) >= count)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert not Path("results/tuned.csv").exists()
    until(lambda: "elsewhere" not in (done := sweep("--set", "BASE=0.05")).err or done.code == 0)
    assert {name: rows(name) for name in ("tuned", "tuned.choose")} == whole


def test_a_signal_in_the_first_stage_leaves_both_for_the_next_call(sweep):
    def interrupt() -> None:
        until(lambda: Path("calls.txt").exists() and calls("choose"))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    done = sweep("--set", "BASE=60")
    thread.join()
    assert done.code == 130 and not calls("final")
    assert "16 runs remain; the same command goes on with them" in done.err
    assert sweep().code == 0 and len(rows("tuned")) == 4


def test_some_tasks_can_be_run_alone(sweep):
    done = sweep("--only", "task=dogs", "seed_everything=4,5")
    assert done.code == 0, done.err
    assert "8 runs, 0 finished before" in done.out
    assert {row["task"] for row in rows("tuned")} == {"dogs"} and not any("cats" in line for line in calls("fit"))
    assert sweep().code == 0 and len(rows("tuned")) == 4 and len(calls("test")) == 4


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("tsk=dogs", "--only tsk=dogs: expected AXIS=LABEL,LABEL of task, seed_everything; did you mean task?"),
        ("task", "--only task: expected AXIS=LABEL,LABEL of task, seed_everything"),
        ("task=dogs,cat", "--only task=dogs,cat: the axis task has no label cat; did you mean cats?"),
        ("rate=0.1", "--only rate=0.1: expected AXIS=LABEL,LABEL of task, seed_everything"),
    ],
)
def test_what_no_run_has_cannot_be_run_alone(sweep, word, sentence):
    done = sweep("--only", word)
    assert done.code == 1 and done.err.startswith(f"error: {sentence}") and not Path("runs").exists()


BAD = {
    "empty": ("choose: {}", "choose lacks by"),
    "nothing": ("choose:", "choose must hold a mapping such as"),
    "no settings": ("choose: {by: val/top1, over: {}}", "choose lacks over"),
    "one setting": ("choose: {by: val/top1, over: {--rate: [1]}}", "one setting leaves no choice; give further labels"),
    "empty axis": ("choose: {by: val/top1, over: {--rate: []}}", "the axis --rate is empty"),
    "no metric": ("choose: {over: {--rate: [1, 2]}}", "choose lacks by"),
    "test": (
        "choose: {by: test/top1, over: {--rate: [1, 2]}}",
        "by test/top1 is no metric of held-out images, such as val/top1",
    ),
    "key": ("choose: {by: val/top1, ovr: {}}", "choose has the unknown key 'ovr'; did you mean over"),
    "axis twice": (
        "choose: {by: val/top1, over: {--seed_everything: [1, 2]}}",
        "seed_everything is an axis of the plan",
    ),
    "per": (
        "choose: {by: val/top1, per: [tsk], over: {--rate: [1, 2]}}",
        r"per tsk is no axis; did you mean task\? \(of task\)",
    ),
    "per seeds": (
        "choose: {by: val/top1, per: [seed_everything], over: {--rate: [1, 2]}}",
        "per seed_everything is no axis",
    ),
    "fit": ("choose: {by: val/top1, fit: test, over: {--rate: [1, 2]}}", "choose, fit: expected flags of fit"),
    "fit by label": (
        "choose: {by: val/top1, fit: {cats: --a 1}, over: {--rate: [1, 2]}}",
        "choose, fit: dogs of the axis task is missing",
    ),
}


@pytest.mark.parametrize(("choose", "sentence"), BAD.values(), ids=BAD)
def test_what_is_no_choice_is_told_in_a_sentence(tmp_path, choose, sentence):
    start, end = PLAN.index("choose:"), PLAN.index("over:\n  task")
    with pytest.raises(InputError, match=sentence) as told:
        read(tmp_path, PLAN[:start] + choose + "\n" + PLAN[end:])
    assert "\n" not in str(told.value) and "tuned.yaml" in str(told.value)


@pytest.mark.parametrize(
    ("then", "sentence"),
    [
        ("[test --ckpt_path best]", "test --ckpt_path best: the runs that are tested hold no images out"),
        ("[test --ckpt_path=best]", "give --ckpt_path last"),
        ("[test --ckpt_path last, test --ckpt_path last --x 1]", "2 lines of test; .* looks at the test set once"),
    ],
)
def test_the_test_set_is_looked_at_once_after_the_last_epoch(tmp_path, then, sentence):
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, PLAN.replace("[test --ckpt_path last]", then))
