"""Sequences of strings or rows in a few arrays, which workers share instead of each copying a list of millions."""

import os
from array import array
from collections.abc import Iterable, Sequence

import numpy as np


class Strings(Sequence[str]):
    """Strings in two arrays.

    Args:
        items: the strings, file names among them.
    """

    def __init__(self, items: Iterable[str]) -> None:
        text, ends = bytearray(), array("q", [0])
        for item in items:
            text += os.fsencode(item)
            ends.append(len(text))
        self.text = np.frombuffer(text, dtype=np.uint8)
        self.ends = np.frombuffer(ends, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> str:
        return os.fsdecode(self.text[self.ends[index] : self.ends[index + 1]].tobytes())


class Ragged(Sequence[np.ndarray]):
    """Rows of different lengths in two arrays.

    Args:
        values: all rows, one after the other.
        ends: 0, and where each row ends in values.
    """

    def __init__(self, values: np.ndarray, ends: np.ndarray) -> None:
        self.values = values
        self.ends = ends

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        """Pack rows of whole numbers."""
        ends = np.cumsum([0, *map(len, rows)])
        return cls(np.fromiter((value for row in rows for value in row), np.int32, ends[-1]), ends)

    @property
    def longest(self) -> int:
        """Values of the row that has most."""
        return int(np.diff(self.ends.astype(np.int64)).max(initial=0))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.values[self.ends[index] : self.ends[index + 1]]
