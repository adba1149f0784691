"""VTAB over the tasks whose sets the kit holds in their original form, by the real commands, killed and resumed."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from datamodules.vtab import VTAB
from datamodules.vtab.tasks import TASKS
from tests.test_experiments import FOLDER
from vit_lightning.commands.sweep.plan import read_plan

ROOTS = {
    "dtd": "real",
    "pets": "real",
    "dmlab": "real",
    "clevr_count": "fake-adapted",
    "smallnorb_azimuth": "fake-tfds",
}
"""Folder of each task in the kit; the others lack files there."""
SMALL = (
    "--model.net.variant mu/4 --data VTAB --data.image_size 16 --data.allow_incomplete true --data.batch_size 2 "
    "--data.num_workers 0 --trainer.accelerator cpu --trainer.max_epochs -1 --trainer.max_steps 3"
)
SWEEP = [sys.executable, "-m", "vit_lightning", "sweep", "vtab.yaml"]


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 3600
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def tables() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("results").glob("vtab.table.*")}


def test_the_plan_has_the_benchmarks_tasks_in_its_groups():
    plan = read_plan(FOLDER / "sweeps/vtab.yaml", {"VTAB": "v", "WEIGHTS": "w"}, Path("runs"))
    groups: dict[str, list[str]] = {}
    for task in TASKS.values():
        groups.setdefault(task.group, []).append(task.name)
    assert plan.table.groups == groups and plan.axes["task"] == list(TASKS)
    assert all(cell.lines[0][cell.lines[0].index("--data.task") + 1] == cell.labels["task"] for cell in plan.cells)
    assert len(plan.axes["seed_everything"]) == 3
    assert all("train800" in cell.lines[0] for cell in plan.choice.plan.cells)
    assert not any("--data.split" in line for cell in plan.cells for line in cell.lines)  # both by default
    assert inspect.signature(VTAB).parameters["split"].default == "train800val200"


def test_the_final_runs_of_transfer_hold_nothing_out():
    plan = read_plan(FOLDER / "sweeps/transfer.yaml", dict.fromkeys(("IMAGENET", "DATA", "WEIGHTS"), "x"), Path("runs"))
    for cell in plan.cells:
        values = dict(pairwise(cell.lines[0]))
        assert (values["--data.val_fraction"], values["--trainer.limit_val_batches"]) == ("0", "0")
    for cell in plan.choice.plan.cells:
        values = dict(pairwise(cell.lines[0]))  # the last one counts
        assert float(values["--data.val_fraction"]) > 0 and values["--trainer.limit_val_batches"] == "1.0"
        assert values.get("--data.also", "[]") == "[]"
    rates = {
        task: sorted(
            {dict(pairwise(cell.lines[0]))["--model.optim.lr"] for cell in plan.cells if cell.labels["task"] == task}
        )
        for task in plan.axes["task"]
    }
    assert rates.pop("imagenet") == ["0.003", "0.01", "0.03", "0.06"]
    assert all(found == ["0.001", "0.003", "0.01", "0.03"] for found in rates.values())


@pytest.mark.slow
def test_a_run_that_was_killed_twice_comes_to_the_same_table(kit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = yaml.safe_load((FOLDER / "sweeps/vtab.yaml").read_text())
    roots = {task: f"--data.task {task} --data.root {kit}/vtab-layouts/{root}" for task, root in ROOTS.items()}
    plan |= {"fit": SMALL, "over": {"task": roots, "--seed_everything": [0]}}
    plan["choose"]["over"] = {"--model.optim.lr": [0.001, 0.1]}
    Path("vtab.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))

    done = subprocess.run(SWEEP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    missing = next(line for line in done.stdout.splitlines() if line.startswith("missing  vtab: "))
    assert missing.split(": ")[1].split(", ") == [task for task in all_tasks(plan) if task not in ROOTS]
    whole = tables()
    assert sorted(whole) == ["vtab.table.csv", "vtab.table.json", "vtab.table.md", "vtab.table.svg"]
    content = json.loads(whole["vtab.table.json"])
    own = content["rows"][0]
    assert set(own["scores"]) == set(ROOTS) and own["settings"].keys() == ROOTS.keys()
    assert {split: facts["images"] for split, facts in content["splits"]["dtd"].items()} == {
        "choose": 40,
        "val": 40,
        "train": 80,
        "test": 40,
    }
    assert len(content["splits"]["pets"]["val"]["absent_classes"]) >= 34  # the kit has 3 of 37 breeds

    for folder in ("runs", "results"):
        Path(folder).rename(f"whole_{folder}")
    for begun, count in (("runs/vtab.choose/*/log.txt", 3), ("runs/vtab/*/log.txt", 2)):
        killed = subprocess.Popen(SWEEP, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda begun=begun, count=count: len(list(Path().glob(begun))) >= count)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert not tables()
    until(lambda: subprocess.run(SWEEP, capture_output=True, check=False).returncode == 0)
    assert tables() == whole


def all_tasks(plan: dict) -> list[str]:
    return [task for tasks in plan["table"]["groups"].values() for task in tasks]
