"""The running average of the weights, which is validated, tested and exported in place of the trained ones."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy, Strategy
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn

from vit_lightning.errors import InputError

RAW = "current_model_state"
"""Key of a checkpoint under which the trained weights stand beside the averaged ones, as Lightning's own callback has
it; its absence says that nothing was averaged."""
UPDATES = "average_updates"
"""Key of a checkpoint for the number of steps in its average."""


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
        if stage == "fit" and not replicates(trainer.strategy):
            raise InputError(
                f"weight averaging needs every weight whole on its device, which {type(trainer.strategy).__name__} "
                "does not keep; choose --trainer.strategy ddp, or drop --model.averaging.decay"
            )

    def restore(self, averaged: dict[str, Tensor], updates: int) -> None:
        """Continue the average that a checkpoint holds."""
        self.averaged, self.updates = averaged, updates

    def store(self, checkpoint: dict[str, Any]) -> None:
        """Save the average as the weights and the trained weights beside it, whichever of them the model holds now."""
        if not self._model_tensors:
            return
        state, trained = checkpoint["state_dict"], self._trained_values or self._model_tensors
        checkpoint[RAW] = state | {name: tensor.detach() for name, tensor in zip(self.averaged, trained, strict=True)}
        checkpoint["state_dict"] = state | self.averaged
        checkpoint[UPDATES] = self.updates

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trained = _averaged_tensors(pl_module)
        begin = self.averaged or trained
        self.averaged = {
            # Half precision would round away a step of 1e-4 of what is left to go.
            name: begin[name].detach().to(tensor.device, torch.promote_types(tensor.dtype, torch.float32), copy=True)
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
        averaged, trained = list(self.averaged.values()), self._model_tensors
        if any(tensor.dtype != average.dtype for tensor, average in zip(trained, averaged, strict=True)):
            trained = [tensor.to(average.dtype) for tensor, average in zip(trained, averaged, strict=True)]
        with torch.no_grad():
            torch._foreach_lerp_(averaged, trained, 1 - share)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._load_average()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._trained_values is not None:
            with torch.no_grad():
                torch._foreach_copy_(self._model_tensors, self._trained_values)
            self._trained_values = None

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._load_average()

    def _load_average(self) -> None:
        """Write the average into the model, and keep the trained values."""
        if self._model_tensors and self._trained_values is None:
            self._trained_values = [tensor.detach().clone() for tensor in self._model_tensors]
            with torch.no_grad():
                torch._foreach_copy_(self._model_tensors, list(self.averaged.values()))


def replicates(strategy: Strategy) -> bool:
    """Whether every device holds all weights, and their whole gradients."""
    return isinstance(strategy, SingleDeviceStrategy | DDPStrategy)


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
