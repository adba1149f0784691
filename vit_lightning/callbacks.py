"""Callbacks that are on by default: the plan before step 0, plain progress, skipped images, predictions."""

import csv
import io
import math
import time
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint, ProgressBar
from lightning.pytorch.utilities import rank_zero_info

from vit_lightning.analysis.cost import macs
from vit_lightning.analysis.peaks import device_name
from vit_lightning.errors import InputError
from vit_lightning.optim import decay_line
from vit_lightning.sampling import BROKEN
from vit_lightning.text_files import check_place, write_atomically


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


class FinalValidation(Callback):
    """Validate once more when `max_steps` ends a run inside an epoch: Lightning would leave its end unmeasured."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        trainer.should_stop = trainer.should_stop or trainer.global_step == trainer.max_steps


class PlainProgress(ProgressBar):
    """Progress as plain lines, for output that is not a terminal: one per epoch, and one per 30 s within it."""

    def __init__(self, seconds: float = 30.0) -> None:
        super().__init__()
        self.seconds = seconds
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._last = time.monotonic()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if time.monotonic() - self._last >= self.seconds:
            steps_left = trainer.max_steps - trainer.global_step if trainer.max_steps >= 0 else math.inf
            batches = min(trainer.num_training_batches, batch_idx + 1 + steps_left * trainer.accumulate_grad_batches)
            self._print(trainer, pl_module, f"batch {batch_idx + 1}/{batches}")

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._print(trainer, pl_module, "done")

    def _print(self, trainer: Trainer, pl_module: LightningModule, where: str) -> None:
        self._last = time.monotonic()
        if not self._enabled:
            return
        metrics = {name: value for name, value in self.get_metrics(trainer, pl_module).items() if name != "v_num"}
        scores = " ".join(f"{name} {float(value):.4g}" for name, value in metrics.items())
        of = f"/{trainer.max_epochs}" if trainer.max_epochs and trainer.max_epochs > 0 else ""
        print(f"epoch {trainer.current_epoch + 1}{of} {where}, step {trainer.global_step} {scores}", flush=True)


class Require(Callback):
    """Fail a fit whose final metric falls short, so that a smoke run proves that something was learnt.

    Args:
        metric: Name of a logged metric, such as val/top1.
        at_least: Smallest value that counts as success.
    """

    def __init__(self, metric: str, at_least: float) -> None:
        self.metric = metric
        self.at_least = at_least
        self._trains = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._trains = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        value = trainer.callback_metrics.get(self.metric)
        if value is None or not float(value) >= self.at_least:
            untrained = "" if self._trains else ", since nothing was left to train"
            got = f"was not logged{untrained}" if value is None else f"ended at {float(value):.4f}"
            raise InputError(f"{self.metric} {got}, at least {self.at_least} is required")


class SkippedImages(Callback):
    """After each epoch, add up the images that the devices skipped (`--data.on_error skip`); too many end the run."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_up(trainer, trainer.train_dataloader)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_up(trainer, trainer.val_dataloaders)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_up(trainer, trainer.test_dataloaders)

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._add_up(trainer, trainer.predict_dataloaders)

    def _add_up(self, trainer: Trainer, loaders: Any) -> None:
        for loader in loaders if isinstance(loaders, list) else [loaders]:
            skipped = getattr(getattr(loader, "dataset", None), "skipped", None)
            if skipped is not None:
                self._add_up_one(trainer, skipped)

    def _add_up_one(self, trainer: Trainer, skipped: Any) -> None:
        flags = skipped.flags.to(trainer.strategy.root_device, torch.uint8)
        skipped.flags.copy_(trainer.strategy.reduce(flags, reduce_op="max"))
        skipped.check()
        if skipped.count > skipped.told:
            skipped.told = skipped.count
            rank_zero_info(f"skipped {skipped.count} of {len(flags)} {skipped.split} images, which cannot be read")


class Predictions(Callback):
    """Write the best classes of each image to a CSV file: one row per image, in the order of the data.

    An earlier file stays: the next one is called predictions-2.csv.

    The row of an image that was skipped because it cannot be read says why in its column error.

    Args:
        path: The file.
        top: Classes per image.
    """

    def __init__(self, path: Path, top: int = 5) -> None:
        self.path = path
        self.top = top
        self._best: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuse a place that cannot be written, before the data take their time."""
        if trainer.is_global_zero:
            check_place(self.path, "--trainer.default_root_dir")

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: torch.Tensor,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        values, classes = outputs.float().topk(min(self.top, outputs.shape[-1]))
        labels = batch[1] if batch[1].ndim == 1 else batch[1][:, 0]
        self._best.append((values, classes, labels == BROKEN))

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ranks hold equal numbers of records, dealt out in turns: interleave them and drop the padding at the end."""
        columns = [torch.cat(parts) for parts in zip(*self._best, strict=True)]
        if trainer.world_size > 1:
            columns = [rearrange(pl_module.all_gather(column), "r n ... -> (n r) ...") for column in columns]
        if trainer.is_global_zero:
            dataset = trainer.predict_dataloaders.dataset
            path = _unused(self.path)
            self._write(path, dataset, pl_module, *(column.tolist() for column in columns))
            written = min(len(dataset), len(columns[-1]))  # fewer where batches are limited, more where ranks fill up
            print(f"wrote    {path}: {written} images", flush=True)
            if bool(columns[-1].all()):
                raise InputError(f"none of the {written} images can be read; {path} says why")

    def _write(
        self,
        path: Path,
        dataset: Any,
        model: LightningModule,
        values: list[list[float]],
        classes: list[list[int]],
        broken: list[bool],
    ) -> None:
        names = model.class_names or [str(index) for index in range(model.hparams.num_classes)]
        keys = getattr(dataset, "keys", range(len(dataset)))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        columns = [f"{what}{k + 1}" for k in range(len(values[0])) for what in ("class", "probability")]
        writer.writerow(["image", *columns, "error"])
        for number, (key, probabilities, best) in enumerate(zip(keys, values, classes, strict=False)):
            pairs = zip(best, probabilities, strict=True)
            cells = [cell for index, p in pairs for cell in (names[index], f"{p:.6f}")]
            writer.writerow([key, *[""] * len(cells), dataset.reason(number)] if broken[number] else [key, *cells, ""])
        write_atomically(path, text.getvalue())


def _unused(path: Path) -> Path:
    """Return the path, or the first numbered one beside it that is not taken."""
    taken = 1
    while (chosen := path if taken == 1 else path.with_stem(f"{path.stem}-{taken}")).exists():
        taken += 1
    return chosen
