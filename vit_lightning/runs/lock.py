"""One process at a time writes into a run folder."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from vit_lightning.errors import InputError
from vit_lightning.files import special_kind
from vit_lightning.processes import LIMIT
from vit_lightning.runs.folders import rank
from vit_lightning.runs.slurm import was_requeued

LOCK = ".lock"
"""File in a run folder that the system lets one process hold until it ends, however it ends; it names the holder."""
REQUEUED = 120.0
"""Seconds that a requeued job waits: file servers keep for some time what a lost host has held."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a run folder; one that is about to end there is waited for.

    The first process of a run speaks for all. Where the file system has no locks, a line says so.

    Raises:
        InputError: another process trains there.
    """
    lock = FileLock(folder / LOCK, fallback_to_soft=False, on_acquired=_sign)
    is_held = rank() == 0 and _take(lock, folder)
    try:
        yield
    finally:
        if is_held:
            lock.release()


def _take(lock: FileLock, folder: Path) -> bool:
    try:
        with suppress(Timeout):
            lock.acquire(timeout=0)
            return True
        seconds = REQUEUED if was_requeued() else LIMIT
        print(f"waits    up to {seconds:.0f} s for {_holder(folder)}, which trains in {folder}", flush=True)
        lock.acquire(timeout=seconds)
    except Timeout:
        raise InputError(
            f"{_holder(folder)} trains in the run folder {folder}; wait for its end, begin another run without "
            f"--ckpt_path, or, if that process is no more, remove {folder / LOCK}"
        ) from None
    except OSError as error:
        print(f"warning  {folder} cannot be locked ({error.strerror}): let no other process train there", flush=True)
        return False
    return True


def _sign(descriptor: int) -> None:
    """Write into the lock's own file who holds it."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)


def _holder(folder: Path) -> str:
    """Who holds the lock, as far as it has said so."""
    file, text = folder / LOCK, ""
    with suppress(OSError):
        text = "" if special_kind(file) else file.read_text(errors="replace")[:100].strip()
    return text if text.isprintable() and text.startswith("process ") else "another process"
