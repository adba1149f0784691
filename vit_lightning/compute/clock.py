"""Time as the device sees it."""

import time
from typing import Any, Protocol

import torch


class Clock(Protocol):
    """Marks moments, and tells the seconds between two of them."""

    def mark(self) -> Any:
        """Mark the end of the work that was given to the device so far."""

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds between two marks, the later of which has been settled."""

    def settle(self, mark: Any) -> None:
        """Wait until the device has got to a mark."""


class WallClock:
    """The clock of a device that works while it is called."""

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def settle(self, mark: float) -> None:
        """Nothing to wait for."""


class StreamClock:
    """The clock of a CUDA stream: a mark is an event, so that nothing waits until `settle`.

    The host runs ahead of the device; time that it spends waiting is the device's only where the device ran dry.
    """

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return start.elapsed_time(end) / 1e3

    def settle(self, mark: torch.cuda.Event) -> None:
        mark.synchronize()


def clock_of(device: torch.device) -> Clock:
    """Return the clock of a device."""
    return StreamClock() if device.type == "cuda" else WallClock()
