"""How fast bytes must come, by a clock at hand: the border, the end, and each time by itself."""

import pytest

from datamodules.reading.downloads import LEAST_RATE, PATIENCE, Arrival, TooLarge, TooSlow

LEAST = int(LEAST_RATE * PATIENCE)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def after(clock: Clock, arrival: Arrival, seconds: float, size: int) -> None:
    clock.now += seconds
    arrival.relative_update(size)


@pytest.mark.parametrize("first", [0, 10 * LEAST])
def test_as_many_bytes_as_must_come_are_enough_and_one_less_is_not(first):
    """Of each time by itself: what came before, however much, does not count."""
    clock = Clock()
    arrival = Arrival(None, clock)
    if first:
        after(clock, arrival, PATIENCE, first)
    after(clock, arrival, PATIENCE, LEAST)
    after(clock, arrival, PATIENCE - 0.5, 1)  # too early to tell
    after(clock, arrival, 0.5, LEAST - 1)
    with pytest.raises(TooSlow, match=r"bytes per second come, fewer than 10,000"):
        after(clock, arrival, PATIENCE, LEAST - 1)


@pytest.mark.parametrize(("most", "size"), [(None, 0), (5, 5)])
def test_the_end_may_be_late(most, size):
    """Nothing more comes, or the last byte has."""
    clock = Clock()
    after(clock, Arrival(most, clock), 10 * PATIENCE, size)


def test_as_many_bytes_as_there_may_be_and_none_more():
    arrival = Arrival(5, Clock())
    arrival.absolute_update(3)
    arrival.absolute_update(5)
    assert arrival.value == 5
    with pytest.raises(TooLarge, match="it has more bytes where 5 are expected"):
        arrival.absolute_update(6)
