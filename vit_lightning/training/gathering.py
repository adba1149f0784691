"""What the processes of a run have computed, brought together in the order of the images."""

from typing import Any

from einops import rearrange
from lightning.pytorch import Trainer
from torch import Tensor


def gathered(trainer: Trainer, *columns: Tensor) -> list[Tensor]:
    """Return a batch's columns `(b, ...)` with those of all processes `(b * processes, ...)`, on each of them.

    Processes hold equal numbers of records, dealt out in turns.
    """
    if trainer.world_size == 1:
        return list(columns)
    together: list[Any] = [trainer.strategy.all_gather(column) for column in columns]
    return [rearrange(column, "r n ... -> (n r) ...") for column in together]
