"""Each of several processes prints its own error, with its rank; one that lost another says only that."""

import os
import socket
from types import SimpleNamespace

import pytest
import torch
from lightning.fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from torch import distributed

from tests.processes import Program
from vit_lightning import private_api, processes
from vit_lightning.cli import rank_errors
from vit_lightning.cli.rank_errors import lost_peer, prefix

NET = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
FIT = ("fit", "--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 8, *NET)
DDP = ("--data.num_workers", 0, "--trainer.devices", 2, "--trainer.strategy", "ddp")
LOST = "another process of this run has ended; its own error says why"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model.schedule.warmup_steps", 1000), "error: warm-up of 1000 steps"),
        (("--model.lrr", 1), "error: there is no flag --model.lrr"),
    ],
    ids=["joined", "alone"],
)
def test_what_all_meet_each_prints_with_its_rank(pair, tmp_path, words, said):
    done = pair.run(tmp_path, *FIT, *DDP, *words)
    assert done.codes == (1, 1)
    for rank, log in enumerate(done.logs):
        assert log.count(f"[rank {rank}] {said}") == log.count("error: ") == 1


def test_a_single_process_prints_no_rank(app):
    assert app("fit", "--model.lrr", 1).err.startswith("error: there is no flag --model.lrr")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, ""),
        ({"LOCAL_RANK": "1"}, ""),  # nothing says that there are others
        ({"RANK": "0", "WORLD_SIZE": "1"}, ""),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}, "[rank 3] "),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, "[rank 1] "),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "LOCAL_RANK": "0"}, "[rank 2] "),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, ""),
    ],
    ids=str,
)
def test_before_they_join_launchers_tell_the_rank(monkeypatch, environment, said):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert prefix() == said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (distributed.DistNetworkError("recv failed"), LOST),
        (RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4242"), LOST),
        (ConnectionResetError(104, "Connection reset by peer"), None),  # by a server of data
        (RuntimeError("shapes differ"), None),
        (torch.OutOfMemoryError("CUDA out of memory"), None),
        (ValueError("connection closed"), None),
    ],
    ids=str,
)
def test_a_lost_peer_is_one_line(monkeypatch, error, said):
    assert lost_peer(error) is None  # a single process has no peer
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert lost_peer(error) == said


FAILS = """
import os

from datamodules.synthetic import Synthetic
from vit_lightning.errors import InputError


class Fails(Synthetic):
    def train_dataloader(self):
        if os.environ["RANK"] == "1":
            raise InputError("disk 3 is gone")
        return super().train_dataloader()
"""


def test_what_one_alone_meets_ends_the_other_with_one_line(tmp_path):
    (tmp_path / "fails.py").write_text(FAILS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    shared |= {"TORCHELASTIC_RUN_ID": "test", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    words = [*FIT, *DDP, "--data", "fails.Fails", "--trainer.num_sanity_val_steps", 0]
    ranks = [Program(words, tmp_path, shared | {"RANK": rank, "LOCAL_RANK": rank}, rank) for rank in "01"]
    ended = [rank.end() for rank in ranks]
    assert [one.returncode for one in ended] == [1, 1]
    errors = [one.stderr for one in ended]
    assert f"[rank 0] error: {LOST}" in errors[0] and "[rank 1] error: disk 3 is gone" in errors[1]
    assert not any("Traceback" in error for error in errors)


@pytest.mark.parametrize(
    "said",
    [
        "Connection closed by peer",
        "connection was closed",
        "Connection reset by peer",
        "Connection refused",
        "connection aborted",
        "Broken pipe",
        "NCCL error: remote process exited or there was a network error",
    ],
)
def test_every_word_for_a_lost_process_is_known(monkeypatch, said):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert lost_peer(RuntimeError(f"[gloo] {said}: 104")) == LOST
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert lost_peer(RuntimeError(f"[gloo] {said}: 104")) is None


def test_once_they_have_joined_torch_tells_the_rank(monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "9")
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 3)
    assert prefix() == "[rank 2] "


@pytest.mark.parametrize(("rank", "waited"), [(0, []), (1, [rank_errors.GRACE]), (7, [rank_errors.GRACE])])
def test_further_processes_leave_the_first_one_time_for_its_error(monkeypatch, rank, waited):
    slept: list[float] = []
    monkeypatch.setattr(rank_errors, "_rank_and_count", lambda: (rank, 8))
    monkeypatch.setattr(rank_errors.time, "sleep", slept.append)
    rank_errors.wait_for_first_process()
    assert slept == waited and 1 <= rank_errors.GRACE < processes.LIMIT


def test_a_launcher_no_longer_kills_the_process_that_says_its_own_error():
    ended = SimpleNamespace(pid=-1, returncode=1, poll=lambda: 1, send_signal=lambda signum: None)
    observer = _ChildProcessObserver(main_pid=os.getpid(), child_processes=[ended], sleep_period=1)
    observer.start()
    private_api.spare_first_process()  # or else this test would end the suite
    observer.join(30)
    assert not observer.is_alive()
