"""Processes end with the one that started them, at once or within their time, and only those that are ours."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from vit_lightning import processes
from vit_lightning.processes import STARTED_BY, end_children, end_in_time, exists, is_program


def ended(code: str, **variables: str) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name not in (STARTED_BY, "LOCAL_RANK")}
    text = f"import os, sys, time\nfrom vit_lightning import processes\n{code}"
    return subprocess.run(
        [sys.executable, "-c", text], env=environment | variables, capture_output=True, text=True, timeout=120
    )


def gone() -> int:
    """Number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_process_is_there_or_not(monkeypatch):
    assert exists(os.getpid()) and exists(1) and not exists(gone())
    for error, there in ((PermissionError, True), (ProcessLookupError, False)):
        monkeypatch.setattr(os, "kill", lambda pid, signum, error=error: (_ for _ in ()).throw(error()))
        assert exists(3) is there


@pytest.mark.parametrize(("value", "ours"), [(None, False), ("", False), ("1", False), ("own", True)])
def test_only_the_program_itself_is_ours_to_end(monkeypatch, value, ours):
    monkeypatch.delenv(STARTED_BY, raising=False)
    if value is not None:
        monkeypatch.setenv(STARTED_BY, str(os.getpid()) if value == "own" else value)
    assert is_program() is ours


@pytest.mark.parametrize("ours", [True, False])
def test_a_program_of_ours_has_its_time_to_end_and_a_notebook_any(monkeypatch, ours):
    timers: list[tuple[float, bool]] = []
    monkeypatch.setattr(processes, "is_program", lambda: ours)
    monkeypatch.setattr(threading.Timer, "start", lambda self: timers.append((self.interval, self.daemon)))
    end_in_time(3)
    assert timers == ([(8.0, True)] if ours else [])


@pytest.mark.parametrize(("said", "printed"), [("", ""), ("too slow", "error: too slow\n")])
def test_what_takes_too_long_ends_with_its_status_and_a_word(said, printed):
    code = f"processes.LIMIT = 0.01\nprocesses.end_with_starter()\nprocesses.end_in_time(7, {said!r})\ntime.sleep(99)"
    done = ended(code)
    assert (done.returncode, done.stderr) == (7, printed)


def test_a_program_names_itself_as_the_starter_of_those_to_come():
    done = ended(f"processes.end_with_starter()\nprint(os.environ[{STARTED_BY!r}] == str(os.getpid()))")
    assert (done.returncode, done.stdout) == (0, "True\n")


@pytest.mark.parametrize(("rank", "status"), [(None, 128 + signal.SIGTERM), ("1", 128 + signal.SIGKILL)])
def test_a_program_whose_starter_is_gone_ends_at_once(rank, status):
    variables = {STARTED_BY: str(gone())} | ({"LOCAL_RANK": rank} if rank else {})
    done = ended("processes.end_with_starter()\nprint('alive')", **variables)
    assert (done.returncode, done.stdout) == (status, "")


@pytest.mark.parametrize("value", ["", "none", "-3"])
def test_a_program_that_nobody_of_ours_started_lives(value):
    assert ended("processes.end_with_starter()\nprint('alive')", **{STARTED_BY: value}).stdout == "alive\n"


def test_a_program_lives_while_its_starter_or_a_shell_around_it_does():
    for starter in (os.getpid(), 1):
        assert ended("processes.end_with_starter()\nprint('alive')", **{STARTED_BY: str(starter)}).stdout == "alive\n"


@pytest.mark.parametrize(("rank", "signum"), [(None, signal.SIGTERM), ("1", signal.SIGKILL)])
@pytest.mark.parametrize("system", ["asked", "silent"])
def test_a_starter_s_death_is_sigterm_to_a_fit_and_the_end_of_a_rank(tmp_path, rank, signum, system):
    """Where the system gives no signal, the program looks for itself."""
    silent = "processes._signal_at_death_of = lambda *_: False" if system == "silent" else ""
    child = f"""
import os, signal, time
from vit_lightning import processes
def leave(word):
    open({str(tmp_path / "said")!r}, "w").write(word)
    os._exit(0)
signal.signal(signal.SIGTERM, lambda *_: leave("term"))
{silent}
processes.end_with_starter()
print(os.getpid(), flush=True)
time.sleep(99)
leave("too late")
"""
    starter = f"""
import os, subprocess, sys
os.environ[{STARTED_BY!r}] = str(os.getpid())
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), flush=True)
os.kill(os.getpid(), 9)
"""
    environment = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
    environment |= {"LOCAL_RANK": rank} if rank else {}
    with subprocess.Popen(
        [sys.executable, "-c", starter], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        pid = int(process.stdout.readline())
    while exists(pid):
        time.sleep(0.02)
    said = (tmp_path / "said").read_text() if (tmp_path / "said").exists() else "nothing"
    assert said == ("term" if signum == signal.SIGTERM else "nothing")


def sleep_long() -> None:
    time.sleep(999)


def test_daemons_are_killed_and_the_handler_of_their_end_is_kept():
    context = multiprocessing.get_context("fork")
    daemon, other = (context.Process(target=sleep_long, daemon=daemon) for daemon in (True, False))
    met: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda *words: met.append(words[0]))
    try:
        daemon.start()
        other.start()
        handler = signal.getsignal(signal.SIGCHLD)
        end_children()
        assert daemon.exitcode == -signal.SIGKILL and other.is_alive()
        assert signal.getsignal(signal.SIGCHLD) is handler and met == []
    finally:
        signal.signal(signal.SIGCHLD, before)
        other.kill()
        other.join()
