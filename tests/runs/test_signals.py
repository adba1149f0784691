"""Signals: noted at once, obeyed between two steps; a requeued SLURM job goes on by itself."""

import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.processes import interrupt
from vit_lightning.errors import InputError
from vit_lightning.runs import slurm
from vit_lightning.runs.signals import Agreement, Stop

SLURM = {
    **{"SLURM_JOB_ID": "4242", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "1"},
    **{"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"},
}


@pytest.fixture(autouse=True)
def handlers():
    watched = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    before = [signal.getsignal(signum) for signum in watched]
    yield
    for signum, handler in zip(watched, before, strict=True):
        signal.signal(signum, handler)


def test_the_first_signal_counts():
    stop = Stop()
    stop.listen(signal.SIGUSR1)
    assert stop.received is None and not stop.requeues
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.received == signal.SIGUSR1 and stop.requeues


def test_sigterm_alone_requeues_nothing():
    stop = Stop()
    stop.listen(None)
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.received == signal.SIGTERM and not stop.requeues


def test_the_second_interrupt_does_not_wait():
    stop = Stop()
    stop.listen()
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(("command", "reason"), [(("false",), "exit 1"), (("no-such-scontrol",), "no-such-scontrol")])
def test_a_refused_requeue_says_what_is_left_to_do(monkeypatch, command, reason):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(InputError, match=f"job 7 .*{reason}.*submit it again"):
        slurm.requeue(command)


def test_a_job_of_an_array_is_named_by_both_numbers(monkeypatch):
    for name, value in (("SLURM_JOB_ID", "9"), ("SLURM_ARRAY_JOB_ID", "7"), ("SLURM_ARRAY_TASK_ID", "3")):
        monkeypatch.setenv(name, value)
    assert slurm.slurm_job() == "7_3"


FIT = ("fit", "--data", "Synthetic", "--data.train_size", 64, "--data.eval_size", 8, "--data.batch_size", 4)
FIT += ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1)
FIT += ("--trainer.accumulate_grad_batches", 2)


def last(run: str) -> dict:
    return torch.load(f"runs/{run}/checkpoints/last.ckpt", weights_only=True)


def test_a_requeued_job_goes_on_in_its_run(app, tmp_path, monkeypatch):
    """Simulated: SLURM's variables, its signal, an scontrol that writes down what it was told, and the second start."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/scontrol").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n')
    (tmp_path / "bin/scontrol").chmod(0o755)
    words = (*FIT, "--trainer.max_epochs", 6, "--data.train_size", 256, "--data.num_workers", 1)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    assert interrupt(tmp_path, signal.SIGUSR1, words, PATH=path, **SLURM) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "told").read_text() == "requeue 4242\n"
    step = last("default/0")["global_step"]
    assert 0 < step < 192
    assert not list(tmp_path.rglob("hpc_ckpt*"))

    with monkeypatch.context() as second:
        for name, value in (SLURM | {"SLURM_RESTART_COUNT": "1"}).items():
            second.setenv(name, value)
        done = app(*words)
    assert done.code == 0, done.err
    assert [path.name for path in Path("runs/default").iterdir()] == ["0"]
    assert app(*words).code == 0
    resumed, whole = last("default/0"), last("default/1")
    assert resumed["global_step"] == whole["global_step"] == 192
    assert all(torch.equal(resumed["state_dict"][name], whole["state_dict"][name]) for name in whole["state_dict"])


def test_an_interrupt_saves_and_exits_as_interrupted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = interrupt(tmp_path, signal.SIGINT, (*FIT, "--trainer.max_epochs", 1000, "--data.num_workers", 1))
    assert code == 130
    assert last("default/0")["global_step"] > 0
    assert not list(tmp_path.rglob("*.part"))
    assert "; python -m vit_lightning fit runs/default/0 goes on" in (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_every_signal_is_listened_to_and_only_in_the_main_thread():
    stop = Stop()
    stop.listen(signal.SIGUSR1)
    assert all(signal.getsignal(each) == stop._record for each in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1))
    other = Stop()
    thread = threading.Thread(target=other.listen, args=(signal.SIGUSR1,))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == stop._record and other.requeue_signal == signal.SIGUSR1
    assert not other.requeues


def test_an_interrupt_after_another_signal_does_not_wait_either():
    stop = Stop()
    stop.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.received == signal.SIGTERM


@pytest.mark.parametrize(("count", "again"), [(None, False), ("", False), ("0", False), ("1", True), ("12", True)])
def test_a_job_was_requeued_where_slurm_counts_its_starts(monkeypatch, count, again):
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    if count is not None:
        monkeypatch.setenv("SLURM_RESTART_COUNT", count)
    assert slurm.was_requeued() == again


def test_a_job_is_named_by_its_number_or_not_at_all(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    assert slurm.slurm_job() is None
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    assert slurm.slurm_job() == "9"


def test_processes_without_gpus_agree_at_once():
    asked = []
    strategy = SimpleNamespace(
        root_device=torch.device("cpu"), reduce_boolean_decision=lambda flag, all: asked.append((flag, all)) or flag
    )
    agreement = Agreement(strategy)
    assert agreement.any(True) is True and agreement.any(False) is False
    assert asked == [(True, False), (False, False)]
