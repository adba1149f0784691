"""One process at a time writes into a run folder."""

import errno
import fcntl
import os
import platform
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from vit_lightning.errors import InputError
from vit_lightning.private_api import lock_descriptor
from vit_lightning.processes import LIMIT
from vit_lightning.runs.folders import CHECKPOINTS, REMOVED, rank, to_go_on
from vit_lightning.runs.slurm import was_requeued

LOCK = ".lock"
"""File in a run folder that the system lets one process hold until it ends, however it ends; it names the holder."""
REQUEUED = 120.0
"""Seconds that a requeued job waits: file servers keep for some time what a lost host has held."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system without locks says."""
COPY = "allow this user to write there, or copy the folder to a place that may be written and go on from there"
_held: dict[Path, FileLock] = {}
"""Locks that this process holds, by the folder without links."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a run folder; one that is about to end there is waited for.

    The first process of a run speaks for all. Where the file system has no locks, a line says so.

    Raises:
        InputError: another process trains there, or what lies in the lock's place is no regular file.
    """
    lock, place = FileLock(folder / LOCK, fallback_to_soft=False, on_acquired=_sign), folder.resolve()
    if rank() == 0:
        _check_writable(folder)
        _check_regular(folder)
    if rank() == 0 and _take(lock, folder):
        _held[place] = lock
    try:
        yield
    finally:
        if _held.pop(place, None):
            lock.release()


def is_held(folder: Path) -> bool:
    """Whether another process trains in a run folder; False where nobody can tell."""
    if folder.resolve() in _held:
        return False
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK)  # FileLock would empty the file
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(descriptor)
    return False


def check_held() -> None:
    """Refuse to write into a run folder whose lock this process has lost: another one may train there by now.

    Raises:
        InputError: the file that it holds was removed or replaced.
    """
    for folder, lock in _held.items():
        descriptor = lock_descriptor(lock)
        if descriptor is None or not folder.exists() or _is_open_as(folder / LOCK, descriptor):
            continue
        if not (folder / "config.yaml").exists():
            raise InputError(REMOVED.format(folder=folder))
        raise InputError(
            f"{folder / LOCK} was removed or replaced while this run held it, so that another process may train there; "
            f"nothing more is written: see that none does; {to_go_on(folder)}"
        )


def _is_open_as(file: Path, descriptor: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.lstat(file), os.fstat(descriptor))
    return False


def _check_writable(folder: Path) -> None:
    """Refuse a folder in which nothing can be saved, which the lock's own file, if it lies there, does not show."""
    for place in (folder, folder / CHECKPOINTS):
        if place.exists() and not os.access(place, os.W_OK):
            raise InputError(f"{place} is read-only, so that no run can go on there; {COPY}")


def _check_regular(folder: Path) -> None:
    """Refuse what would be locked elsewhere or not at all."""
    with suppress(FileNotFoundError):
        mode = os.lstat(folder / LOCK).st_mode
        if not stat.S_ISREG(mode):
            kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "FIFO"))
            kind = next((name for is_such, name in kinds if is_such(mode)), "device or socket")
            raise InputError(
                f"{folder / LOCK} is a {kind}, where a regular file keeps other processes out of the run folder; "
                "remove it"
            )


def _take(lock: FileLock, folder: Path) -> bool:
    try:
        with suppress(Timeout):
            lock.acquire(timeout=0)
            return True
        seconds = REQUEUED if was_requeued() else LIMIT
        print(f"waits    up to {seconds:.0f} s for {_holder(folder)}, which trains in {folder}", flush=True)
        lock.acquire(timeout=seconds)
    except Timeout:
        raise InputError(_refusal(folder)) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise InputError(f"{folder} cannot be locked: {error.strerror}; {_fix(error)}") from error
        print(f"warning  {folder} cannot be locked ({error.strerror}): let no other process train there", flush=True)
        return False
    return True


def _fix(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free space there"
    return COPY


def _refusal(folder: Path) -> str:
    """Say who trains there; on this host the lock itself proves that its holder lives, if only stopped."""
    holder = _holder(folder)
    found = re.fullmatch(r"process (\d+) on (.*)", holder)
    said = f"{holder} trains in the run folder {folder}; wait for its end, or begin another run without naming this one"
    if found is None or found[2] != platform.node():
        return f"{said}, or, if that process is no more, remove {folder / LOCK}"
    return f"{said} (the lock proves that it lives; should it be stopped, kill -CONT {found[1]} lets it go on)"


def _sign(descriptor: int) -> None:
    """Write into the lock's own file who holds it."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)


def _holder(folder: Path) -> str:
    """Who holds the lock, as far as it has said so."""
    file, text = folder / LOCK, ""
    with suppress(OSError):
        text = file.read_text(errors="replace")[:100].strip()
    return text if text.isprintable() and text.startswith("process ") else "another process"
