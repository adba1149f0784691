"""Signals before the verb's own handlers are there: one sentence, the shell's status, and an ignored one stays so."""

import signal
import subprocess
import sys

import pytest

from vit_lightning.cli import first_signals

PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a starter in the background has it ignored
{before}
from vit_lightning.cli import first_signals
{first}
first_signals.listen()
{then}
os.kill(os.getpid(), signal.{name})
print("alive")
"""


def run(name: str, before: str = "", first: str = "", then: str = "") -> tuple[int, str, str]:
    code = PROGRAM.format(name=name, before=before, first=first, then=then)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [("SIGINT", 130, "interrupted\n"), ("SIGTERM", 143, "error: ended by SIGTERM before it was done\n")],
)
def test_a_signal_ends_the_program_at_once_with_a_sentence(name, status, said):
    assert run(name) == (status, "", said)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_the_starter_ignores_stays_ignored(name):
    assert run(name, before=f"signal.signal(signal.{name}, signal.SIG_IGN)") == (0, "alive\n", "")


def test_a_fork_ends_without_a_word_of_its_own():
    assert run("SIGTERM", then="first_signals.MAIN = -1") == (143, "", "")


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.default_int_handler])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_python_s_and_the_system_s_own_handlers_give_way(signum, handler):
    before = {each: signal.signal(each, signal.SIG_IGN) for each in first_signals.SENTENCES}
    try:
        signal.signal(signum, handler)
        first_signals.listen()
        assert signal.getsignal(signum) is first_signals.end_at_once
        others = {signal.SIGINT, signal.SIGTERM} - {signum}
        assert {signal.getsignal(each) for each in others} == {signal.SIG_IGN}
    finally:
        for each, old in before.items():
            signal.signal(each, old)
