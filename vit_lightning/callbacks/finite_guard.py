"""FiniteGuard: a run whose loss or gradient is not finite ends at once, and says which records and weights did it."""

import json
import math
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.distributed.tensor import DTensor

from vit_lightning.data.image_set import keys_of
from vit_lightning.data.sampling import TrainSampler
from vit_lightning.errors import InputError
from vit_lightning.files import write_atomically

FILE = "nonfinite.json"


class Seen(NamedTuple):
    """A batch that waits for its check: its number, what the host knows, and what still lies on the device."""

    batch: int
    step: int
    loss: Tensor
    norms: Tensor | None


class FiniteGuard(Callback):
    """End a run whose training loss or gradient is not finite, with a non-zero exit and before a checkpoint keeps it.

    The device is asked once per `log_every_n_steps`, before each validation and checkpoint and at each epoch's end, so
    that no step waits for it. The file nonfinite.json then tells the optimiser step (from 0), the loss, the keys of the
    batch's records and the norm of every parameter's gradient before clipping. Where fp16 scales the loss, an infinite
    gradient is no fault: the scaler skips the step.

    Args:
        folder: Where to write the file; None: do not.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._parameters: dict[str, Tensor] = {}
        self._shared = False
        self._norms: Tensor | None = None
        self._seen: list[Seen] = []
        self._step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        named = pl_module.named_parameters()
        self._parameters = {name: parameter for name, parameter in named if parameter.requires_grad}
        self._shared = any(isinstance(parameter, DTensor) for parameter in self._parameters.values())
        self._step = trainer.global_step

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        if getattr(trainer.precision_plugin, "scaler", None) is None:
            self._norms = _norms(list(self._parameters.values()))
            if hasattr(pl_module, "gradient_norms") and not self._shared:
                pl_module.gradient_norms = self._norms  # to clip by, too

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs["loss"].detach() * trainer.accumulate_grad_batches
        self._seen.append(Seen(batch_idx, self._step, loss, self._norms))
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
        seen, self._seen = self._seen, []
        if not seen:
            return
        bad = ~torch.stack([_finite(each) for each in seen])
        bad = trainer.strategy.reduce(bad.int(), reduce_op="max").tolist()
        if any(bad):
            self._end(trainer, seen[bad.index(1)])

    def _end(self, trainer: Trainer, seen: Seen) -> None:
        batches = _batches(trainer, seen)
        own = {"loss": _plain(float(seen.loss)), "batches": batches, "records": _keys(trainer, batches)}
        report = {
            "optimiser_step": seen.step,
            "epoch": trainer.current_epoch,
            "devices": _gather(own),
            "gradient_norms": self._named(trainer, seen),
        }
        if self.folder is not None and trainer.is_global_zero:
            write_atomically(self.folder / FILE, json.dumps(report, indent=2) + "\n")
        losses = [device["loss"] for device in report["devices"]]
        what = "gradient" if all(isinstance(loss, float) for loss in losses) else "training loss"
        where = "" if self.folder is None else f" ({self.folder / FILE} names the records and gradients)"
        raise InputError(
            f"the {what} is not finite at optimiser step {seen.step}: the run ends here{where}; "
            "lower --model.optim.lr, lengthen the warm-up, or clip with --trainer.gradient_clip_val 1"
        )

    def _named(self, trainer: Trainer, seen: Seen) -> dict[str, float | str]:
        """The norm of every parameter's gradient by name, over all devices where they share it."""
        if seen.norms is None:
            return {}
        norms = seen.norms
        if self._shared:
            norms = trainer.strategy.reduce(norms.square(), reduce_op="sum").sqrt()
        return dict(zip(self._parameters, map(_plain, norms.tolist()), strict=True))


def _norms(parameters: list[Tensor]) -> Tensor:
    """Norm of the gradient of each parameter (n), or of this device's share of it; 0 without one."""
    gradients = [parameter.grad for parameter in parameters]
    shares = [gradient.to_local() if isinstance(gradient, DTensor) else gradient for gradient in gradients]
    zero = torch.zeros((), device=parameters[0].device)
    return torch.stack(torch._foreach_norm([zero if share is None else share for share in shares], 2, torch.float32))


def _finite(seen: Seen) -> Tensor:
    finite = seen.loss.isfinite()
    return finite if seen.norms is None else finite & seen.norms.isfinite().all()


def _batches(trainer: Trainer, seen: Seen) -> list[int]:
    """Numbers of the batches in the epoch that may have done it: one, or those whose gradients were added up."""
    alone = seen.norms is None or not bool(seen.loss.isfinite())
    first = seen.batch if alone else seen.batch - seen.batch % trainer.accumulate_grad_batches
    return list(range(first, seen.batch + 1))


def _keys(trainer: Trainer, batches: list[int]) -> list[str | int] | None:
    """Keys of the records that this device had in those batches; None for data whose order is not ours to repeat."""
    loader = trainer.train_dataloader
    if not isinstance(getattr(loader, "sampler", None), TrainSampler):
        return None
    sampler = copy(loader.sampler)
    sampler.set_epoch(trainer.current_epoch)
    sampler.skip(batches[0] * loader.batch_size, trainer.current_epoch)
    keys = keys_of(loader.dataset)
    draws = islice(sampler, len(batches) * loader.batch_size)
    return [_name(keys[draw.index]) for draw in draws]


def _name(key: Any) -> str | int:
    """A key that JSON takes: numpy's numbers are none."""
    return key if isinstance(key, str) else int(key) if hasattr(key, "__index__") else str(key)


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
