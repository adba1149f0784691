"""A loader that resumes inside an epoch, and sends batches to a GPU ahead of their use."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from lightning.fabric.utilities import move_data_to_device
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from torch.utils.data import DataLoader

from vit_lightning.data.records import Records
from vit_lightning.data.sampling import TrainSampler


class ResumableLoader(DataLoader):
    """DataLoader that resumes inside an epoch, at the batch where a run stopped.

    Lightning asks for the iterator before it restores the progress of a run and before it tells the sampler the epoch;
    workers would start on the wrong records. So nothing is read until the first batch is asked for.

    Args:
        records: What is loaded.
        batches_seen: Says how many batches of the epoch are done, when the first batch is asked for.
        device: Where batches are wanted; a GPU gets each while it computes on the one before.
        settings: DataLoader's own.
    """

    batch_size: int

    def __init__(
        self, records: Records, batches_seen: Callable[[], int], device: torch.device, **settings: Any
    ) -> None:
        super().__init__(records, **settings)
        self.batches_seen = batches_seen
        self.device = device

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:  # type: ignore[override]
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
            yield arrived(*sent)
        sent = following
    if sent is not None:
        yield arrived(*sent)


def arrived(batch: Any, ready: torch.cuda.Event | None) -> Any:
    """Let what comes next on a GPU wait until a batch is ready there, and keep the batch until that is done."""
    if ready is not None:
        now = torch.cuda.current_stream(ready.device)
        now.wait_event(ready)
        apply_to_collection(batch, Tensor, Tensor.record_stream, now)
    return batch
