"""When the plan of a run is printed, what a resume adds, and what is kept of it."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks import plan as module
from vit_lightning.callbacks.plan import RunPlan, log_every_epoch, shared_cores


@pytest.fixture
def planned(monkeypatch):
    """A trainer that a plan of two lines is made for."""
    monkeypatch.setattr(module, "estimate", lambda trainer, model: "an estimate")
    monkeypatch.setattr(module, "plan_lines", lambda trainer, model, folder, found: [f"run      {folder}", found])
    monkeypatch.setattr(module, "shared_cores", lambda trainer: ["threads"])
    monkeypatch.setattr(module, "log_every_epoch", lambda trainer: None)
    loop = SimpleNamespace(setup_data=lambda: None)
    return SimpleNamespace(fit_loop=loop, is_global_zero=True, global_step=0, current_epoch=0, ckpt_path=None)


def test_a_plan_is_printed_by_the_first_process_and_estimated_by_all(planned, capsys):
    plan = RunPlan(Path("r"))
    plan.on_fit_start(planned, None)
    plan.on_train_start(planned, None)
    assert capsys.readouterr().out.splitlines() == ["run      r", "an estimate", "threads"]
    planned.is_global_zero, other = False, RunPlan(Path("r"))
    other.on_fit_start(planned, None)
    planned.global_step = 3
    other.on_train_start(planned, None)
    assert capsys.readouterr().out == "" and other.estimate == "an estimate" and other.lines == []


@pytest.mark.parametrize(
    ("path", "said"), [("x/last.ckpt", "x/last.ckpt at step 7, in epoch 3"), (None, "at step 7, in epoch 3")]
)
def test_a_resume_says_from_where(planned, capsys, tmp_path, monkeypatch, path, said):
    monkeypatch.chdir(tmp_path)
    planned.global_step, planned.current_epoch, planned.ckpt_path = 7, 2, path and str(tmp_path / path)
    plan = RunPlan()
    plan.on_train_start(planned, None)
    assert plan.lines == [f"resume   {said}"] and capsys.readouterr().out == f"resume   {said}\n"


def test_plans_of_all_parts_of_a_run_are_kept_once_each(planned, tmp_path):
    for part in ("first", "second \udcff"):
        plan = RunPlan(tmp_path, keep=True)
        plan.lines = [part, "end"]
        assert not (tmp_path / "plan.txt").exists() or part != "first"
        for batch in range(2):
            plan.on_train_batch_start(planned, None, None, batch)
    assert (tmp_path / "plan.txt").read_bytes() == b"first\nend\n\nsecond \xff\nend\n"
    for plan in (RunPlan(tmp_path), RunPlan(None, keep=True)):
        plan.lines = ["not kept"]
        plan.on_train_batch_start(planned, None, None, 0)
    assert b"not kept" not in (tmp_path / "plan.txt").read_bytes()


@pytest.mark.parametrize(
    ("batches", "accumulation", "most", "every", "expected"),
    [
        (8, 1, -1, 10, 8),
        (8, 2, -1, 10, 4),
        (9, 2, -1, 10, 5),
        (8, 1, 3, 10, 3),
        (20, 1, -1, 10, 10),
        (10, 1, -1, 10, 10),
        (float("inf"), 1, -1, 10, 10),
        (float("inf"), 1, 4, 10, 4),
        (1, 4, -1, 10, 1),
        (8, 1, -1, 0, 0),
    ],
)
def test_an_epoch_is_logged_once_at_least(batches, accumulation, most, every, expected):
    trainer = SimpleNamespace(num_training_batches=batches, accumulate_grad_batches=accumulation, max_steps=most)
    trainer.log_every_n_steps = every
    log_every_epoch(trainer)
    assert trainer.log_every_n_steps == expected


@pytest.mark.parametrize(
    ("threads", "load", "warns"), [(2, 3.0, False), (2, 3.1, True), (1, 9.0, False), (4, 1.0, False), (4, 1.5, True)]
)
def test_threads_that_wait_for_a_core_are_told(monkeypatch, threads, load, warns):
    """Of four cores; one of the load is this process."""
    monkeypatch.setattr(module, "cores", lambda: 4)
    monkeypatch.setattr(module.torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(module.os, "getloadavg", lambda: (load, 99.0, 99.0))
    trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")))
    (line,) = shared_cores(trainer)
    assert line.startswith(f"threads  {threads} on 4 cores") and ("set OMP_NUM_THREADS=1" in line) == warns
    trainer.strategy.root_device = torch.device("cuda")
    assert shared_cores(trainer) == []
