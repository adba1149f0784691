"""Which record comes when: a seeded, sharded, resumable training order and exact evaluation shards.

Both samplers subclass torch's DistributedSampler, because Lightning shards any other sampler a second time. They deal
records out in turns, so that the union of all ranks' batches k is batch k of one device with the same global batch.
"""

from collections.abc import Iterable, Iterator, Sized
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch.utils.data import DistributedSampler

from vit_lightning.data.image_set import announce, blocks_of
from vit_lightning.seeds import seed_from

IGNORE = -100
"""Label of a record that fills up an evaluation shard; losses and metrics skip every label below 0."""

BROKEN = -101
"""Label of an evaluation record whose image could not be read; it is skipped likewise."""

WINDOW = 32
"""Blocks across which training records are mixed at a time, where a set lies in blocks."""

LOOKAHEAD = 16_384
"""Records that are announced to a set before they come."""


Sampling = Literal["shuffled", "balanced"]
"""What an epoch of training draws: every image once, or every class equally often."""


class Draw(NamedTuple):
    """One record to load, with its place in the run: all that its augmentation may depend on."""

    index: int  # type: ignore[assignment]  # hides the method of tuples
    epoch: int = 0
    position: int = 0
    padding: bool = False


class Draws(NamedTuple):
    """Many records to load, a column of `Draw` each `(n,)`."""

    indices: np.ndarray
    epochs: np.ndarray
    positions: np.ndarray
    padding: np.ndarray


def columns(draws: Iterable[Draw | int]) -> Draws:
    """Return draws as columns; a sampler that is not ours yields records, whose positions are their numbers."""
    rows = [draw if isinstance(draw, Draw) else Draw(draw, position=draw) for draw in draws]
    return Draws(*(np.array(column) for column in zip(*rows, strict=True)))


class TrainSampler(DistributedSampler[Draw]):
    """A new permutation of the records every epoch, which is a pure function of (seed, epoch).

    With classes, an epoch has as many draws, and every class comes equally often (see `balanced`).

    Args:
        dataset: what is sampled: only its length is read, and `blocks` and `announce` if it has them (see ImageSet).
        num_replicas: number of processes that share the records; a remainder is dropped, another one each epoch.
        rank: number of this process.
        seed: seed of the whole run.
        classes: class of every record `(n,)` for draws that are equal over classes; None: for a permutation.
    """

    dataset: Sized  # type: ignore[assignment]  # torch's Dataset has no length

    def __init__(
        self, dataset: Sized, num_replicas: int = 1, rank: int = 0, seed: int = 0, classes: np.ndarray | None = None
    ) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle=True, seed=seed, drop_last=True)  # type: ignore[arg-type]
        self.classes = classes
        self._skipped: dict[int, int] = {}
        self._last_epoch, self._multiple = 0, 1

    def skip(self, records: int, epoch: int) -> None:
        """Start `epoch` after this rank's first `records` records, for a run that resumes inside that epoch.

        The length stays that of the whole epoch: a shorter one would end the epoch early.
        """
        self._skipped = {epoch: records}

    def go_on(self, last_epoch: int, batch_size: int) -> None:
        """Let an iteration continue with the epochs up to `last_epoch`, each cut to whole batches."""
        self._last_epoch, self._multiple = last_epoch, batch_size

    def __iter__(self) -> Iterator[Draw]:
        for epoch in range(self.epoch, max(self.epoch, self._last_epoch) + 1):
            order, positions = self._order(epoch), self._positions(epoch)
            whole = len(positions) - len(positions) % self._multiple
            for position in _announced(self.dataset, order, positions[:whole]):
                yield Draw(int(order[position]), epoch, position)

    def draws(self, epoch: int) -> Draws:
        """Return what an epoch yields, as columns: an object for each takes as long as a small net's step."""
        positions = np.array(self._positions(epoch), dtype=np.int64)
        indices = self._order(epoch)[positions]
        return Draws(indices, np.full_like(positions, epoch), positions, np.zeros_like(positions, dtype=bool))

    def _order(self, epoch: int) -> np.ndarray:
        generator = torch.Generator().manual_seed(seed_from(self.seed, epoch))
        blocks = blocks_of(self.dataset)
        if self.classes is not None:
            drawn = balanced(self.classes, generator)
            return drawn if blocks is None else drawn[block_shuffled(blocks[drawn], generator)]
        if blocks is not None:
            return block_shuffled(blocks, generator)
        return torch.randperm(len(self.dataset), generator=generator).numpy()

    def _positions(self, epoch: int) -> range:
        first = self.rank + self._skipped.get(epoch, 0) * self.num_replicas
        return range(first, self.total_size, self.num_replicas)


class EvalSampler(DistributedSampler[Draw]):
    """Every record once, in order; ranks that would come out short get padding draws instead of duplicates.

    Args:
        dataset: what is sampled; only its length is read.
        num_replicas: number of processes that share the records.
        rank: number of this process.
        first: number of the first record; those before it are left out.
    """

    dataset: Sized  # type: ignore[assignment]

    def __init__(self, dataset: Sized, num_replicas: int = 1, rank: int = 0, first: int = 0) -> None:
        super().__init__(dataset, num_replicas, rank, shuffle=False)  # type: ignore[arg-type]
        self.first = first
        self.num_samples = -(-(len(dataset) - first) // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[Draw]:
        size = len(self.dataset)
        positions = range(self.first + self.rank, self.first + self.total_size, self.num_replicas)
        for position in _announced(self.dataset, np.arange(size), positions):
            yield Draw(min(position, size - 1), position=position, padding=position >= size)


def block_shuffled(blocks: np.ndarray, generator: torch.Generator) -> np.ndarray:
    """Return a random order of records that goes through their blocks in a random order, some `WINDOW` at a time.

    Args:
        blocks: number of the block that each record lies in.
        generator: source of the random numbers.
    """
    turn = torch.randperm(int(blocks.max(initial=0)) + 1, generator=generator).numpy()
    delay = torch.rand(len(blocks), generator=generator, dtype=torch.float64).numpy()
    return np.argsort(turn[blocks] + WINDOW * delay, kind="stable")


def balanced(classes: np.ndarray, generator: torch.Generator) -> np.ndarray:
    """Return as many records as there are, in a random order, of every class that occurs equally many.

    The numbers of two classes differ by one at most, and so does how often two records of a class come. Of a class with
    more records than its share, others come each time.

    Args:
        classes: of the records; one below 0 is not drawn.
        generator: source of the random numbers.
    """
    size = len(classes)
    members = torch.randperm(size, generator=generator).numpy()
    members = members[classes[members] >= 0]
    members = members[np.argsort(classes[members], kind="stable")]
    _, first, sizes = np.unique(classes[members], return_index=True, return_counts=True)
    turn = torch.randperm(len(sizes), generator=generator).numpy()
    shares = size // len(sizes) + (turn < size % len(sizes))
    chosen = np.repeat(np.arange(len(sizes)), shares)
    place = np.arange(size) - np.repeat(np.cumsum(shares) - shares, shares)
    drawn = members[first[chosen] + place % sizes[chosen]]
    return drawn[torch.randperm(size, generator=generator).numpy()]


def _announced(dataset: Sized, order: np.ndarray, positions: range) -> Iterator[int]:
    """Yield positions, and announce to the set which records of the order come next."""
    for count, position in enumerate(positions):
        if count % (LOOKAHEAD // 64) == 0:
            announce(dataset, order[position : position + LOOKAHEAD])
        yield position
