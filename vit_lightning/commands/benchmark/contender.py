"""A model prepared as fit prepares it, with its training step and its inference as plain calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import Strategy
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from vit_lightning.commands.benchmark.peers import PeerNet
from vit_lightning.compute.cost import macs, training_flops
from vit_lightning.compute.peaks import arithmetic_of, device_name, peak
from vit_lightning.models import NetConfig
from vit_lightning.models.config import as_pair, is_timm
from vit_lightning.training.construction import nets_built_by_trainers

HORIZON = 10**9
"""Optimiser steps that a trainer plans, so that no round reaches the end of the schedule."""


class Contender:
    """A model on its device with its optimiser, compiled and converted by the trainer's own strategy and precision.

    Several live side by side, since each has a copy of the strategy.

    Args:
        trainer: Says where and how precisely to compute; nothing is connected to it yet.
        model: A RecipeModel whose facts are known.
        training: Whether there is an optimiser.
        mode: Mode of torch.compile in which its net is compiled; None: as the model says.
    """

    def __init__(
        self, trainer: Trainer, model: LightningModule, training: bool = True, mode: str | None = None
    ) -> None:
        self.model, self.trainer = model, trainer
        remove_step_limit(trainer)
        trainer.state.fn = TrainerFn.FITTING if training else TrainerFn.PREDICTING
        self.strategy = deepcopy(trainer.strategy)
        self.precision = self.strategy.precision_plugin
        model.trainer = trainer
        self.strategy.connect(model)
        self.strategy.setup_environment()
        with (
            self.strategy.tensor_init_context(),
            self.strategy.model_sharded_context(),
            self.precision.module_init_context(),
        ):
            model.configure_model()
        if mode is not None:
            model.net.compile(mode=mode)
        self.strategy.setup(trainer)
        self.device = self.strategy.root_device
        # A fit's nets go without cuDNN's attention, whose gradient may be NaN (RecipeModel); a peer's users have it.
        self._cudnn_attention = is_timm(model.config) or isinstance(model.net, PeerNet)

    @property
    def name(self) -> str:
        return self.model.config.variant

    @property
    def image_size(self) -> tuple[int, int]:
        return as_pair(self.model.hparams.image_size)

    def flops(self, measure: str) -> int | None:
        """FLOPs per image of train or inference; None: not known."""
        if isinstance(self.model.net, PeerNet):
            forward = self.model.net.macs
            return forward and (2 if measure == "inference" else 6) * forward
        facts = self.model.config, self.image_size, self.model.hparams.num_classes
        if measure == "inference":
            return 2 * macs(*facts, computed=True)
        frozen, bias_only = (self.model.hparams.get(name, False) for name in ("freeze_trunk", "bias_only"))
        return training_flops(*facts, frozen, computed=True, bias_only=bias_only)

    def task(self, measure: str, batch_size: int) -> Callable[[int], None]:
        """Return a function of a number of steps that takes them on one batch, which stays on the device."""
        batch = resident_batch(self.model, batch_size, self.device)
        return self._train(batch) if measure == "train" else self._inference(batch)

    def _train(self, batch: tuple[Tensor, Tensor]) -> Callable[[int], None]:
        def run(steps: int) -> None:
            self.model.train()
            # Precision plugins call the hooks of the model that the trainer's own strategy knows.
            self.trainer.strategy.connect(self.model)
            torch.backends.cuda.enable_cudnn_sdp(self._cudnn_attention)
            with without_callbacks(self.trainer, self.model):
                for _ in range(steps):
                    take_step(self.strategy, batch)
            self.trainer.strategy.connect(None)

        return run

    def _inference(self, batch: tuple[Tensor, Tensor]) -> Callable[[int], None]:
        images, _ = batch

        def run(steps: int) -> None:
            self.model.eval()
            torch.backends.cuda.enable_cudnn_sdp(self._cudnn_attention)
            with torch.inference_mode(), self.precision.forward_context():
                for _ in range(steps):
                    self.model.net(self.model.normalise(images))

        return run


def take_step(strategy: Strategy, batch: Any) -> None:
    """Take one optimiser step with nothing around it: forward, loss, backward, clipping and update as in fit."""
    optimizer = strategy.optimizers[0]

    def closure() -> Tensor:
        out = strategy.training_step(batch, 0)
        loss = out["loss"] if isinstance(out, dict) else out
        optimizer.zero_grad()
        strategy.backward(loss, optimizer)
        return loss

    strategy.optimizer_step(optimizer, closure)


@contextmanager
def without_callbacks(trainer: Trainer, model: LightningModule) -> Iterator[None]:
    """Leave out logging and callbacks, which Lightning adds to a step."""
    callbacks, trainer.callbacks = trainer.callbacks, []
    model.log = lambda *args, **kwargs: None
    try:
        yield
    finally:
        trainer.callbacks = callbacks
        del model.log


def remove_step_limit(trainer: Trainer) -> None:
    """Let a trainer's fit go on until its should_stop is set."""
    trainer.fit_loop.max_epochs = -1
    trainer.fit_loop.epoch_loop.max_steps = HORIZON


def resident_batch(model: LightningModule, batch_size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return uint8 images `b c y x` and labels `b` on the device, drawn by chance."""
    shape = (batch_size, model.config.channels, *as_pair(model.hparams.image_size))
    images = torch.randint(256, shape, dtype=torch.uint8, device=device)
    return images, torch.randint(max(1, model.hparams.num_classes), (batch_size,), device=device)


def peak_flops(trainer: Trainer) -> float | None:
    """FLOP/s that the trainer's device reaches at most at its precision, where that is known."""
    return peak(device_name(trainer.strategy.root_device), arithmetic_of(trainer.precision))


def check_buildable(model: LightningModule) -> None:
    """Raise what building a model's net would, which takes no time without storage."""
    with torch.device("meta"), suppress(NotImplementedError):  # of a net that asks its tensors for numbers
        model.build_net()


def rebuild(
    model: LightningModule, net: NetConfig | None = None, kind: type | None = None, **facts: Any
) -> LightningModule:
    """Return a new model of the same recipe, and class if no other is named, with another net or facts of the data."""
    settings = {**model.hparams, **facts}
    with nets_built_by_trainers():  # several at once would not fit
        return (kind or type(model))(**settings | ({"net": net} if net else {}))
