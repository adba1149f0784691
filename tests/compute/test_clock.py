"""Clocks: a device that works while it is called has the host's time, a CUDA stream that of its own events."""

import time
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.compute.clock import StreamClock, WallClock, clock_of


class Event:
    """A CUDA event of which each has a time of its own, in milliseconds."""

    times = iter(())

    def __init__(self, enable_timing: bool = False) -> None:
        self.timed, self.at, self.waited = enable_timing, None, False

    def record(self) -> None:
        self.at = next(Event.times)

    def elapsed_time(self, end: "Event") -> float:
        assert self.timed and end.timed and end.waited, "a time is known of events that are timed and over"
        return end.at - self.at

    def synchronize(self) -> None:
        self.waited = True


@pytest.mark.parametrize(("device", "kind"), [("cpu", WallClock), ("meta", WallClock), ("cuda", StreamClock)])
def test_a_stream_is_cuda_s_alone(device, kind):
    assert type(clock_of(torch.device(device))) is kind


def test_the_host_s_clock_counts_seconds_forwards(monkeypatch):
    times = iter([10.0, 12.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(times))
    clock = WallClock()
    start, end = clock.mark(), clock.mark()
    clock.settle(end)
    assert clock.seconds(start, end) == 2.5


def test_a_stream_s_clock_gives_seconds_between_events_once_the_later_is_over(monkeypatch):
    monkeypatch.setattr(torch, "cuda", SimpleNamespace(Event=Event))
    monkeypatch.setattr(Event, "times", iter([100.0, 1600.0]))
    clock = StreamClock()
    start, end = clock.mark(), clock.mark()
    clock.settle(end)
    assert clock.seconds(start, end) == 1.5 and not start.waited
