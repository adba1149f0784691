"""A few of the attacks of end_runs, each at an event in place of a random moment."""

import sys
import time

import pytest

from tests.end_runs import TIMEOUT, attack, end, faults, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ATTACKED = (
    ("fit", "kill a worker"),
    ("fit", "kill while a worker is stopped"),
    ("fit", "Ctrl-C twice"),
    ("prepare", "kill"),
    ("prepare", "SIGTERM"),
)


@pytest.mark.parametrize(("verb", "how"), ATTACKED, ids=[", ".join(pair) for pair in ATTACKED])
def test_nothing_hangs_and_nothing_is_left(tmp_path, verb, how):
    started = start(tmp_path, verb, "attacked")
    try:
        deadline = time.monotonic() + TIMEOUT
        while how != "kill while a worker is stopped" and not started.others():
            assert started.process.poll() is None and time.monotonic() < deadline, started.log.read_text()
            time.sleep(0.01)
        assert attack(started, how)
        assert not faults(started, TIMEOUT)
        said = started.log.read_text()
        assert ("which loaded data, ended with exit code -9 (SIGKILL)" in said) == (how == "kill a worker")
    finally:
        end(started)
