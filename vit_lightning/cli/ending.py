"""How a program ends: within seconds, whatever was pressed, and with a sentence where nobody reads its output."""

import atexit
import gc
import io
import logging
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import Any

from vit_lightning.cli.exceptions import removed_run
from vit_lightning.cli.first_signals import end_at_once
from vit_lightning.cli.rank_errors import prefix, wait_for_first_process
from vit_lightning.cli.run import Ended, run
from vit_lightning.errors import seen
from vit_lightning.processes import end_children, end_in_time, end_with_starter

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
UNREAD = 128 + getattr(signal, "SIGPIPE", 13)
"""Exit status of a program whose output nobody reads any more, as shells have it."""
WRITERS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
"""Types of open files that may hold back what was written to them."""
_left_with: int | None = None
"""Exit status of a program that is done."""
_stops_ignored: list[int] = []
"""Signals whose exception Python has ignored; what else it then complains of was left in disorder by that."""


def prepare_ending() -> None:
    """Let signals, closed streams and the death of the starter end this program, and libraries not speak after it."""
    atexit.register(_end_without_teardown)  # what is registered first is called last
    open_missing_streams()
    sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: no name of a file may end a program
    end_with_starter()
    sys.unraisablehook = raise_again
    threading.excepthook = _unless_known
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, end_at_once):  # else a shell has it ignored
        signal.signal(signal.SIGINT, _interrupt)


def unread() -> int:
    """Say that nobody reads the output any more, as after `| head`; return the status that shells have for it."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what is still to come goes nowhere
    os.dup2(sys.stdout.fileno(), 1)
    say(f"{prefix()}error: nobody reads the output any more, so the program ended; write it to a file: > log.txt")
    return UNREAD


def leave(status: int) -> None:
    """Let nothing hold up a program that is done: a signal ends it at once, and what hangs is cut off."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()

    def end(signum: int, frame: FrameType | None) -> None:
        os._exit(status)

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, end)
    if status:
        end_in_time(status)
        end_children()
    if status == 1:
        wait_for_first_process()
    global _left_with
    _left_with = status


def open_missing_streams() -> None:
    """Open what a shell has closed (`>&-`), before a file of ours takes its number and gets what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def is_unread(error: BaseException) -> bool:
    """Whether an exception comes from standard output, whose reader has ended."""
    if not isinstance(error, BrokenPipeError) or not hasattr(select, "poll"):
        return False
    output = select.poll()
    output.register(1, select.POLLOUT)
    return any(event & select.POLLERR for _, event in output.poll(0))


def left_unfinished(error: SystemExit) -> str | None:
    """Where code of the user's, such as a callback, has ended the program with status 0 in mid-run."""
    if type(error) is not SystemExit or error.code:  # Lightning's own, after a signal, is of another class
        return None
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not any(frame.f_globals.get("__name__") == "lightning.pytorch.trainer.call" for frame in frames):
        return None
    return f"{frames[-1].f_code.co_filename}, line {frames[-1].f_lineno},"


def stop_behind(error: BaseException | None) -> type[BaseException] | None:
    """Which signal's exception another one came from, such as that of a tracer that a signal left in disorder."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt | Ended):
            return KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else Ended
        error = error.__cause__ or error.__context__
    return None


def say(sentence: str) -> None:
    """Print a sentence on standard error, if that is still open."""
    with suppress(OSError):
        print(seen(sentence), file=sys.stderr, flush=True)


def raise_again(ignored: Any) -> None:
    """Send a signal again whose exception Python has ignored, as it does where an object is deleted."""
    for kind, signum in ((KeyboardInterrupt, signal.SIGINT), (Ended, signal.SIGTERM)):
        if issubclass(ignored.exc_type, kind):
            _stops_ignored.append(signum)
            threading.Timer(0.05, os.kill, (os.getpid(), signum)).start()
            return
    cut_off_as_it_began = "_MultiProcessingDataLoaderIter" in getattr(ignored.object, "__qualname__", "")
    if not (cut_off_as_it_began or _stops_ignored):
        sys.__unraisablehook__(ignored)


def _end_without_teardown() -> None:
    """End once all threads and exit handlers are done.

    Python would take a second to go through all objects, and then take modules apart whose objects still live: they
    complain about missing globals, as filelock's locks do (4.0 and 4.1), which torch's compiler leaves behind.
    """
    if _left_with is None:
        return
    gc.unfreeze()
    for each in gc.get_objects():
        if type(each) in WRITERS:  # an isinstance would ask stand-ins for modules, which then import them
            with suppress(OSError, ValueError):
                each.flush()
    os._exit(_left_with)


def _unless_known(ended: threading.ExceptHookArgs) -> None:
    """Print the traceback of a thread, unless the program itself will say what has happened."""
    if removed_run(ended.exc_value) is None:
        threading.__excepthook__(ended)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    if not any(caller.f_code is run.__code__ for caller, _ in walk_stack(frame)):  # nobody would catch the exception
        end_children()
        end_at_once(signum, frame)
    end_in_time(INTERRUPTED)
    logging.disable()  # what libraries say of being interrupted is no news
    raise KeyboardInterrupt
