"""The running average of the weights, which is validated, tested and exported in place of the trained ones."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy, Strategy
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vit_lightning.errors import InputError
from vit_lightning.runs.checkpoint_names import RAW

UPDATES = "average_updates"
"""Key of a checkpoint for the number of steps in its average; its absence says that nothing was averaged."""


@dataclass
class Averaging:
    """Exponential moving (Polyak) average of the weights, one update per optimiser step."""

    decay: float = 0.0
    """Decay of the moving average of the weights, such as 0.9999 (0: no averaging). The paper has
    0.9999 in its table 2. Validation, test, prediction and export then use the average."""
    warmup: bool = True
    """Begin with a smaller share, (1 + t) / (10 + t) after t steps until that exceeds `decay`, so that the first
    weights are soon forgotten (TensorFlow's ExponentialMovingAverage; the paper does not state its own)."""

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise InputError(f"--model.averaging.decay is {self.decay}; expected a number in [0, 1), where 0 is off")

    def share(self, updates: int) -> float:
        """Share of the average kept by the update that `updates` others went before."""
        return min(self.decay, (1 + updates) / (10 + updates)) if self.warmup else self.decay


class WeightAverage(Callback):
    """Average a model's weights while it trains, and validate with the average.

    Lightning's EMAWeightAveraging copies the whole model, saves exchanged sets when a run dies in validation, loses
    the trained weights at the end of fit, and lets a run resume without it. After fit the model holds the average.
    The average of sharded weights (FSDP2) is sharded as they are; only a checkpoint of one file gathers it.

    Args:
        averaging: the recipe.
    """

    def __init__(self, averaging: Averaging) -> None:
        self.averaging = averaging
        self.updates = 0
        self.averaged: dict[str, Tensor] = {}
        self._model_tensors: list[Tensor] = []
        self._trained_values: list[Tensor] | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit" and not (replicates(trainer.strategy) or isinstance(trainer.strategy, ModelParallelStrategy)):
            raise InputError(
                f"weight averaging does not know where {type(trainer.strategy).__name__} keeps the weights; choose "
                "--trainer.strategy ddp or ModelParallelStrategy, or drop --model.averaging.decay"
            )

    def restore(self, averaged: dict[str, Tensor], updates: int) -> None:
        """Continue the average that a checkpoint holds."""
        self.averaged, self.updates = averaged, updates

    def restore_shards(self, path: Path, model: nn.Module, updates: int) -> None:
        """Continue the average of a checkpoint, of which each process reads its shards; give the model its weights.

        Args:
            path: the checkpoint, a file or a sharded one's folder.
            model: sharded; it may hold the average, as a ModelParallelStrategy loads it.
            updates: number of steps in the average.
        """
        from vit_lightning.runs.sharded import read_into

        trained = {name: tensor.detach() for name, tensor in _averaged_tensors(model).items()}
        averaged = {name: torch.zeros_like(tensor, dtype=_kept_in(tensor)) for name, tensor in trained.items()}
        read_into(path, averaged, trained)
        self.restore(averaged, updates)

    def store(self, checkpoint: dict[str, Any]) -> None:
        """Save the average as the weights and the trained weights beside it, whichever of them the model holds now."""
        if not self._model_tensors:
            return
        state, tensors = checkpoint["state_dict"], self._trained_values or self._model_tensors
        trained = state | _as_in(state, dict(zip(self.averaged, tensors, strict=True)))
        averaged = state | _as_in(state, self.averaged)
        if _is_sharded(state):
            checkpoint["state_dict"] = averaged | {RAW: trained}
        else:
            checkpoint["state_dict"], checkpoint[RAW] = averaged, trained
        checkpoint[UPDATES] = self.updates

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trained = _averaged_tensors(pl_module)
        begin = self.averaged or trained
        self.averaged = {
            name: begin[name].detach().to(tensor.device, _kept_in(tensor), copy=True)
            for name, tensor in trained.items()
        }
        self._model_tensors = list(trained.values())
        self._step = trainer.global_step
        left = trainer.estimated_stepping_batches - self._step + self.updates
        if not self.averaging.warmup and left * (1 - self.averaging.decay) < 1:
            rank_zero_info(
                f"averaging over 1 / (1 - {self.averaging.decay}) steps is longer than the run's {left}: "
                "the first weights stay; lower --model.averaging.decay, or keep --model.averaging.warmup true"
            )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self._step:  # gradients accumulate
            return
        self._step = trainer.global_step
        share = self.averaging.share(self.updates)
        self.updates += 1
        averaged, trained = _local(self.averaged.values()), _local(self._model_tensors)
        if any(tensor.dtype != average.dtype for tensor, average in zip(trained, averaged, strict=True)):
            trained = [tensor.to(average.dtype) for tensor, average in zip(trained, averaged, strict=True)]
        with torch.no_grad():
            torch._foreach_lerp_(averaged, trained, 1 - share)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._load_average()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._trained_values is not None:
            with torch.no_grad():
                torch._foreach_copy_(_local(self._model_tensors), _local(self._trained_values))
            self._trained_values = None

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._load_average()

    def _load_average(self) -> None:
        """Write the average into the model, and keep the trained values."""
        if self._model_tensors and self._trained_values is None:
            self._trained_values = [tensor.detach().clone() for tensor in self._model_tensors]
            with torch.no_grad():
                torch._foreach_copy_(_local(self._model_tensors), _local(self.averaged.values()))


def replicates(strategy: Strategy) -> bool:
    """Whether every device holds all weights, and their whole gradients."""
    return isinstance(strategy, SingleDeviceStrategy | DDPStrategy)


@torch.no_grad()
def _local(tensors: Iterable[Tensor]) -> list[Tensor]:
    """This process's shares of tensors, asked for anew each time: FSDP2 may give a parameter another storage."""
    return [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]


def _kept_in(tensor: Tensor) -> torch.dtype:
    """Type of a tensor's average: half precision would round away a step of 1e-4 of what is left to go."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _is_sharded(state: dict[str, Tensor]) -> bool:
    return any(isinstance(tensor, DTensor) for tensor in state.values())


def _as_in(state: dict[str, Tensor], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as a model's state holds them: as shards, or whole; where the state is empty, nothing is kept."""
    if _is_sharded(state):
        return {name: tensor.detach() for name, tensor in tensors.items()}
    held = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, DTensor):
            tensor = tensor.full_tensor().to(state[name].device if state else tensor.device)
        if state:
            held[name] = tensor.detach()
    return held


def _averaged_tensors(model: nn.Module) -> dict[str, Tensor]:
    """What training changes and a checkpoint holds: trainable parameters, and statistics such as batch norm's."""
    saved = model.state_dict().keys()
    tensors = chain(model.named_parameters(), model.named_buffers())
    return {
        name: tensor
        for name, tensor in tensors
        if name in saved
        and tensor.is_floating_point()
        and (tensor.requires_grad or not isinstance(tensor, nn.Parameter))
    }
