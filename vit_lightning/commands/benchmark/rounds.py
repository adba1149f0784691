"""Alternating rounds: every contender is measured in turn, so that what the machine does meanwhile meets all alike."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from vit_lightning.compute.clock import Clock
from vit_lightning.compute.energy import held_memory, peak_memory

WARMUP = 3
"""Steps before anything is timed: compilation, first allocations, capture of graphs."""


@dataclass
class BenchmarkRow:
    """Figures of one measure of one net; `rounds` grows while it is measured."""

    measure: str
    net: str
    image_size: tuple[int, int]
    batch: int
    flops: int | None = None
    """FLOPs per image."""
    peak: float | None = None
    """FLOP/s of the device."""
    memory_gib: float | None = None
    rounds: list[float] = field(default_factory=list)
    """Images per second, round by round."""
    largest_batch: int | None = None
    note: str = ""

    @property
    def images_per_s(self) -> float | None:
        """Median over the rounds."""
        return statistics.median(self.rounds) if self.rounds else None

    @property
    def mfu(self) -> float | None:
        """Share of the device's peak."""
        known = self.images_per_s and self.flops and self.peak
        return self.images_per_s * self.flops / self.peak if known else None


def ratio(row: BenchmarkRow, other: BenchmarkRow) -> tuple[float, float, float] | None:
    """Returns median, least and largest ratio of two rows' rounds, taken pair by pair; None without a round."""
    ratios = [a / b for a, b in zip(row.rounds, other.rounds, strict=False)]
    return (statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


@dataclass
class BenchmarkTask:
    """What is timed, and the row that takes its figures."""

    row: BenchmarkRow
    build: Callable[[], Callable[[int], None]]
    """Prepares everything, and returns a function of a number of steps that takes them."""
    steps: int = 1

    def warm_up(self, clock: Clock, seconds: float) -> None:
        """Build, take the first steps, note the peak memory of those after, and find how many fill so many seconds."""
        gpu = torch.device("cuda") if torch.cuda.is_available() else None
        before = held_memory(gpu) if gpu else 0
        self.run = self.build()
        self.run(WARMUP)
        if gpu:
            torch.cuda.reset_peak_memory_stats()  # the first steps compile, choose algorithms and capture graphs
        self.steps = max(1, math.ceil(seconds / self.time(clock, 1)))
        if gpu:
            self.row.memory_gib = (peak_memory(gpu) - before) / 2**30

    def time(self, clock: Clock, steps: int | None = None) -> float:
        """Seconds that the steps take."""
        start = clock.mark()
        self.run(steps or self.steps)
        end = clock.mark()
        clock.settle(end)
        return clock.seconds(start, end)


def alternate(
    tasks: list[BenchmarkTask],
    clock: Clock,
    rounds: int,
    seconds: float,
    report: Callable[[str], None] = lambda text: None,
) -> None:
    """Time the tasks in turn, round after round, and put images per second into their rows.

    Args:
        tasks: What is timed.
        clock: The device's.
        rounds: Times that each gets its turn.
        seconds: How long a turn lasts, about.
        report: Takes a line that says how far it is.
    """
    for task in reversed(tasks):  # the model's own last: graphs captured before a peer was compiled crashed (SPEED.md)
        report(f"{task.row.measure}: warming up {task.row.net}")
        task.warm_up(clock, seconds)
    for number in range(rounds):
        for task in tasks:
            task.row.rounds.append(task.steps * task.row.batch / task.time(clock))
        speeds = ", ".join(f"{task.row.net} {task.row.rounds[-1]:,.1f}" for task in tasks)
        report(f"{tasks[0].row.measure}: round {number + 1}/{rounds}: {speeds} images/s")
