"""Loader workers end with their parent, whenever and however that ends, and never hold it up."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest

from tests.end_runs import marked
from vit_lightning.data import workers
from vit_lightning.data.workers import _unless_unheard, told_where_batches_are_awaited
from vit_lightning.processes import STARTED_BY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

TIMEOUT = 1800
LOADS = """
import sys
from torch.utils.data import DataLoader
from vit_lightning.data.workers import shield_worker
held = iter(DataLoader(list(range(1000)), num_workers=2, worker_init_fn=shield_worker))
next(held)
"""


def python(code: str, mark: str, **how) -> subprocess.Popen:
    environment = os.environ | {"VIT_LIGHTNING_TEST_MARK": mark, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, text=True, **how)


def until_none_is_left(mark: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while left := marked(mark):
        assert time.monotonic() < deadline, f"left: {left}"
        time.sleep(0.02)


@pytest.fixture
def mark(request):
    yield request.node.name
    for pid in marked(request.node.name):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_script_that_holds_workers_ends(mark):
    assert python(LOADS, mark).wait(TIMEOUT) == 0
    until_none_is_left(mark)


def test_a_signal_to_the_group_spares_the_workers(mark):
    code = LOADS + "next(held)\nimport os, signal\nsignal.signal(15, lambda *_: None)\nos.killpg(0, 15)\n"  # of both
    code += "print(sum(len(batch) for batch in held))"
    process = python(code, mark, stdout=subprocess.PIPE, start_new_session=True)
    assert process.communicate(timeout=TIMEOUT)[0] == "998\n"


def test_workers_end_when_their_parent_is_killed(mark):
    process = python(LOADS + "print('ready', flush=True)\nsys.stdin.read()", mark, **PIPES)
    process.stdout.readline()
    assert len(marked(mark)) == 3
    process.kill()
    process.wait()
    until_none_is_left(mark)


def test_a_worker_that_was_stopped_right_after_its_fork_ends_too(mark):
    code = (
        "import os, signal, sys\nfrom vit_lightning.data import workers\n"
        "os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGSTOP))" + LOADS
    )
    process = python(code, mark, **PIPES)
    deadline = time.monotonic() + TIMEOUT
    while len(stopped := [pid for pid in marked(mark) if state(pid) == "T"]) < 2:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    os.kill(stopped[0], signal.SIGCONT)  # it does not wait for the other
    while state(stopped[0]) not in ("", "Z"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(stopped[1], signal.SIGCONT)
    until_none_is_left(mark)


def test_workers_of_a_thread_outlive_the_thread_but_not_the_process(mark):
    code = LOADS.replace("held =", "make = lambda:").replace("next(held)", "") + (
        "import threading\nfound = []\n"
        "thread = threading.Thread(target=lambda: found.append(make()))\nthread.start(); thread.join()\n"
        "print(sum(len(batch) for batch in found[0]), flush=True)\n"
        "thread = threading.Thread(target=lambda: found.append(make()))\nthread.start(); thread.join()\n"
        "next(found[1])\nprint('ready', flush=True)\nsys.stdin.read()"
    )
    process = python(code, mark, **PIPES)
    assert process.stdout.readline() == "1000\n" and process.stdout.readline() == "ready\n"
    assert len(marked(mark)) == 3
    process.kill()
    process.wait()
    until_none_is_left(mark)


def test_a_worker_that_crashes_prints_no_zero_byte(mark):
    code = (
        "import os, signal\nfrom torch.utils.data import DataLoader\n"
        "from vit_lightning.data.workers import shield_worker\n"
        "class Crashes(list):\n"
        "    def __getitem__(self, index):\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "try:\n"
        "    next(iter(DataLoader(Crashes(range(9)), num_workers=1, worker_init_fn=shield_worker)))\n"
        "except RuntimeError as error:\n"
        "    print(error, flush=True)\n"
    )
    process = python(code, mark, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = process.communicate()[0]
    assert "DataLoader worker (pid" in said and "\0" not in said
    until_none_is_left(mark)


@pytest.mark.parametrize(
    ("batch", "code", "printed"),
    [("torch.zeros(10**6)", 74, ""), ("lambda: 0", 1, "pickle")],
    ids=["file size", "no pickle"],
)
def test_a_batch_that_cannot_be_handed_over_ends_its_worker(mark, batch, code, printed):
    """The main process would wait for it without end."""
    script = (
        "import resource, torch\nfrom torch.utils.data import DataLoader\n"
        "from vit_lightning.data.workers import shield_worker\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        f"def collate(items): return {batch}\n"
        "try:\n"
        "    next(iter(DataLoader([0], num_workers=1, collate_fn=collate, worker_init_fn=shield_worker)))\n"
        "except RuntimeError as error:\n"
        "    print(error, error.__cause__, flush=True)\n"
    )
    process = python(script, mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, errors = process.communicate(timeout=TIMEOUT)
    assert f"exit code {code}" in said and printed in errors and bool(errors) is bool(printed)
    until_none_is_left(mark)


@pytest.mark.parametrize(("kind", "printed"), [(ConnectionResetError, False), (EOFError, False), (ValueError, True)])
def test_a_thread_whose_parent_hung_up_is_silent(kind, printed, capsys):
    _unless_unheard(kind, kind("lost"), None)
    assert ("lost" in capsys.readouterr().err) is printed


def test_a_death_is_raised_where_a_batch_is_awaited_and_told_again_until_then(monkeypatch):
    deaths, again = [RuntimeError("worker 7 is dead")], []
    timer = lambda delay, call, words: SimpleNamespace(start=lambda: again.append((call, words)))  # noqa: E731
    monkeypatch.setattr(workers.threading, "Timer", timer)

    def tell(signum: int, frame: FrameType | None) -> None:
        if deaths:
            raise deaths.pop()  # once, as torch's

    hear = told_where_batches_are_awaited(tell)
    hear(17, sys._getframe())
    assert again == [(os.kill, (os.getpid(), 17))]
    awaits = lambda: hear(17, sys._getframe())  # noqa: E731
    monkeypatch.setattr(workers, "WAITS", awaits.__code__)
    with pytest.raises(RuntimeError, match="worker 7 is dead"):
        awaits()
    awaits()
    assert len(again) == 1


def test_a_worker_that_dies_around_a_fork_leaves_no_hook_in_disorder(mark):
    """Python ignores exceptions of hooks around a fork, so a death that is raised there is a traceback and is lost."""
    code = (
        "import os, signal, sys, time\nfrom torch.utils.data import DataLoader\n"
        f"os.environ['{STARTED_BY}'] = str(os.getpid())\n"
        "from vit_lightning.data.workers import shield_worker\n"
        "class Dies(list):\n"
        "    def __getitem__(self, index):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "loader = lambda data: iter(DataLoader(data, num_workers=1, worker_init_fn=shield_worker))\n"
        "held = loader(Dies([0]))\n"
        "while open(f'/proc/{held._workers[0].pid}/stat').read().split()[2] != 'Z':\n"
        "    pass\n"
        "os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGCHLD))\n"
        "other = loader([0])\n"
        "try:\n    next(held)\nexcept RuntimeError as error:\n    print(error, error.__cause__, flush=True)\n"
    )
    process = python(code, mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, errors = process.communicate(timeout=TIMEOUT)
    assert errors == "" and "Killed" in said
    until_none_is_left(mark)


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""
