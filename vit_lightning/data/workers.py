"""Processes that load data, and the cores that there are for them."""

import atexit
import os
import signal
import sys
import traceback
from types import TracebackType
from typing import Any

from vit_lightning.private_api import on_unsent_batch
from vit_lightning.processes import UNSENT, end_children, end_with_parent

atexit.register(end_children)  # the workers do not hear the SIGTERM with which multiprocessing ends them


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shield_worker(number: int) -> None:
    """Keep a loader's worker alive when a signal reaches the whole group: the run needs it up to the next step.

    It ends with its parent, whenever that ends.
    """
    for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    for name in ("SIGBUS", "SIGFPE", "SIGSEGV"):  # torch's handlers print a zero byte; the parent says what happened
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    sys.excepthook = _unless_unheard
    on_unsent_batch(_end_unsent)
    end_with_parent()


def _end_unsent(error: BaseException, batch: Any) -> None:
    """End this worker, which could not hand over a batch: whoever waits for it learns of a death alone."""
    is_systems = isinstance(error, OSError | RuntimeError)  # torch's for shared memory is a RuntimeError
    if not is_systems:
        traceback.print_exception(error)
    os._exit(UNSENT if is_systems else 1)


def _unless_unheard(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a thread, such as that which hands over batches, unless the parent has hung up on it."""
    if not issubclass(kind, ConnectionError | EOFError):
        sys.__excepthook__(kind, error, trace)
