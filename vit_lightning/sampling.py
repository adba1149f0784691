"""Which record comes when: a seeded, sharded, resumable training order and exact evaluation shards.

Both samplers subclass torch's DistributedSampler, because Lightning shards any other sampler a second time. They deal
records out in turns, so that the union of all ranks' batches k is batch k of one device with the same global batch.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DistributedSampler

IGNORE = -100
"""Label of a record that fills up an evaluation shard; losses and metrics skip every label below 0."""

BROKEN = -101
"""Label of an evaluation record whose image could not be read; it is skipped likewise."""


class Draw(NamedTuple):
    """One record to load, with its place in the run: all that its augmentation may depend on."""

    index: int
    epoch: int = 0
    position: int = 0
    padding: bool = False


class TrainSampler(DistributedSampler[Draw]):
    """A new permutation of the records every epoch, which is a pure function of (seed, epoch).

    Args:
        dataset: what is sampled; only its length is read.
        num_replicas: number of processes that share the records; a remainder is dropped, another one each epoch.
        rank: number of this process.
        seed: seed of the whole run.
    """

    def __init__(self, dataset: Sized, num_replicas: int = 1, rank: int = 0, seed: int = 0) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle=True, seed=seed, drop_last=True)
        self._skipped = {}

    def skip(self, records: int, epoch: int) -> None:
        """Start `epoch` after this rank's first `records` records, for a run that resumes inside that epoch.

        The length stays that of the whole epoch: a shorter one would end the epoch early.
        """
        self._skipped = {epoch: records}

    def __iter__(self) -> Iterator[Draw]:
        generator = torch.Generator().manual_seed(seed_from(self.seed, self.epoch))
        order = torch.randperm(len(self.dataset), generator=generator).numpy()
        first = self.rank + self._skipped.get(self.epoch, 0) * self.num_replicas
        for position in range(first, self.total_size, self.num_replicas):
            yield Draw(int(order[position]), self.epoch, position)


class EvalSampler(DistributedSampler[Draw]):
    """Every record once, in order; ranks that would come out short get padding draws instead of duplicates.

    Args:
        dataset: what is sampled; only its length is read.
        num_replicas: number of processes that share the records.
        rank: number of this process.
    """

    def __init__(self, dataset: Sized, num_replicas: int = 1, rank: int = 0) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle=False)

    def __iter__(self) -> Iterator[Draw]:
        size = len(self.dataset)
        for position in range(self.rank, self.total_size, self.num_replicas):
            yield Draw(min(position, size - 1), position=position, padding=position >= size)


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


def tfds_order(split: str, keys: Sequence[str | int]) -> np.ndarray:
    """Return the record numbers in the order of TensorFlow Datasets, in which the paper's splits are slices.

    Args:
        split: the set's own name of the split, such as "train".
        keys: the records' keys in that split; which they are is a fact of each set (CIFAR: the row number).
    """
    digests = [hashlib.md5(f"{split}{key}".encode(), usedforsecurity=False).digest() for key in keys]
    return np.array(sorted(range(len(keys)), key=digests.__getitem__), dtype=np.int64)
