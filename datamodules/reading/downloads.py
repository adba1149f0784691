"""One file from a network: no larger than it may be, and not without end."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsspec.callbacks import Callback

from vit_lightning.errors import InputError

SILENCE = 60.0
"""Seconds that a server may take to answer, and between any two parts of its answer."""
LEAST_RATE = 10_000.0
"""Bytes per second that must arrive on average."""
PATIENCE = 30.0
"""Seconds over which that average is taken."""


class TooLarge(Exception):  # noqa: N818
    """More bytes come than there may be."""


class TooSlow(OSError):  # noqa: N818
    """Bytes come, but so few that they would go on for days; no TimeoutError, whose text fsspec does not hand on."""


def download(url: str, place: Path, most: int | None = None) -> None:
    """Write a remote file to a place.

    Args:
        url: its address.
        place: where to put it; what has arrived stays there if that fails.
        most: bytes that it may have; None: any number.

    Raises:
        FileNotFoundError: if there is none.
        TooLarge: if it has more bytes.
        TooSlow: if it comes too slowly.
        Exception: whatever else the address's file system raises.
    """
    system, path = file_system(url)
    system.get_file(path, str(place), callback=Arrival(most))


class Arrival(Callback):
    """What fsspec tells of a file's coming; raises as soon as that is too much, or too little for its time.

    Args:
        most: bytes that it may have; None: any number.
        clock: seconds since any moment.
    """

    def __init__(self, most: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.most = most
        self.clock = clock
        self.since, self.value_then = clock(), 0

    def relative_update(self, inc: int = 1) -> None:
        """Count bytes that have come.

        Raises:
            TooLarge: if there are more than there may be.
            TooSlow: if those of the last time are too few.
        """
        self.value += inc
        if self.most is not None and self.value > self.most:
            size = "more" if self.size is None else f"{self.size:,}"
            raise TooLarge(f"it has {size} bytes where {self.most:,} are expected")
        now = self.clock()
        is_whole = inc == 0 or self.value == self.most
        if now - self.since < PATIENCE or is_whole:
            return
        rate = (self.value - self.value_then) / (now - self.since)
        if rate < LEAST_RATE:
            raise TooSlow(f"{rate:,.0f} bytes per second come, fewer than {LEAST_RATE:,.0f}")
        self.since, self.value_then = now, self.value

    def absolute_update(self, value: int) -> None:
        """Count bytes as the number of all that have come."""
        self.relative_update(value - self.value)


def file_system(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for an address, and the path in it.

    Raises:
        InputError: if a package is missing.
    """
    try:
        from fsspec.core import url_to_fs

        return url_to_fs(url, **_limits(url))
    except ImportError as error:
        extra = {"s3": "s3", "gs": "gcs", "gcs": "gcs"}.get(url.partition(":")[0])
        remedy = f"pip install 'vit-lightning[{extra}]'" if extra else str(error)
        raise InputError(f"{url} needs a package that is missing: {remedy}") from error
    except ValueError as error:
        raise InputError(f"{url}: {error}") from error


def _limits(url: str) -> dict[str, Any]:
    """Return the limits of time that a file system does not have by itself."""
    if not url.startswith(("http://", "https://")):
        return {}
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, connect=SILENCE, sock_read=SILENCE)}}
