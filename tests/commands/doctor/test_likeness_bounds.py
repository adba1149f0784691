"""How unlike two pictures may be that look the same, from prints made by hand."""

import numpy as np
import pytest

from vit_lightning.commands.doctor import likeness
from vit_lightning.commands.doctor.likeness import HIGHER, Print, Prints, twins

SIZE = int(HIGHER.sum())


def pattern(turned: int = 0) -> np.ndarray:
    """99 entries of 13, of length 129; `turned` of them have the other sign."""
    signs = np.ones(SIZE)
    signs[:turned] = -1
    return (127 / SIZE**0.5 * signs).round().astype(np.int8)


def some(*found: Print | None) -> Prints:
    prints = Prints(len(found))
    for number, one in enumerate(found):
        if one is not None:
            prints[number] = one
    return prints


def one(bits: int = 0, colour: int = 100, turned: int = 0) -> Print:
    colours = np.full(12, 100, np.uint8)
    colours[7] = colour
    return Print(bits, pattern(turned), colours)


def by_set(prints: list[Prints], sides=None, digests=None, classes=None) -> likeness.Twins:
    size = sum(len(each.known) for each in prints)
    sides = np.full((size, 2), 40) if sides is None else np.array(sides)
    digests = np.arange(size) if digests is None else np.array(digests)
    return twins(prints, sides, digests, np.zeros(size, int) if classes is None else np.array(classes))


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (one(), True),
        (one(bits=0b1111 << 20), True),
        (one(bits=0b11111 << 20), False),
        (one(colour=112), True),
        (one(colour=113), False),
        (one(colour=88), True),
        (one(colour=87), False),
        (one(turned=3), True),  # 93 of 99 entries, each 13, are left: 15,717 of 16,129, and 97 % are 15,645
        (one(turned=4), False),
        (None, False),
    ],
)
def test_bits_colours_and_patterns_have_their_bounds(other, alike):
    found = by_set([some(one(), other)])
    assert found.by_set.tolist() == [[-1, 0 if alike else -1]]


@pytest.mark.parametrize(
    ("sides", "alike"),
    [([100, 106], True), ([106, 100], True), ([100, 107], False), ([107, 100], False), ([300, 300], True)],
)
def test_sides_may_have_nearly_the_same_ratio(sides, alike):
    found = by_set([some(one(), one())], sides=[[50, 50], sides])
    assert found.by_set.tolist() == [[-1, 0 if alike else -1]]


def test_equal_pixels_are_told_elsewhere():
    found = by_set([some(one(), one(), one())], digests=[5, 5, 6])
    assert found.by_set.tolist() == [[-1, -1, 0]]


@pytest.mark.parametrize("at_once", [2**15, 1, 2])
def test_the_first_of_each_set_is_named_and_the_first_of_another_class(monkeypatch, at_once):
    """Records 0 to 2 are of the first set, 3 to 5 of the second; record 1 shows something else."""
    monkeypatch.setattr(likeness, "AT_ONCE", at_once)
    away = one(bits=2**64 - 1)
    first, second = some(one(), away, one(bits=1)), some(one(bits=2), one(bits=4), away)
    found = by_set([first, second], classes=[7, 7, 8, 8, 7, 7])
    assert found.by_set.tolist() == [[-1, -1, 0, 0, 0, 1], [-1, -1, -1, -1, 3, -1]]
    assert found.contrary.tolist() == [-1, -1, 0, 0, 2, -1]
