"""Loaders that go on inside an epoch and send batches ahead; one varies small sets on the device, several at once."""

from collections.abc import Callable, Iterator
from itertools import count
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from torch.utils.data import DataLoader

from vit_lightning.data.in_memory import WholeBatches
from vit_lightning.data.records import Records
from vit_lightning.data.sampling import Draws, TrainSampler, columns

SHARE = 1 / 16
"""Part of a device's free memory that a whole set may take there."""
BLOCK = 128 * 2**20
"""Bytes of images that are varied at once: more than one batch only where images are small."""


class ResumableLoader(DataLoader):
    """DataLoader that goes on inside an epoch where a resumed run stopped.

    Lightning asks for the iterator before it restores the progress of a run and before it tells the sampler the epoch;
    workers would start on the wrong records. So nothing is read until the first batch is asked for.

    Args:
        records: What is loaded.
        batches_seen: Says how many batches of the epoch are done, when the first batch is asked for.
        device: Where batches are wanted; a GPU gets each while it computes on the one before.
        settings: DataLoader's own.
    """

    def __init__(
        self, records: Records, batches_seen: Callable[[], int], device: torch.device, **settings: Any
    ) -> None:
        super().__init__(records, **settings)
        self.batches_seen = batches_seen
        self.device = device

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if isinstance(self.sampler, TrainSampler):
            self.sampler.skip(self.batches_seen() * self.batch_size, self.sampler.epoch)
        yield from self.batches()

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what the sampler has left."""
        loaded = super().__iter__()
        return sent_ahead(loaded, self.device) if self.device.type == "cuda" else loaded

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the trainer's own progress is the state; Lightning warns about loaders without this method."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `state_dict`."""


class Block(NamedTuple):
    """Several batches in one, varied or about to be."""

    epoch: int
    batch: Any
    ready: torch.cuda.Event | None


class DeviceLoader(ResumableLoader):
    """Training batches of a set in memory, varied on the device that trains.

    RandAugment launches some 300 kernels, which takes the host as long as a small net's step; so each is launched once
    for many batches, and one block of them ahead, across the end of an epoch too. An image's changes do not depend on
    those beside it.

    `device` is where batches are varied, and stay.
    """

    dataset: WholeBatches
    _following: tuple[Iterator[Block], Block] | None = None

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images and labels on the device."""
        epoch = getattr(self.sampler, "epoch", 0)
        (blocks, block), self._following = self._begun(epoch), None
        while block.epoch == epoch:
            images, labels = _arrived(block.batch, block.ready)
            batches = list(zip(images.split(self.batch_size), labels.split(self.batch_size), strict=True))
            middle = len(batches) // 2  # where the device has steps waiting, as it has not at the start of an epoch
            yield from batches[:middle]
            block = next(blocks)
            yield from batches[middle:]
        self._following = blocks, block

    def _begun(self, epoch: int) -> tuple[Iterator[Block], Block]:
        """Return an epoch's blocks and the first of them, which the epoch before it may have made already."""
        if self._following is not None and self._following[1].epoch == epoch and not self.batches_seen():
            return self._following
        self._move()
        blocks = self._blocks(epoch)
        return blocks, next(blocks)

    def _blocks(self, epoch: int) -> Iterator[Block]:
        """Yield the blocks of an epoch and of those after it, varied on a stream beside that of the steps."""
        beside = None
        if self.device.type == "cuda":
            beside = torch.cuda.Stream(self.device)
            beside.wait_stream(torch.cuda.default_stream(self.device))  # on which the set may be on its way
        for now in count(epoch):
            for draws in self._draws(now):
                with torch.cuda.stream(beside):
                    drawn = self.dataset.take(draws)
                    if beside is not None:
                        drawn = apply_to_collection(drawn, Tensor, _pinned)
                    varied = self.dataset.vary(move_data_to_device(drawn, self.device))
                    ready = None if beside is None else beside.record_event()
                yield Block(now, varied, ready)

    def _draws(self, epoch: int) -> Iterator[Draws]:
        """Yield the draws of an epoch, those of about as many batches each time."""
        ours = isinstance(self.sampler, TrainSampler)
        draws = self.sampler.draws(epoch) if ours else columns(self.sampler)
        batches = len(draws.indices) // self.batch_size
        for part in np.array_split(np.arange(batches), -(-batches // self.batches_per_block)):
            rows = slice(part[0] * self.batch_size, (part[-1] + 1) * self.batch_size)
            yield Draws(*(column[rows] for column in draws))

    def _move(self) -> None:
        """Put the set on a device where it takes little, so that the host neither gathers nor sends images."""
        held = self.dataset.source
        if self.device.type != "cuda" or held.images.device == self.device:
            return
        if held.images.nbytes <= SHARE * torch.cuda.mem_get_info(self.device)[0]:
            self.dataset.source = held.to(self.device)

    @property
    def batches_per_block(self) -> int:
        """Batches that are varied at once, at most."""
        channels = self.dataset.source.images.shape[1]
        return max(1, BLOCK // (self.batch_size * channels * prod(self.dataset.size)))


def sent_ahead(batches: Iterator[Any], device: torch.device) -> Iterator[Any]:
    """Yield batches on a GPU, each copied there beside the work on the one before it.

    The trainer's own copy begins when that work ends: 0.8 ms for 256 images of 224 pixels, 1.4 % of a step of B/16. No
    thread does it: without workers, loading sets torch's random state for a moment, which the step draws from as well.
    """
    beside, sent = torch.cuda.Stream(device), None
    for batch in batches:
        with torch.cuda.stream(beside):
            following = move_data_to_device(batch, device), beside.record_event()
        if sent is not None:
            yield _arrived(*sent)
        sent = following
    if sent is not None:
        yield _arrived(*sent)


def _arrived(batch: Any, ready: torch.cuda.Event | None) -> Any:
    """Let what comes next on a GPU wait until a batch is ready there, and keep the batch until that is done."""
    if ready is not None:
        now = torch.cuda.current_stream(ready.device)
        now.wait_event(ready)
        apply_to_collection(batch, Tensor, Tensor.record_stream, now)
    return batch


def _pinned(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_cuda else tensor.pin_memory()
