"""One process trains in a run folder: a second is refused, whatever way it names the run, and a kill frees it."""

import errno
import fcntl
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from lightning.pytorch import Callback, Trainer

from vit_lightning.errors import InputError
from vit_lightning.runs import lock
from vit_lightning.runs.lock import LOCK, locked

HOLDER = """
import sys
from pathlib import Path
from vit_lightning.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
FIT = (
    *("fit", "--data", "Synthetic", "--data.train_size", "8", "--data.eval_size", "4", "--data.batch_size", "4"),
    *("--data.image_size", "16", "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.max_epochs"),
)
RUN = "runs/default/0"
ON = ("--trainer.max_epochs", "2", "--model.schedule.allow_horizon_change", "true")
WAYS = ((*FIT, "2", "--ckpt_path", "last"), (*FIT, "2", "--ckpt_path", f"{RUN}/checkpoints/last.ckpt"), ("fit", RUN))


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hold():
    """Start processes that hold a folder until their input ends."""
    started = []

    def start(folder: Path) -> subprocess.Popen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], text=True, **pipes))
        assert started[-1].stdout.readline() == "held\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def is_free(folder: Path) -> bool:
    with (folder / LOCK).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


class SeesLock(Callback):
    """Notes whether the folder of a run is free while it trains."""

    seen: ClassVar[list[bool]] = []

    def on_train_epoch_start(self, trainer: Trainer, *_) -> None:
        self.seen.append(is_free(Path(trainer.log_dir)))


class LosesLock(Callback):
    """Removes the lock of its run, as a user may, before anything is saved."""

    replaced: ClassVar[bool] = False

    def on_train_start(self, trainer: Trainer, *_) -> None:
        file = Path(trainer.log_dir, LOCK)
        file.unlink()
        if self.replaced:
            file.touch()


def test_a_second_process_is_refused_and_told_by_whom(tmp_path, hold, monkeypatch):
    holder = hold(tmp_path)
    monkeypatch.setattr(lock, "LIMIT", 0.0)
    with pytest.raises(InputError, match=rf"^process {holder.pid} on {platform.node()} trains in .*{tmp_path}; wait"):
        locked(tmp_path).__enter__()


def test_a_kill_frees_the_folder(tmp_path, hold, monkeypatch, capsys):
    holder = hold(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    monkeypatch.setattr(lock, "LIMIT", 0.0)
    with locked(tmp_path):
        assert not is_free(tmp_path)
    assert is_free(tmp_path) and not capsys.readouterr().out


def test_one_that_is_about_to_end_is_waited_for(tmp_path, hold, monkeypatch):
    holder = hold(tmp_path)
    said = []

    def ends(text: str, **_) -> None:
        said.append(text)
        holder.stdin.close()

    monkeypatch.setattr(lock, "LIMIT", 600.0)
    monkeypatch.setattr(lock, "print", ends, raising=False)
    with locked(tmp_path):
        assert not is_free(tmp_path)
    assert said == [f"waits    up to 600 s for process {holder.pid} on {platform.node()}, which trains in {tmp_path}"]


def test_a_requeued_job_waits_longer(tmp_path, hold, monkeypatch, capsys):
    hold(tmp_path)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.setattr(lock, "REQUEUED", 0.0)
    with pytest.raises(InputError, match="trains in"):
        locked(tmp_path).__enter__()


@pytest.mark.parametrize(
    ("function", "number"),
    [("fcntl.flock", number) for number in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)],
)
def test_a_file_system_without_locks_is_a_line(tmp_path, monkeypatch, capsys, function, number):
    def fail(*_, **__):
        raise OSError(number, "no locks here")

    monkeypatch.setattr(function, fail)
    with locked(tmp_path):
        pass
    assert capsys.readouterr().out == (
        f"warning  {tmp_path} cannot be locked (no locks here): let no other process train there\n"
    )


@pytest.mark.parametrize(
    ("number", "fix"),
    [(errno.EACCES, "allow this user"), (errno.EROFS, "allow this user"), (errno.ENOSPC, "free space there")],
)
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch, number, fix):
    def fail(*_, **__):
        raise OSError(number, "no file here")

    monkeypatch.setattr("filelock.FileLock.acquire", fail)
    with pytest.raises(InputError, match=f"^{tmp_path} cannot be locked: no file here; {fix}"):
        locked(tmp_path).__enter__()


@pytest.mark.parametrize("name", ["", "checkpoints"])
def test_a_read_only_folder_is_refused_though_its_lock_can_be_had(tmp_path, monkeypatch, name):
    (tmp_path / LOCK).touch()
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setattr("os.access", lambda place, mode: place != tmp_path / name)
    with pytest.raises(InputError, match=f"^{tmp_path / name} is read-only, so .* or copy the folder"):
        locked(tmp_path).__enter__()


OTHERS = {
    "folder": Path.mkdir,
    "FIFO": os.mkfifo,
    "link to a device": lambda place: place.symlink_to("/dev/full"),
    "link to nothing": lambda place: place.symlink_to("missing"),
    "link to a file": lambda place: place.symlink_to(__file__),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_regular_file_keeps_nobody_out(tmp_path, kind):
    OTHERS[kind](tmp_path / LOCK)
    sentence = rf"^{tmp_path / LOCK} is a {kind.split()[0]}, where .*; remove it$"
    with pytest.raises(InputError, match=sentence):
        locked(tmp_path).__enter__()
    assert not (tmp_path / "missing").exists()


def test_removal_is_advised_only_for_a_holder_on_another_host(tmp_path, hold, monkeypatch):
    holder = hold(tmp_path)
    monkeypatch.setattr(lock, "LIMIT", 0.0)
    with pytest.raises(InputError, match=rf"lives; should it be stopped, kill -CONT {holder.pid} ") as here:
        locked(tmp_path).__enter__()
    assert "remove" not in str(here.value)
    monkeypatch.setattr("platform.node", lambda: "another")
    with pytest.raises(InputError, match=f"if that process is no more, remove {tmp_path / LOCK}"):
        locked(tmp_path).__enter__()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_that_has_lost_its_lock_writes_no_more(app, tmp_path, monkeypatch, replaced):
    monkeypatch.setattr(LosesLock, "replaced", replaced)
    done = app(*FIT, "2", "--trainer.callbacks", "tests.runs.test_lock.LosesLock")
    assert done.code == 1 and f"error: {tmp_path / RUN / LOCK} was removed or replaced" in done.err, done
    assert not list((tmp_path / RUN / "checkpoints").glob("*.ckpt"))


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"])
def test_further_ranks_leave_it_to_the_first(tmp_path, monkeypatch, hold, name):
    hold(tmp_path)
    monkeypatch.setenv(name, "1")
    with locked(tmp_path):
        pass


def test_no_way_leads_into_a_run_that_goes_on(app, tmp_path, hold, monkeypatch):
    assert app(*FIT, "1").code == 0
    run = tmp_path / RUN
    assert is_free(run)
    left = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file() and path.name != LOCK}
    holder = hold(run)
    monkeypatch.setattr(lock, "LIMIT", 0.0)
    for words in WAYS:
        done = app(*words)
        assert done.code == 1 and f"error: process {holder.pid} on" in done.err, done
    assert left == {path: path.stat().st_mtime_ns for path in left}
    assert len([path for path in run.rglob("*") if path.is_file()]) == len(left) + 1
    assert app("validate", RUN).code == app("fit", RUN, "--print_config").code == 0
    assert app(*FIT, "1").code == 0 and (tmp_path / "runs/default/1/config.yaml").is_file()
    holder.kill()
    holder.wait()
    assert app("fit", RUN, *ON).code == 0


def test_a_run_holds_its_folder_from_its_beginning(app, tmp_path, monkeypatch):
    monkeypatch.setattr(SeesLock, "seen", [])
    own = ("--trainer.callbacks", "tests.runs.test_lock.SeesLock")
    assert app(*FIT, "1", *own).code == app("fit", RUN, *ON).code == 0
    assert SeesLock.seen == [False, False] and is_free(tmp_path / RUN)


def test_a_state_that_got_its_name_meanwhile_is_followed(app, tmp_path, hold, monkeypatch):
    """A run that is about to end renames new.ckpt to last.ckpt while a resume waits for it."""
    assert app(*FIT, "1").code == 0
    checkpoints = tmp_path / RUN / "checkpoints"
    (checkpoints / "last.ckpt").rename(checkpoints / "new.ckpt")
    holder = hold(tmp_path / RUN)

    def ends(*_, **__) -> None:
        (checkpoints / "new.ckpt").rename(checkpoints / "last.ckpt")
        holder.stdin.close()

    monkeypatch.setattr(lock, "print", ends, raising=False)
    done = app("fit", RUN, *ON)
    assert done.code == 0 and "last.ckpt at step 2, in epoch 2" in done.out, done
