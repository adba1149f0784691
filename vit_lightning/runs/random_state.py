"""Random state of every process, saved with a run and restored with it."""

from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from vit_lightning.seeds import run_seed


class RandomState(Callback):
    """Give every process a random state of its own, and save it, so that dropout goes on as if a run had never stopped.

    All processes have the same seed, so that their nets begin equal; their images are to drop different units.
    Augmentation needs none: it is seeded for every record.
    """

    def __init__(self) -> None:
        self._restored: dict[str, torch.Tensor] | None = None

    def state_dict(self) -> dict[str, Any]:
        own = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            own["cuda"] = torch.cuda.get_rng_state()
        if not torch.distributed.is_initialized():
            return {"ranks": [own]}
        ranks: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(ranks, own)
        return {"ranks": ranks}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        ranks = state_dict["ranks"]
        self._restored = ranks[rank] if rank < len(ranks) else None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Late, since setting up the run draws numbers too."""
        if self._restored is None:
            if rank := trainer.global_rank:
                torch.manual_seed(int(np.random.SeedSequence((run_seed(), rank)).generate_state(1)[0]))
            return
        torch.set_rng_state(self._restored["cpu"].cpu())
        if "cuda" in self._restored and torch.cuda.is_available():
            torch.cuda.set_rng_state(self._restored["cuda"].cpu())
        self._restored = None
