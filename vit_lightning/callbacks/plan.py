"""What a run will do, printed before its first step."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from vit_lightning.compute.cost import macs
from vit_lightning.compute.peaks import device_name
from vit_lightning.training.optim import decay_line


class Plan(Callback):
    """Print what the run will do before its first step: net, cost, batch, steps, what each epoch leaves out."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        lines = plan(trainer, pl_module)  # on every rank: asking for the loaders and the folder communicates
        if trainer.is_global_zero:
            print("\n".join(lines), flush=True)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Without validation there is nothing to choose the best checkpoint by: keep the newest."""
        self._looked = False
        if not validates(trainer):
            for checkpoint in trainer.checkpoint_callbacks:
                if isinstance(checkpoint, ModelCheckpoint):
                    checkpoint.monitor = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Say that softmax does not suit the labels; MixUp and CutMix leave shares of classes that sum to 1."""
        if self._looked:
            return
        self._looked = True
        if not hasattr(pl_module, "objective") or pl_module.hparams.get("loss") != "softmax" or batch[1].ndim != 2:
            return
        sums = batch[1].float().sum(1)
        if trainer.is_global_zero and not torch.allclose(sums, torch.ones_like(sums), atol=0.01):
            several = "images have several classes or none, and softmax expects one; give --model.loss sigmoid"
            print(f"warning  {several}", flush=True)


def validates(trainer: Trainer) -> bool:
    """Whether a fit that starts has images to validate on.

    Their loaders are asked for here: Lightning waits for an epoch that ends in a validation where a run goes on.
    """
    if trainer.enable_validation and trainer.val_dataloaders is None:
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.setup_data()
        trainer.training = True
    return sum(trainer.num_val_batches) > 0


def plan(trainer: Trainer, model: LightningModule) -> list[str]:
    """Lines that describe a run whose loaders and optimisers stand."""
    trainer.fit_loop.setup_data()
    loader = trainer.train_dataloader
    batches, accumulation, devices = trainer.num_training_batches, trainer.accumulate_grad_batches, trainer.world_size
    lines = [_net_line(model)]
    if loader.batch_size:
        effective = loader.batch_size * devices * accumulation
        lines.append(f"batch    {loader.batch_size} per device x {devices} devices x {accumulation} = {effective}")
        if hasattr(loader.dataset, "__len__"):
            records = len(loader.dataset)
            dropped = max(records - batches * loader.batch_size * devices, 0)
            whole = getattr(getattr(trainer, "datamodule", None), "train_set", None)
            of = f" of {len(whole)}" if whole is not None and len(whole) != records else ""
            lines.append(f"data     {records}{of} training images, {dropped} dropped per epoch")
    schedule = getattr(model, "schedule", None)
    decay = f", warm-up {schedule.warmup_steps}, then {schedule.decay}" if schedule else ""
    epochs = f"{trainer.max_epochs} epochs of " if trainer.max_epochs and trainer.max_epochs > 0 else "epochs of "
    lines.append(f"steps    {epochs}{batches} batches, {trainer.estimated_stepping_batches} optimiser steps{decay}")
    lines.append(f"device   {device_name(trainer.strategy.root_device)}, precision {trainer.precision}")
    if hasattr(model, "objective"):
        lines.append(f"loss     {model.objective}")
    if decay := decay_line(trainer.optimizers[0]) if trainer.optimizers else None:
        lines.append(f"decay    {decay}")
    if accumulation > batches:
        lines.append(f"warning  accumulation {accumulation} exceeds the {batches} batches of an epoch: one step each")
    if trainer.logger:  # without one, Lightning knows no folder of the run
        lines.append(f"run      {trainer.log_dir}")
    return lines


def _net_line(model: LightningModule) -> str:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if not hasattr(model, "config"):
        return f"net      {type(model).__name__}, {parameters:,} parameters"
    cost = 2 * macs(model.config, model.hparams.image_size, model.hparams.num_classes) / 1e9
    return f"net      {model.config.variant}, {parameters:,} parameters, {cost:.3g} GFLOPs per image forward"
