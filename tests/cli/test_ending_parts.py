"""Parts of a program's end: what came from a signal, from a reader that went, or from the user's own code."""

import gc
import io
import os
import signal
import subprocess
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from vit_lightning.cli import ending
from vit_lightning.cli.run import Ended
from vit_lightning.runs.folders import RUN_ENV


def behind(error: BaseException, cause: BaseException, explicit: bool) -> BaseException:
    setattr(error, "__cause__" if explicit else "__context__", cause)
    return error


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize(("stop", "kind"), [(KeyboardInterrupt(), KeyboardInterrupt), (Ended(), Ended)])
def test_a_signal_is_found_behind_what_came_of_it(stop, kind, explicit):
    assert ending.stop_behind(stop) is kind
    assert ending.stop_behind(behind(KeyError(), behind(ValueError(), stop, explicit), explicit)) is kind
    assert ending.stop_behind(behind(KeyError(), SystemExit(), explicit)) is None and ending.stop_behind(None) is None


def test_statuses_are_those_of_shells():
    assert (ending.INTERRUPTED, ending.TERMINATED, ending.UNREAD) == (130, 143, 141)


def exit_from(module: str, error: SystemExit) -> SystemExit:
    held = ModuleType(module)
    exec(compile("def call(error):\n    raise error", "/their/callback.py", "exec"), vars(held))
    try:
        held.call(error)
    except SystemExit as met:
        return met
    raise AssertionError


@pytest.mark.parametrize(
    ("module", "error", "said"),
    [
        ("lightning.pytorch.trainer.call", SystemExit(), "/their/callback.py, line 2,"),
        ("lightning.pytorch.trainer.call", SystemExit(0), "/their/callback.py, line 2,"),
        ("lightning.pytorch.trainer.call", SystemExit(3), None),
        ("lightning.pytorch.trainer.call", Ended(), None),
        ("my.module", SystemExit(), None),
    ],
)
def test_an_exit_in_mid_run_is_told_by_its_place(module, error, said):
    assert ending.left_unfinished(exit_from(module, error)) == said


@pytest.mark.parametrize(
    ("error", "reader_is_gone", "unread"),
    [(BrokenPipeError(), True, True), (BrokenPipeError(), False, False), (OSError(), True, False)],
)
def test_a_pipe_is_unread_where_its_reader_is_gone(error, reader_is_gone, unread):
    read, write = os.pipe()
    kept = os.dup(1)
    try:
        os.dup2(write, 1)
        if reader_is_gone:
            os.close(read)
        assert ending.is_unread(error) is unread
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(write)
        if not reader_is_gone:
            os.close(read)


@pytest.mark.parametrize(("kind", "signum"), [(KeyboardInterrupt, signal.SIGINT), (Ended, signal.SIGTERM)])
def test_a_signal_that_python_ignored_is_sent_again(monkeypatch, kind, signum):
    sent: list[tuple] = []
    timer = lambda delay, call, words: SimpleNamespace(start=lambda: sent.append((delay, call, words)))  # noqa: E731
    monkeypatch.setattr(threading, "Timer", timer)
    monkeypatch.setattr(ending, "_stops_ignored", [])
    ending.raise_again(SimpleNamespace(exc_type=kind, object=None))
    assert sent == [(0.05, os.kill, (os.getpid(), signum))]


def test_what_an_ignored_stop_left_in_disorder_is_not_shown(monkeypatch):
    """As filelock's hooks around a fork, each of which relies on the one before it."""
    shown: list[object] = []
    monkeypatch.setattr(sys, "__unraisablehook__", shown.append)
    monkeypatch.setattr(ending, "_stops_ignored", [signal.SIGINT])
    ending.raise_again(SimpleNamespace(exc_type=IndexError, exc_value=IndexError(), object=None))
    assert shown == []


def test_other_ignored_errors_are_shown_but_those_of_loaders_that_were_cut_off(monkeypatch):
    shown: list[object] = []
    monkeypatch.setattr(sys, "__unraisablehook__", shown.append)
    loaders = SimpleNamespace(__qualname__="_MultiProcessingDataLoaderIter.__del__")
    for held in (loaders, SimpleNamespace(__qualname__="Mine.__del__"), None):
        ending.raise_again(SimpleNamespace(exc_type=AttributeError, exc_value=AttributeError(), object=held))
    assert [getattr(one.object, "__qualname__", None) for one in shown] == ["Mine.__del__", None]


def test_a_thread_s_traceback_is_printed_unless_the_program_says_it(monkeypatch):
    shown: list[object] = []
    monkeypatch.setattr(threading, "__excepthook__", shown.append)
    monkeypatch.setenv(RUN_ENV, "/runs/x/0")
    for error in (KeyError("x"), FileNotFoundError(2, "none", "/runs/x/0/tensorboard/events")):
        ending._unless_known(SimpleNamespace(exc_value=error))
    assert [type(one.exc_value) for one in shown] == [KeyError]


def test_a_sentence_goes_to_standard_error_if_that_is_open(monkeypatch, capsys):
    ending.say("told")
    assert capsys.readouterr() == ("", "told\n")
    closed = SimpleNamespace(write=lambda text: (_ for _ in ()).throw(OSError("closed")), flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", closed)
    ending.say("told")


def test_what_a_file_holds_back_is_written_before_a_program_without_teardown_ends(monkeypatch, tmp_path):
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    monkeypatch.setattr(ending, "_left_with", None)
    ending._end_without_teardown()
    assert statuses == []
    files = [(tmp_path / "text").open("w"), (tmp_path / "bytes").open("wb"), (tmp_path / "both").open("w+b")]
    closed = (tmp_path / "closed").open("w")
    closed.close()
    for file in files:
        file.write("held" if isinstance(file, io.TextIOBase) else b"held")
    gc.freeze()
    monkeypatch.setattr(ending, "_left_with", 5)
    ending._end_without_teardown()
    assert statuses == [5]
    assert [(tmp_path / name).read_text() for name in ("text", "bytes", "both")] == ["held"] * 3
    for file in files:
        file.close()


PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a starter in the background has it ignored
{before}
from vit_lightning.cli.ending import prepare_ending, leave, unread
prepare_ending()
{then}
"""


def run(then: str, before: str = "", shell: str = "") -> subprocess.CompletedProcess:
    code = PROGRAM.format(before=before, then=then)
    words = ["sh", "-c", f'"$@" {shell}', "sh", sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True)


def test_streams_that_a_shell_has_closed_take_what_is_printed_and_no_file_gets_it(tmp_path):
    place = tmp_path / "file"
    then = f"f = open({str(place)!r}, 'w'); print('lost'); print('lost', file=sys.stderr); f.write('kept')"
    done = run(then, shell="<&- >&- 2>&-")
    assert done.returncode == 0 and place.read_text() == "kept"


def test_any_name_can_be_printed():
    done = run("print('caf\\udce9')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "caf\\udce9\n", "")


def test_ctrl_c_raises_and_an_ignored_one_does_nothing():
    then = (
        "from vit_lightning.cli import run\n"
        "run._show = lambda text: os.kill(os.getpid(), signal.SIGINT)\n"
        "try:\n    run.run(['--version'])\nexcept KeyboardInterrupt:\n    print('raised')\nprint('on')"
    )
    assert run(then).stdout == "raised\non\n"
    assert run(then, before="signal.signal(signal.SIGINT, signal.SIG_IGN)").stdout == "on\n"
    taken = "from vit_lightning.cli import first_signals\nfirst_signals.listen()"
    assert run(then, before=taken).stdout == "raised\non\n"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("status", [0, 4])
def test_a_program_that_is_done_ends_with_its_status_whatever_is_pressed(name, status):
    done = run(f"print('done'); leave({status}); os.kill(os.getpid(), signal.{name}); print('later')")
    assert (done.returncode, done.stdout) == (status, "done\n")


def test_a_reader_that_is_gone_is_said_and_nothing_more_is_printed():
    done = run("status = unread(); print('lost'); sys.exit(status)")
    assert (done.returncode, done.stdout) == (141, "")
    assert done.stderr.startswith("error: nobody reads the output any more, so the program ended; write it to a file")


@pytest.mark.parametrize("status", [0, 1, 130, 141])
def test_a_program_that_ends_badly_in_any_way_is_cut_off_with_its_children(monkeypatch, status):
    done = []
    for name in ("end_in_time", "end_children", "wait_for_first_process"):
        monkeypatch.setattr(ending, name, lambda *facts, name=name: done.append(name))
    monkeypatch.setattr(ending.signal, "signal", lambda *facts: None)
    monkeypatch.setattr(ending, "_left_with", None)
    ending.leave(status)
    assert done == ["end_in_time", "end_children", "wait_for_first_process"][: {0: 0, 1: 3}.get(status, 2)]
