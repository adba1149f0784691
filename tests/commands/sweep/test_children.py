"""The processes of a sweep: what each finds in its environment, and what becomes of its exit status."""

import os
import signal
import sys

import pytest

from vit_lightning.commands.sweep import children
from vit_lightning.commands.sweep.children import Children


def slots(found: Children) -> list[dict[str, str]]:
    return [found._slots.get_nowait() for _ in range(found._slots.qsize())]


@pytest.mark.parametrize(
    ("jobs", "gpus", "threads", "expected"),
    [
        (1, ["4", "6"], None, [{}]),
        (3, [], None, [{"OMP_NUM_THREADS": "2"}] * 3),
        (3, ["4", "6"], None, [{"CUDA_VISIBLE_DEVICES": gpu, "OMP_NUM_THREADS": "2"} for gpu in "464"]),
        (2, [], "5", [{"OMP_NUM_THREADS": "5"}] * 2),
        (16, [], None, [{"OMP_NUM_THREADS": "1"}] * 16),
    ],
)
def test_jobs_share_gpus_and_cores(monkeypatch, jobs, gpus, threads, expected):
    monkeypatch.setattr(children, "visible_gpus", lambda: gpus)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert slots(Children(jobs)) == expected


@pytest.mark.parametrize(("named", "gpus"), [("", []), (" 3, 1 ,", ["3", "1"]), ("GPU-a,MIG-b", ["GPU-a", "MIG-b"])])
def test_gpus_are_named_as_the_environment_has_them(monkeypatch, named, gpus):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert children.visible_gpus() == gpus


def test_a_process_appends_both_its_outputs_and_its_status_comes_back(tmp_path):
    found, log = Children(1), tmp_path / "log.txt"
    log.write_text("before\n")
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    with (tmp_path / "lock").open("w") as lock:
        assert found.call([sys.executable, "-S", "-c", code], log, lock.fileno()) == 3
        first, call, *said = log.read_text().splitlines()
        assert first == "before" and call.startswith(f"$ {sys.executable} -S -c 'import") and said == ["out", "err"]
        found.received = signal.SIGTERM
        assert found.call([sys.executable, "-c", code], log, lock.fileno()) is None
    assert len(log.read_text().splitlines()) == 4
    assert slots(found) == [{}]


def test_a_first_signal_asks_and_a_second_one_kills():
    class Child:
        def __init__(self) -> None:
            self.met: list[str] = []

        def terminate(self) -> None:
            self.met.append("terminate")

        def kill(self) -> None:
            self.met.append("kill")

    found, child = Children(1), Child()
    found._running.add(child)
    found._end(signal.SIGTERM, None)
    assert (found.received, child.met) == (signal.SIGTERM, ["terminate"])
    found._end(signal.SIGINT, None)
    assert (found.received, child.met) == (signal.SIGINT, ["terminate", "kill"])


def test_signals_are_listened_to_inside_alone():
    found = Children(1)
    before = [signal.getsignal(signum) for signum in children.ENDING]
    with found.listening():
        assert all(signal.getsignal(signum) == found._end for signum in children.ENDING)
    assert [signal.getsignal(signum) for signum in children.ENDING] == before
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} == set(children.ENDING)
