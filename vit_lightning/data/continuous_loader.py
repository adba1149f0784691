"""A training loader whose workers go on over the end of an epoch."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from torch import Tensor

from vit_lightning.data.resumable_loader import ResumableLoader
from vit_lightning.data.sampling import TrainSampler


class ContinuousLoader(ResumableLoader):
    """Training batches of workers, which begin an epoch while the device trains on the last batches of that before.

    Otherwise the device would wait at each epoch's beginning until a worker has read a whole batch.

    Args:
        last_epoch: Says how far workers may read, when they begin; an epoch that has begun is read to its end.
        others: Those of ResumableLoader.
    """

    def __init__(self, *others: Any, last_epoch: Callable[[], int], **settings: Any) -> None:
        super().__init__(*others, **settings)
        self.last_epoch = last_epoch
        self._until = 0
        self._following: tuple[int, Iterator[tuple[Tensor, Tensor]]] | None = None

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rest of an epoch."""
        if not isinstance(self.sampler, TrainSampler):  # Lightning's overfit_batches brings its own
            yield from super().batches()
            return
        epoch, seen = self.sampler.epoch, self.batches_seen()
        (begun, batches), self._following = self._following or (None, iter(())), None
        if begun != epoch or seen:
            self._until = self.last_epoch()
            self.sampler.go_on(self._until, self.batch_size)
            batches = super().batches()
        for number, batch in enumerate(islice(batches, len(self) - seen), seen + 1):
            if number == len(self) and epoch < self._until:
                self._following = epoch + 1, batches
            yield batch
