"""Processes: none outlives the one that started it, and the program itself ends in time."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.context import ForkServerProcess

STARTED_BY = "VIT_LIGHTNING_STARTED_BY"
"""Variable that names the process of ours that started this one: of a sweep its fits, of a run its further ranks."""
PR_SET_PDEATHSIG = 1
UNSENT = 74
"""Exit status of a worker that could not hand over a batch: what C calls EX_IOERR."""
LIMIT = 8.0
"""Seconds that a program which failed or was interrupted has to end by itself."""


def end_with_parent() -> None:
    """Let a process of multiprocessing end when its parent does, or now if the parent has ended already."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    # The system watches the thread that forked, not its process; in a fork that thread has become the main one.
    if threading.main_thread().name == "MainThread" and _signal_at_death_of(parent.pid, signal.SIGKILL):
        return
    served = isinstance(multiprocessing.current_process(), ForkServerProcess)

    def is_alive() -> bool:
        # Siblings may hold up the news that the parent's end is closed.
        return parent.is_alive() and (served or os.getppid() == parent.pid)

    def wait() -> None:
        while is_alive():
            parent.join(1)
        os._exit(1)

    if not is_alive():
        os._exit(1)
    threading.Thread(target=wait, daemon=True).start()


def end_with_starter() -> None:
    """Let this program end when the process of ours that started it does, and be the starter of those to come.

    A fit gets SIGTERM, after which it saves its state; a further rank of a run has none to save.
    """
    starter, os.environ[STARTED_BY] = os.environ.get(STARTED_BY, ""), str(os.getpid())
    if not starter.isdecimal():
        return
    _end_with(int(starter), signal.SIGKILL if "LOCAL_RANK" in os.environ else signal.SIGTERM)


def take_forks_along() -> None:
    """Let all processes that this one forks from now on end when it does; SIGTERM ends it and all its children at once.

    For servers of other packages, whose processes cannot call `end_with_parent`; those that they spawn must.
    """
    own = os.getpid()
    os.register_at_fork(after_in_child=lambda: _end_with(own, signal.SIGKILL))

    def end(signum: int, frame: object) -> None:
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(128 + signum)

    signal.signal(signal.SIGTERM, end)


def is_program() -> bool:
    """Whether this process is `python -m vit_lightning`, ours to end, and not somebody's notebook."""
    return os.environ.get(STARTED_BY) == str(os.getpid())


def end_children() -> None:
    """Kill the daemons that multiprocessing started here, such as loaders' workers, which have no state to save.

    A worker that ended without a word may have held a lock for which the others wait without end.
    """
    children = [child for child in multiprocessing.active_children() if child.daemon]
    listens = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGCHLD")
    # torch would raise an exception for each of them.
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL) if children and listens else None
    for child in children:
        child.kill()
    for child in children:
        child.join(1)
    if before is not None:
        signal.signal(signal.SIGCHLD, before)


def end_in_time(status: int, said: str = "") -> None:
    """End this program with an exit status after `LIMIT` seconds, should it then still be there.

    Args:
        status: The exit status.
        said: What is printed then, if the program had no time to say it.
    """
    if not is_program():
        return

    def end() -> None:
        end_children()
        if said:
            print(f"error: {said}", file=sys.stderr, flush=True)
        os._exit(status)

    timer = threading.Timer(LIMIT, end)
    timer.daemon = True
    timer.start()


def _end_with(pid: int, signum: int) -> None:
    """Let this process get a signal when the one of that number ends, if that is its parent, or end now if it has."""
    if _signal_at_death_of(pid, signum):
        return
    if not exists(pid):
        os._exit(128 + signum)
    if os.getppid() == pid:
        threading.Thread(target=_watch, args=(pid, signum), daemon=True).start()


def _signal_at_death_of(parent: int, signum: int) -> bool:
    """Ask the system for a signal when the parent ends; return whether it is still the parent and will do so."""
    if sys.platform != "linux" or os.getppid() != parent:
        return False
    with suppress(OSError, AttributeError):
        asked = ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0) == 0
        return asked and os.getppid() == parent  # it may have ended meanwhile
    return False


def exists(pid: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _watch(pid: int, signum: int) -> None:
    while os.getppid() == pid:
        time.sleep(1)
    os.kill(os.getpid(), signum)
