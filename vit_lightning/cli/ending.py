"""How a program ends: within seconds, whatever was pressed, and with a sentence where nobody reads its output."""

import os
import select
import signal
import sys
import threading
from contextlib import suppress
from traceback import walk_tb
from types import FrameType
from typing import Any

from vit_lightning.cli.garbage_collection import skip_last_collection
from vit_lightning.cli.rank_errors import prefix
from vit_lightning.cli.run import Ended
from vit_lightning.processes import end_children, end_in_time, end_with_starter

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
UNREAD = 128 + getattr(signal, "SIGPIPE", 13)
"""Exit status of a program whose output nobody reads any more, as shells have it."""


def prepare_ending() -> None:
    """Let signals, closed streams and the death of the starter end this program."""
    open_missing_streams()
    sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: no name of a file may end a program
    end_with_starter()
    sys.unraisablehook = raise_again
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else a shell has it ignored
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
    skip_last_collection()


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


def say(sentence: str) -> None:
    """Print a sentence on standard error, if that is still open."""
    with suppress(OSError):
        print(sentence, file=sys.stderr, flush=True)


def raise_again(ignored: Any) -> None:
    """Send a signal again whose exception Python has ignored, as it does where an object is deleted."""
    for kind, signum in ((KeyboardInterrupt, signal.SIGINT), (Ended, signal.SIGTERM)):
        if issubclass(ignored.exc_type, kind):
            threading.Timer(0.05, os.kill, (os.getpid(), signum)).start()
            return
    if "_MultiProcessingDataLoaderIter" not in getattr(ignored.object, "__qualname__", ""):  # cut off as it began
        sys.__unraisablehook__(ignored)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    end_in_time(INTERRUPTED)
    raise KeyboardInterrupt
