"""The newest state of a run: written whole or not at all, random state included, and found again."""

import signal
import time
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.environments import SLURMEnvironment
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities import rank_zero_info
from lightning.pytorch.utilities.exceptions import SIGTERMException
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.files import in_utf8, remove, replace, unwritable
from vit_lightning.private_api import cluster_environment, skip_sigterm_exchange
from vit_lightning.runs.checkpoint_names import LAST, NEW, PREVIOUS, is_complete, is_sharded
from vit_lightning.runs.folders import to_go_on
from vit_lightning.runs.lock import check_held
from vit_lightning.runs.signals import Agreement, Stop
from vit_lightning.runs.slurm import requeue

SHARE, GRACE = 0.02, 0.5
"""Part of a run's time, and seconds beside it, that saving may have taken for an epoch's end to be saved as well: the
epochs of a small set would take as long to save as to train."""


class LastCheckpoint(Checkpoint):
    """Keep the newest state as last.ckpt and the one before it as previous.ckpt; end the run when a signal asks for it.

    Lightning's own `save_last` stays at the best epoch. This one saves where a step is over with all that belongs to
    it, its validation and its row in the logs: when the next batch is at hand, or the epoch ends.

    Args:
        every_n_steps: Optimiser steps between two saves of last.ckpt. It is saved at the end of the run and of every
            epoch too; of many short epochs only as many as take 2 % of the time.
        dirpath: Folder; unset: checkpoints/ in the run folder.
    """

    def __init__(self, every_n_steps: int = 1000, dirpath: Path | None = None) -> None:
        if every_n_steps < 1:
            raise InputError(f"--last.every_n_steps is {every_n_steps}; choose 1 or more")
        self.every_n_steps = every_n_steps
        self.dirpath = dirpath
        self.stop = Stop()
        self._saved = 0
        self._wrote_last = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.dirpath = trainer.strategy.broadcast(self.dirpath)

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._listen(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._listen(trainer)
        self.agreement = Agreement(trainer.strategy)
        self._saved, self._wrote_last = trainer.global_step, False
        self._began, self._spent = time.monotonic(), 0.0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if batch_idx % trainer.accumulate_grad_batches:
            return  # a checkpoint holds no gradients
        if self.agreement.any(self.stop.received is not None):
            self._save(trainer)
            self._leave(trainer)
        elif trainer.global_step % self.every_n_steps == 0:
            self._save(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Saved where the epoch ends, a run that `max_steps` stopped inside it would skip the rest when resumed."""
        if trainer.global_step == trainer.max_steps:
            self._save(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        ends = trainer.should_stop or trainer.current_epoch + 1 == trainer.max_epochs
        cheap = self._spent <= GRACE + SHARE * (time.monotonic() - self._began)
        if ends or trainer.strategy.reduce_boolean_decision(cheap, all=False):
            self._save(trainer)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Write a batch at hand, and those whose gradients wait for an optimiser step, as batches to come.

        What is written is the end of the batch before them, from which Lightning knows how to go on; it then counts
        that step in its logs.
        """
        state = checkpoint["loops"]["fit_loop"]
        progress = state["epoch_loop.batch_progress"]
        now = progress["current"]
        waiting = now["processed"] % trainer.accumulate_grad_batches
        if now["processed"] == trainer.num_training_batches or not (waiting or now["ready"] > now["started"]):
            return
        begun = now["processed"] > waiting
        for count in (now, progress["total"]):
            done = count["processed"] - waiting
            count.update(ready=done, started=done, processed=done, completed=done - begun)
        progress["is_last_batch"] = False
        state["epoch_loop.state_dict"]["_batches_that_stepped"] -= 1

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Let a run whose folder was moved keep its best: with the old paths, Lightning would forget its score.

        The scores of a sharded checkpoint lie on the first process's GPU, where the others could not compare theirs.
        """
        checkpoint["callbacks"] = apply_to_collection(checkpoint["callbacks"], Tensor, Tensor.cpu)
        for callback in trainer.checkpoint_callbacks:
            state = checkpoint["callbacks"].get(callback.state_key, {})
            old, new = state.get("dirpath"), getattr(callback, "dirpath", None)
            if old and new and old != new and Path(new, Path(state["best_model_path"]).name).is_file():
                checkpoint["callbacks"][callback.state_key] = _moved(state, old, str(new))

    def _listen(self, trainer: Trainer) -> None:
        environment = cluster_environment(trainer)
        slurm = environment if isinstance(environment, SLURMEnvironment) else None
        self.stop.listen(slurm.requeue_signal if slurm and slurm.auto_requeue else None)
        skip_sigterm_exchange(trainer)

    def _leave(self, trainer: Trainer) -> None:
        """End the run, on all processes at this step."""
        if trainer.strategy.reduce_boolean_decision(self.stop.requeues, all=False) and trainer.is_global_zero:
            requeue()
        step = trainer.global_step
        further = to_go_on(Path(self.dirpath or "").parent) if step else "nothing is saved yet, so start anew"
        rank_zero_info(f"stopped by a signal at optimiser step {step}; {further}")
        # A rank that does not end with 0 would make Lightning kill the first.
        interrupted = self.stop.received == signal.SIGINT and trainer.is_global_zero
        raise SIGTERMException(128 + signal.SIGINT if interrupted else 0)

    def _save(self, trainer: Trainer) -> None:
        if self.dirpath is None or trainer.global_step == self._saved or trainer.fast_dev_run:
            return
        self._saved, began = trainer.global_step, time.monotonic()
        last, new = Path(self.dirpath, LAST), Path(self.dirpath, NEW)
        trainer.save_checkpoint(new, weights_only=False)
        if trainer.is_global_zero:
            # One that was there before may be damaged, and must not replace the state that the run goes on from.
            if last.exists() and (self._wrote_last or is_complete(last)):
                replace(last, Path(self.dirpath, PREVIOUS))
            replace(new, last)
            self._wrote_last = True
            for logger in trainer.loggers:
                logger.save()
        self._spent += time.monotonic() - began


class WholeCheckpoints(Trainer):
    """Trainer whose checkpoints, files or the folders of sharded ones, are written whole or not at all."""

    def save_checkpoint(self, filepath: str | Path, *args: Any, **kwargs: Any) -> None:
        if "://" in str(filepath):
            super().save_checkpoint(filepath, *args, **kwargs)
            return
        check_held()
        path = Path(self.strategy.broadcast(filepath))
        part = path.with_name(f".{path.name}.part")
        if self.is_global_zero:
            remove(part)
        try:
            super().save_checkpoint(part, *args, **kwargs)
        except (OSError, RuntimeError) as error:
            if not (fault := unwritable(path, error)):
                raise
            remove(part)
            whole = any(path.with_name(name).exists() for name in (LAST, PREVIOUS))
            raise InputError(f"{fault}, then {to_go_on(path.parent.parent) if whole else 'start anew'}") from error
        if self.is_global_zero:
            replace(part, path)
        self.strategy.barrier()


class CheckpointFiles(TorchCheckpointIO):
    """Write checkpoints straight to their folder; read sharded ones on any strategy.

    Lightning's own builds the file in memory, copies it to the system's folder for temporary files, and then once
    more: a large net fills up both.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        if "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with in_utf8(Path(path).parent) as folder:
            torch.save(checkpoint, folder / Path(path).name)

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if is_sharded(Path(path)):
            from vit_lightning.runs.sharded import read_sharded_run

            return read_sharded_run(Path(path))
        return super().load_checkpoint(path, *args, **kwargs)


def _moved(state: Any, old: str, new: str) -> Any:
    """Return a callback's state with the paths of another folder."""
    if isinstance(state, dict):
        return {_moved(key, old, new): _moved(value, old, new) for key, value in state.items()}
    return new + state.removeprefix(old) if isinstance(state, str) and state.startswith(old) else state
