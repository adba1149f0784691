"""The newest state of a run: written whole or not at all, random state included, and found again."""

import os
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.utilities.exceptions import SIGTERMException

from vit_lightning.errors import InputError
from vit_lightning.runs import LAST, PREVIOUS


class LastCheckpoint(Checkpoint):
    """Keep the newest state as last.ckpt and the one before it as previous.ckpt.

    Lightning's own `save_last` stays at the best epoch, and a save inside the hook that ends an epoch makes a run that
    `max_steps` stopped inside it skip the rest of that epoch when it is resumed.

    Args:
        every_n_steps: Optimiser steps between two saves, beside the end of every epoch and of the run.
        dirpath: Folder; None: checkpoints/ in the run folder.
    """

    def __init__(self, every_n_steps: int = 1000, dirpath: Path | None = None) -> None:
        if every_n_steps < 1:
            raise InputError(f"last.every_n_steps is {every_n_steps}; choose 1 or more")
        self.every_n_steps = every_n_steps
        self.dirpath = dirpath
        self._saved = -1

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.dirpath = trainer.strategy.broadcast(self.dirpath)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if step and (step % self.every_n_steps == 0 or step == trainer.max_steps):
            self._save(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """SIGTERM comes between two steps, where the state is whole."""
        if isinstance(exception, SIGTERMException):
            self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        if self.dirpath is None or trainer.global_step == self._saved or trainer.fast_dev_run:
            return
        self._saved = trainer.global_step
        last, part = Path(self.dirpath, LAST), Path(self.dirpath, f"{LAST}.part")
        trainer.save_checkpoint(part, weights_only=False)
        if trainer.is_global_zero:
            if last.exists():
                os.replace(last, Path(self.dirpath, PREVIOUS))
            os.replace(part, last)
            for logger in trainer.loggers:
                logger.save()


class RandomState(Callback):
    """Save the random state of every process, so that dropout goes on as if the run had never stopped.

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
            return
        torch.set_rng_state(self._restored["cpu"].cpu())
        if "cuda" in self._restored and torch.cuda.is_available():
            torch.cuda.set_rng_state(self._restored["cuda"].cpu())
        self._restored = None
