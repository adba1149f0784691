"""Processes that load data, and the cores that there are for them."""

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from torch.utils.data._utils.signal_handling import _set_SIGCHLD_handler
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from vit_lightning.private_api import on_unsent_batch
from vit_lightning.processes import UNSENT, end_children, end_with_parent, is_program

WAITS = _MultiProcessingDataLoaderIter._try_get_data.__code__
"""Code of torch's that waits for a batch."""
AGAIN = 0.2
"""Seconds after which a death that could not be told is told again."""


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


def told_where_batches_are_awaited(tell: Callable[[int, FrameType | None], None]) -> Callable:
    """A handler of SIGCHLD that raises the death of a loader's worker only where the program waits for a batch.

    torch's own raises it wherever the program is: around a fork, where Python ignores exceptions and the hooks of
    libraries are left in disorder, or while a checkpoint is written.

    Args:
        tell: torch's handler, which raises a RuntimeError once for each worker that died.
    """
    untold: list[RuntimeError] = []

    def hear(signum: int, frame: FrameType | None) -> None:
        try:
            tell(signum, frame)
        except RuntimeError as error:
            untold.append(error)
        if untold and any(caller.f_code is WAITS for caller, _ in traceback.walk_stack(frame)):
            raise untold.pop()
        if untold:
            timer = threading.Timer(AGAIN, os.kill, (os.getpid(), signum))
            timer.daemon = True
            timer.start()

    return hear


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


atexit.register(end_children)  # the workers do not hear the SIGTERM with which multiprocessing ends them
if is_program() and hasattr(signal, "SIGCHLD") and threading.current_thread() is threading.main_thread():
    _set_SIGCHLD_handler()
    signal.signal(signal.SIGCHLD, told_where_batches_are_awaited(signal.getsignal(signal.SIGCHLD)))
