"""The loader of small sets on a GPU: many batches are varied there at once, ahead of their use."""

from collections.abc import Iterator
from itertools import count
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor

from vit_lightning.data.in_memory import InMemoryBatches
from vit_lightning.data.resumable_loader import ResumableLoader, arrived
from vit_lightning.data.sampling import Draws, TrainSampler, columns

SHARE = 1 / 16
"""Part of a device's free memory that a whole set may take there."""
BYTES_AT_ONCE = 128 * 2**20
"""Bytes of images that are varied at once: more than one batch only where images are small."""


class VariedBatches(NamedTuple):
    """Several batches in one, varied or about to be."""

    epoch: int
    batch: Any
    ready: torch.cuda.Event | None


class DeviceLoader(ResumableLoader):
    """Training batches of a set in memory, varied on the device that trains.

    RandAugment launches some 300 kernels, which takes the host as long as a small net's step; so each is launched once
    for many batches, and some batches ahead, across the end of an epoch too. An image's changes do not depend on
    those beside it.

    `device` is where batches are varied, and stay.
    """

    dataset: InMemoryBatches
    _following: tuple[Iterator[VariedBatches], VariedBatches] | None = None

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images and labels on the device."""
        epoch = getattr(self.sampler, "epoch", 0)
        (groups, group), self._following = self._begun(epoch), None
        while group.epoch == epoch:
            images, labels = arrived(group.batch, group.ready)
            batches = list(zip(images.split(self.batch_size), labels.split(self.batch_size), strict=True))
            middle = len(batches) // 2  # where the device has steps waiting, as it has not at the start of an epoch
            yield from batches[:middle]
            group = next(groups)
            yield from batches[middle:]
        self._following = groups, group

    def _begun(self, epoch: int) -> tuple[Iterator[VariedBatches], VariedBatches]:
        """Return an epoch's groups of batches and the first of them, which the epoch before may have made."""
        if self._following is not None and self._following[1].epoch == epoch and not self.batches_seen():
            return self._following
        self._move()
        groups = self._groups(epoch)
        return groups, next(groups)

    def _groups(self, epoch: int) -> Iterator[VariedBatches]:
        """Yield the batches of an epoch and of those after it, varied on a stream beside that of the steps."""
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
                yield VariedBatches(now, varied, ready)

    def _draws(self, epoch: int) -> Iterator[Draws]:
        """Yield the draws of an epoch, those of about as many batches each time."""
        sampler = self.sampler
        draws = sampler.draws(epoch) if isinstance(sampler, TrainSampler) else columns(sampler)
        batches = len(draws.indices) // self.batch_size
        for part in np.array_split(np.arange(batches), -(-batches // self.batches_at_once)):
            rows = slice(part[0] * self.batch_size, (part[-1] + 1) * self.batch_size)
            yield Draws(*(column[rows] for column in draws))

    def _move(self) -> None:
        """Put the set on a device where it takes little, so that the host neither gathers nor sends images."""
        whole = self.dataset.source
        if self.device.type != "cuda" or whole.images.device == self.device:
            return
        if whole.images.nbytes <= SHARE * torch.cuda.mem_get_info(self.device)[0]:
            self.dataset.source = whole.to(self.device)

    @property
    def batches_at_once(self) -> int:
        """Batches that are varied at once, at most."""
        images = self.dataset.source.images
        values = self.batch_size * images.shape[1] * prod(self.dataset.size)
        return max(1, BYTES_AT_ONCE // (values * images.element_size()))


def _pinned(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_cuda else tensor.pin_memory()
