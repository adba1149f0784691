"""Strings and rows in a few arrays."""

import numpy as np
import pytest

from datamodules.reading.shared_sequences import Ragged, Strings


def test_strings_come_back_whatever_a_file_system_holds():
    names = ["b", "", "\u00e4\u00f6", "\udcff.png", "a b"]
    strings = Strings(names)
    assert list(strings) == names and len(strings) == 5
    assert strings.ends.tolist() == [0, 1, 1, 5, 10, 13] and strings.text.dtype == np.uint8
    with pytest.raises(IndexError):
        strings[5]
    assert list(Strings([])) == []


def test_rows_come_back_in_their_order():
    rows = [[3, 1], [], [2], [5, 4, 6]]
    ragged = Ragged.of(rows)
    assert [row.tolist() for row in ragged] == rows and len(ragged) == 4
    assert ragged.ends.tolist() == [0, 2, 2, 3, 6] and ragged.values.dtype == np.int32
    assert len(Ragged.of([])) == Ragged.of([]).longest == Ragged.of([[], []]).longest == 0
    assert ragged.longest == 3 and Ragged.of([[1, 2, 3, 4], [5]]).longest == 4
    assert Ragged(ragged.values, ragged.ends.astype(np.uint32)).longest == 3


def test_rows_and_strings_may_be_many_and_long():
    rows = [[number] * (number % 3) for number in range(70_000)]
    packed = Ragged.of(rows)
    assert len(packed) == 70_000 and packed.longest == 2 and len(packed.values) == sum(map(len, rows))
    assert [packed[number].tolist() for number in (0, 1, 300, 65_537, 69_998)] == [
        *([], [1], [], [65_537, 65_537], [69_998, 69_998]),
    ]
    texts = Strings(["x" * 300, "", "\u00fc\udcff", "y" * 70_000, "z"])
    assert list(texts) == ["x" * 300, "", "\u00fc\udcff", "y" * 70_000, "z"]
