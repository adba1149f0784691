"""Signals that come while the program is still importing, when nothing is begun that could be left half-done."""

import os
import signal
from types import FrameType

ENDED = "error: ended by SIGTERM before it was done"
SENTENCES = {signal.SIGINT: "interrupted", signal.SIGTERM: ENDED}
MAIN = os.getpid()


def end_at_once(signum: int, frame: FrameType | None) -> None:
    """Say what ended the program, and end it; imports would print tracebacks, or even catch the exception."""
    if os.getpid() == MAIN:
        os.write(2, f"{SENTENCES[signal.Signals(signum)]}\n".encode())
    os._exit(128 + signum)


def listen() -> None:
    """Let signals end the program at once until the verb's own handlers take over; one that is ignored stays so."""
    for signum in SENTENCES:
        if signal.getsignal(signum) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(signum, end_at_once)
