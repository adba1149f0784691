"""Who holds a run folder's lock, in words, and what becomes of a lock that was lost."""

import errno
import os
import platform
import socket
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.errors import InputError
from vit_lightning.runs import lock
from vit_lightning.runs.lock import LOCK, check_held, locked


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("content", "holder"),
    [
        (b"process 7 on host\n", "process 7 on host"),
        (b"process 7 on host" + b"x" * 200, f"process 7 on host{'x' * 83}"),
        (b"", "another process"),
        (b"something else", "another process"),
        (b"process \x1b[31m", "another process"),
        (None, "another process"),
    ],
)
def test_the_holder_is_whoever_has_signed(tmp_path, content, holder):
    if content is not None:
        (tmp_path / LOCK).write_bytes(content)
    assert lock._holder(tmp_path) == holder


def test_the_lock_s_file_names_its_holder_alone(tmp_path):
    (tmp_path / LOCK).write_text("process 123456789 on a host with a long name\n")
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == f"process {os.getpid()} on {platform.node()}\n"
    with locked(tmp_path):  # free again
        pass


def make_socket(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (Path.mkdir, "folder"),
        (os.mkfifo, "FIFO"),
        (make_socket, "device or socket"),
        (lambda path: path.symlink_to("elsewhere"), "link"),
        (lambda path: path.symlink_to("/dev/zero"), "link"),
    ],
)
def test_what_lies_in_the_place_of_the_lock_is_named(monkeypatch, tmp_path, make, kind):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    make(Path(LOCK))
    with pytest.raises(InputError, match=rf"^\.lock is a {kind}, where a regular file .*; remove it$"), locked(Path()):
        pass
    assert os.listdir() == [LOCK] and lock._held == {}


@pytest.mark.parametrize(
    ("number", "fix"),
    [(errno.ENOSPC, "free space there"), (errno.EDQUOT, "free space there"), (errno.EACCES, lock.COPY)],
)
def test_the_fix_is_that_of_the_fault(number, fix):
    assert lock._fix(OSError(number, "x")) == fix


def test_a_lock_that_is_held_lets_the_run_write(tmp_path):
    (tmp_path / "config.yaml").touch()
    with locked(tmp_path):
        check_held()
        assert list(lock._held) == [tmp_path]
    assert lock._held == {}
    check_held()


@pytest.mark.parametrize("began", [True, False], ids=["a run", "a folder before its first batch"])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_lock_that_was_lost_stops_what_is_written(tmp_path, began, replaced):
    if began:
        (tmp_path / "config.yaml").touch()
    said = rf"^{tmp_path}/\.lock was removed or replaced while" if began else f"^the run folder {tmp_path} was removed"
    with locked(tmp_path):
        (tmp_path / LOCK).unlink()
        if replaced:
            (tmp_path / LOCK).touch()
        with pytest.raises(InputError, match=said):
            check_held()


def test_a_folder_that_is_gone_is_told_by_what_writes_there(tmp_path):
    folder = tmp_path / "0"
    folder.mkdir()
    with locked(folder):
        folder.rename(tmp_path / "away")
        check_held()


def test_a_lock_is_let_go_of_after_a_failure(tmp_path):
    with suppress(KeyError), locked(tmp_path):
        raise KeyError
    assert lock._held == {}
    with locked(tmp_path):
        pass


@pytest.mark.parametrize(("requeued", "seconds"), [(False, 8.0), (True, 120.0)])
def test_a_requeued_job_waits_for_its_lost_host_and_others_for_an_end(tmp_path, monkeypatch, capsys, requeued, seconds):
    waited: list[float] = []

    def acquire(timeout: float) -> None:
        waited.append(timeout)
        raise lock.Timeout("x")

    monkeypatch.setattr(lock, "was_requeued", lambda: requeued)
    with pytest.raises(InputError, match=rf"^another process trains in the run folder {tmp_path}; wait for its end"):
        lock._take(SimpleNamespace(acquire=acquire), tmp_path)
    assert waited == [0, seconds]
    assert capsys.readouterr().out == (
        f"waits    up to {seconds:.0f} s for another process, which trains in {tmp_path}\n"
    )
