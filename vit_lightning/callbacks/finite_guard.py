"""The end of a run whose loss or gradient is not finite, with the records and weights that did it."""

import json
import math
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader

from vit_lightning.callbacks.score_names import put_aside
from vit_lightning.contracts import RecipeTrained
from vit_lightning.data.image_set import keys_of
from vit_lightning.data.sampling import TrainSampler
from vit_lightning.errors import InputError
from vit_lightning.files import write_atomically
from vit_lightning.runs.folders import NONFINITE


class UncheckedBatch(NamedTuple):
    """A batch that waits for its check: its number, what the host knows, and what still lies on the device."""

    number: int
    step: int
    loss: Tensor
    norms: Tensor | None


class FiniteGuard(Callback):
    """End a run whose training loss or gradient is not finite, with a non-zero exit and before a checkpoint keeps it.

    The device is asked once per `log_every_n_steps`, before each validation and checkpoint and at each epoch's end, so
    that no step waits for it. The file nonfinite.json then holds the optimiser step (from 0), the loss, the keys of the
    batch's records and the norm of every parameter's gradient before clipping. Where fp16 scales the loss, an infinite
    gradient is no fault: the scaler skips the step.

    Args:
        folder: Where to write the file; None: do not.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._parameters: dict[str, Tensor] = {}
        self._sharded = False
        self._clips_by_norms = False
        self._norms: Tensor | None = None
        self._unchecked: list[UncheckedBatch] = []
        self._step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        named = pl_module.named_parameters()
        self._parameters = {name: parameter for name, parameter in named if parameter.requires_grad}
        self._sharded = any(isinstance(parameter, DTensor) for parameter in self._parameters.values())
        self._clips_by_norms = isinstance(pl_module, RecipeTrained) and not self._sharded
        self._step = trainer.global_step
        if self.folder is not None and trainer.is_global_zero:  # a run that goes on has not ended there
            for said in put_aside([self.folder / NONFINITE]):
                rank_zero_info(said)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        if trainer.scaler is None:
            self._norms = _norms(list(self._parameters.values()))
            if self._clips_by_norms:
                pl_module.gradient_norms = self._norms

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs["loss"].detach() * trainer.accumulate_grad_batches
        self._unchecked.append(UncheckedBatch(batch_idx, self._step, loss, self._norms))
        self._step, self._norms = trainer.global_step, None
        if trainer.log_every_n_steps and (batch_idx + 1) % trainer.log_every_n_steps == 0:
            self._check(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._check(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._check(trainer)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self._check(trainer)

    def _check(self, trainer: Trainer) -> None:
        """Ask the devices about the batches since the last check; all of them end together."""
        unchecked, self._unchecked = self._unchecked, []
        if not unchecked:
            return
        bad = ~torch.stack([_finite(batch) for batch in unchecked])
        bad = trainer.strategy.reduce(bad.int(), reduce_op="max").tolist()
        if any(bad):
            self._end(trainer, unchecked[bad.index(1)])

    def _end(self, trainer: Trainer, batch: UncheckedBatch) -> None:
        batches = _batches(trainer, batch)
        own = {"loss": _plain(float(batch.loss)), "batches": batches, "records": _keys(trainer, batches)}
        report = {
            "optimiser_step": batch.step,
            "epoch": trainer.current_epoch,
            "devices": _gather(own),
            "gradient_norms": self._named(trainer, batch),
        }
        if self.folder is not None and trainer.is_global_zero:
            write_atomically(self.folder / NONFINITE, json.dumps(report, indent=2) + "\n")
        losses = [device["loss"] for device in report["devices"]]
        what = "gradient" if all(isinstance(loss, float) for loss in losses) else "training loss"
        where = "" if self.folder is None else f" ({self.folder / NONFINITE} names the records and gradients)"
        clip = "" if trainer.gradient_clip_val else ", or clip with --trainer.gradient_clip_val 1"
        raise InputError(
            f"the {what} is not finite at optimiser step {batch.step}: the run ends here{where}; "
            f"lower --model.optim.lr, or lengthen the warm-up{clip}"
        )

    def _named(self, trainer: Trainer, batch: UncheckedBatch) -> dict[str, float | str]:
        """The norm of every parameter's gradient by name, over all devices where they share it."""
        if batch.norms is None:
            return {}
        norms = batch.norms
        if self._sharded:
            norms = trainer.strategy.reduce(norms.square(), reduce_op="sum").sqrt()
        return dict(zip(self._parameters, map(_plain, norms.tolist()), strict=True))


def _norms(parameters: list[Tensor]) -> Tensor:
    """Norm of the gradient of each parameter (n), or of this device's share of it; 0 without one."""
    gradients = [parameter.grad for parameter in parameters]
    shares = [gradient.to_local() if isinstance(gradient, DTensor) else gradient for gradient in gradients]
    zero = torch.zeros((), device=parameters[0].device)
    return torch.stack(torch._foreach_norm([zero if share is None else share for share in shares], 2, torch.float32))


def _finite(batch: UncheckedBatch) -> Tensor:
    finite = batch.loss.isfinite()
    return finite if batch.norms is None else finite & batch.norms.isfinite().all()


def _batches(trainer: Trainer, batch: UncheckedBatch) -> list[int]:
    """Numbers of the batches in the epoch that may have done it: one, or those whose gradients were added up."""
    alone = batch.norms is None or not bool(batch.loss.isfinite())
    first = batch.number if alone else batch.number - batch.number % trainer.accumulate_grad_batches
    return list(range(first, batch.number + 1))


def _keys(trainer: Trainer, batches: list[int]) -> list[str | int] | None:
    """Keys of the records that this device had in those batches; None for data whose order is not ours to repeat."""
    loader = trainer.train_dataloader
    if not isinstance(loader, DataLoader) or not isinstance(loader.sampler, TrainSampler):
        return None
    sampler = copy(loader.sampler)
    sampler.set_epoch(trainer.current_epoch)
    sampler.skip(batches[0] * loader.batch_size, trainer.current_epoch)
    keys = keys_of(loader.dataset)
    draws = islice(sampler, len(batches) * loader.batch_size)
    return [_name(keys[draw.index]) for draw in draws]


def _name(key: Any) -> str | int:
    """A key that JSON takes: numpy's numbers are none."""
    return key if isinstance(key, str) else int(key) if isinstance(key, SupportsIndex) else str(key)


def _plain(value: float) -> float | str:
    """A number as JSON knows it: it has neither NaN nor infinity."""
    return value if math.isfinite(value) else str(value)


def _gather(own: dict[str, Any]) -> list[dict[str, Any]]:
    """The facts of every process, in order."""
    if not torch.distributed.is_initialized():
        return [own]
    ranks: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(ranks, own)
    return ranks
