"""Seeds and stateless random numbers: what is random depends on its place in the run alone."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

Integers = TypeVar("Integers", np.ndarray, Tensor)


def run_seed() -> int:
    """Return the seed of the whole run, which Lightning's `seed_everything` has set; 0 without it."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0))


def seed_from(*key: int) -> int:
    """Return a 64-bit seed that depends on every part of the key, so that (0, 1) and (1, 0) do not meet."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest())


@contextmanager
def seeded(*key: int) -> Iterator[None]:
    """Seed torch's CPU generator from the key inside the block and give the caller's state back after it."""
    generator = torch.default_generator  # torch.manual_seed would reach for every accelerator too
    state = generator.get_state()
    generator.manual_seed(seed_from(*key))
    try:
        yield
    finally:
        generator.set_state(state)


class StatelessRandom:
    """Random numbers for the records of a batch, each of which depends on the record's own place in the run alone.

    They are hashed from (seed, epoch, position, name) by SplitMix64, so that neither the batch size nor the number of
    workers or devices matters, and nothing is seeded record by record.

    Args:
        seed: seed of the run.
        epochs: epoch of each record `(b,)`.
        positions: position of each record in its epoch `(b,)`.
    """

    def __init__(self, seed: int, epochs: np.ndarray, positions: np.ndarray) -> None:
        epochs, positions = (each.astype(np.int64) * GOLDEN_GAMMA for each in (epochs, positions))
        self._states = split_mix64(split_mix64(epochs + _signed(seed_from(seed))) + positions)

    def __call__(self, name: str) -> np.ndarray:
        """Return int64 numbers `(b,)` from 0 to below 2**32; every name gives others."""
        return shift_right(split_mix64(self._states + _offset(name)), 32)

    def uniform(self, name: str, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """Return float64 numbers `(b,)` from `low` to below `high`."""
        return low + (high - low) * below(self(name), 2**24) / 2**24


def below(bits: Any, count: Any) -> Any:
    """Turn numbers of `StatelessRandom` (array or tensor) into whole ones from 0 to below `count`, equally likely."""
    return (bits * count) >> 32


def split_mix64(states: Integers) -> Integers:
    """Return the output of SplitMix64 for each state (Steele, Lea and Flood 2014, with the constants of variant 13).

    The generator's k-th output has the state `seed + k * GOLDEN_GAMMA`, so any of them is computed without the others.

    Args:
        states: int64 array or tensor of any shape, whose bits are read as unsigned.
    """
    for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        states = (states ^ shift_right(states, bits)) * _signed(factor)
    return states ^ shift_right(states, 31)


def shift_right(states: Integers, bits: int) -> Integers:
    """Shift int64 numbers right by 1 to 63 bits, as if they had no sign."""
    return (states >> bits) & (2 ** (64 - bits) - 1)


def _signed(value: int) -> int:
    """Return the int64 that has the bits of a uint64."""
    return value - 2**64 if value >= 2**63 else value


GOLDEN_GAMMA = _signed(0x9E3779B97F4A7C15)
"""Step between the states of SplitMix64."""


@cache
def _offset(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
