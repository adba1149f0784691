"""Processes that load data, and the cores that there are for them."""

import os
import signal


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shield_worker(number: int) -> None:
    """Keep a loader's worker alive when a signal reaches the whole group: the run needs it up to the next step."""
    for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
