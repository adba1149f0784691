"""Loaders that go on inside an epoch; one of them varies small sets on the device, several batches at once."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from math import prod
from typing import Any

import torch
from lightning.fabric.utilities import move_data_to_device
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from torch.utils.data import DataLoader

from vit_lightning.memory import WholeBatches
from vit_lightning.records import Records
from vit_lightning.sampling import TrainSampler

SHARE = 1 / 16
"""Part of a device's free memory that a whole set may take there."""
BLOCK = 16 * 2**20
"""Bytes of images that are varied at once: more than one batch only where images are small."""


class ResumableLoader(DataLoader):
    """DataLoader that goes on inside an epoch where a resumed run stopped.

    Lightning asks for the iterator before it restores the progress of a run and before it tells the sampler the epoch;
    workers would start on the wrong records. So nothing is read until the first batch is asked for.

    Args:
        records: What is loaded.
        batches_seen: Says how many batches of the epoch are done, when the first batch is asked for.
        settings: DataLoader's own.
    """

    def __init__(self, records: Records, batches_seen: Callable[[], int], **settings: Any) -> None:
        super().__init__(records, **settings)
        self.batches_seen = batches_seen

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if isinstance(self.sampler, TrainSampler):
            self.sampler.skip(self.batches_seen() * self.batch_size, self.sampler.epoch)
        yield from self.batches()

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what the sampler has left."""
        return super().__iter__()

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the trainer's own progress is the state; Lightning warns about loaders without this method."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `state_dict`."""


class DeviceLoader(ResumableLoader):
    """Training batches of a set in memory, varied on the device that trains.

    RandAugment of a batch launches some 800 kernels, which takes the host longer than a small net's whole step; so
    each is launched once for several batches. An image's changes do not depend on those beside it.

    Args:
        records: What is loaded.
        batches_seen: See `ResumableLoader`.
        device: Where batches are varied, and stay.
        settings: DataLoader's own.
    """

    dataset: WholeBatches

    def __init__(
        self, records: WholeBatches, batches_seen: Callable[[], int], device: torch.device, **settings: Any
    ) -> None:
        super().__init__(records, batches_seen, **settings)
        self.device = device

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images and labels on the device."""
        self._move()
        waiting = iter(self.batch_sampler)
        while block := list(islice(waiting, self.batches_per_block)):
            drawn = self.dataset.take(list(chain.from_iterable(block)))
            if self.device.type == "cuda":
                drawn = apply_to_collection(drawn, Tensor, _pinned)
            images, labels = self.dataset.vary(move_data_to_device(drawn, self.device))
            yield from zip(images.split(self.batch_size), labels.split(self.batch_size), strict=True)

    def _move(self) -> None:
        """Put the set on a device where it takes little, so that the host neither gathers nor sends images."""
        held = self.dataset.source
        if self.device.type != "cuda" or held.images.device == self.device:
            return
        if held.images.nbytes <= SHARE * torch.cuda.mem_get_info(self.device)[0]:
            self.dataset.source = held.to(self.device)

    @property
    def batches_per_block(self) -> int:
        """Batches that are varied at once."""
        channels = self.dataset.source.images.shape[1]
        return max(1, BLOCK // (self.batch_size * channels * prod(self.dataset.size)))


def _pinned(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_cuda else tensor.pin_memory()
