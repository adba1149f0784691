"""The end of a program: what is held back is written, what waits is done, and no library speaks after it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DYING = """
import os
import sys


class Lock:
    def __del__(self):
        os.getpid()  # None by the time that Python takes this module apart


itself = sys.modules[__name__]
lock = Lock()
"""
PROGRAM = """
import atexit
import gc
import sys
import threading

import dying
from vit_lightning.cli.ending import leave, prepare_ending

prepare_ending()
go = threading.Event()
threading.Thread(target=lambda: go.wait() and print("thread")).start()
atexit.register(print, "handler")
dying.file = open("left_open.txt", "w")
dying.file.write("held back")
gc.freeze()  # as libraries may, before they fork
leave(int(sys.argv[1]))
go.set()
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("status", [0, 3])
def test_nothing_is_lost_and_nothing_is_said_at_the_end(tmp_path, status):
    """The module stands for filelock 4.1, of which torch's compiler leaves locks behind."""
    (tmp_path / "dying.py").write_text(DYING)
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    words = [sys.executable, "program.py", str(status)]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, "thread\nhandler\n", "")
    assert (tmp_path / "left_open.txt").read_text() == "held back"


def ctrl_c(program: str) -> subprocess.CompletedProcess:
    """Run a program that gets Ctrl-C from itself, even where this one runs in the background of a shell."""
    lines = f"""
import os
import signal
import sys

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[1:] = ["--version"]
from vit_lightning import __main__ as door
from vit_lightning.cli import ending, run

ending.prepare_ending()
press = lambda: os.kill(os.getpid(), signal.SIGINT)
{program}
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True)


def test_ctrl_c_in_a_verb_is_an_exception():
    done = ctrl_c("run._show = lambda text: press()\nsys.exit(door.main())")
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_outside_of_a_verb_is_one_sentence(when):
    """A second Ctrl-C may come when the first has ended the verb, and nothing catches an exception any more."""
    done = ctrl_c("press()" if when == "before" else "door.main()\npress()\nprint(1)")
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert not done.stdout.endswith("1\n")
