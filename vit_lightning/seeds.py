"""Seeds and stateless random numbers: what is random depends on its place in the run alone."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch


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


class Dice:
    """Random numbers for the records of a batch, each of which depends on the record's own place in the run alone.

    They are hashed from (seed, epoch, position, name) by SplitMix64 (Steele, Lea and Flood 2014), so that neither the
    batch size nor the number of workers or devices matters, and nothing is seeded record by record.

    Args:
        seed: seed of the run.
        epochs: epoch of each record `(b,)`.
        positions: position of each record in its epoch `(b,)`.
    """

    def __init__(self, seed: int, epochs: np.ndarray, positions: np.ndarray) -> None:
        epochs, positions = (each.astype(np.uint64) * _WEYL for each in (epochs, positions))
        self._states = _mixed(_mixed(epochs + np.uint64(seed_from(seed))) + positions)

    def __call__(self, name: str) -> np.ndarray:
        """Return int64 numbers `(b,)` from 0 to below 2**32; every name gives others."""
        return (_mixed(self._states + _stream(name)) >> np.uint64(32)).astype(np.int64)

    def uniform(self, name: str, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """Return float64 numbers `(b,)` from `low` to below `high`."""
        return low + (high - low) * below(self(name), 2**24) / 2**24


def below(bits: Any, count: Any) -> Any:
    """Turn numbers of `Dice` (array or tensor) into whole ones from 0 to below `count`, all equally likely."""
    return (bits * count) >> 32


_WEYL = np.uint64(0x9E3779B97F4A7C15)


def _mixed(states: np.ndarray) -> np.ndarray:
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return states ^ (states >> np.uint64(31))


@cache
def _stream(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()))
