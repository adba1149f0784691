"""What a run will do, printed before its first step."""

import math
import os
from collections.abc import Sized
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_only

from vit_lightning.callbacks.plan_data import data_facts
from vit_lightning.callbacks.run_estimate import RunEstimate, estimate, estimate_line
from vit_lightning.compute.cost import macs
from vit_lightning.compute.peaks import device_name
from vit_lightning.contracts import ImageData, RecipeTrained
from vit_lightning.data.workers import cores
from vit_lightning.errors import one_line
from vit_lightning.files import write_atomically
from vit_lightning.models.variants import described
from vit_lightning.runs.folders import PLAN
from vit_lightning.terminal import counted, near
from vit_lightning.training.freezing import is_partial
from vit_lightning.training.optim import decay_line


class RunPlan(Callback):
    """Print what the run will do before its first step: net, cost, batch, steps, images that an epoch drops.

    Args:
        folder: The run folder; unset: the logger's, if there is one.
        keep: Whether plan.txt there keeps what was printed; a resumed run adds its own.
    """

    def __init__(self, folder: Path | None = None, keep: bool = False) -> None:
        self.folder = folder
        self.kept = folder / PLAN if keep and folder else None
        self.lines: list[str] = []
        self.estimate: RunEstimate | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # On every rank: asking for the loaders and the folder communicates.
        trainer.fit_loop.setup_data()
        self.estimate = estimate(trainer, pl_module)
        lines = plan_lines(trainer, pl_module, self.folder, self.estimate)
        log_every_epoch(trainer)
        if trainer.is_global_zero:
            self.lines = lines + shared_cores(trainer)
            print("\n".join(self.lines), flush=True)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.global_step and trainer.is_global_zero:
            file = f"{near(trainer.ckpt_path)} " if trainer.ckpt_path else ""
            where = f"at step {trainer.global_step}, in epoch {trainer.current_epoch + 1}"
            self.lines.append(f"resume   {file}{where}")
            print(self.lines[-1], flush=True)

    @rank_zero_only
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Write the plan of a run that nothing has refused."""
        if self.kept is not None:
            earlier = self.kept.read_bytes() + b"\n" if self.kept.exists() else b""
            own = "\n".join(self.lines) + "\n"  # a class may be called as a folder whose name is not UTF-8
            write_atomically(self.kept, earlier + own.encode(errors="surrogateescape"))
            self.kept = None


def shared_cores(trainer: Trainer) -> list[str]:
    """Say how many threads a run on CPU computes with, and where other processes take the cores of these."""
    if trainer.strategy.root_device.type != "cpu":
        return []
    threads, load = torch.get_num_threads(), os.getloadavg()[0]
    line = f"threads  {threads} on {counted(cores(), 'core')}"
    if threads > 1 and load + threads > cores() + 1:  # one of the load is this process
        line += f"; the load is {load:.0f}, and threads that wait for a core slow every step: set OMP_NUM_THREADS=1"
    return [line]


def log_every_epoch(trainer: Trainer) -> None:
    """Let a run whose epochs are shorter than its logging interval log loss and learning rate once in each."""
    batches, most = trainer.num_training_batches, trainer.max_steps
    steps = min(batches / trainer.accumulate_grad_batches, most if most > 0 else math.inf)
    if trainer.log_every_n_steps > steps:
        trainer.log_every_n_steps = max(1, math.ceil(steps))


def plan_lines(
    trainer: Trainer, model: LightningModule, folder: Path | None = None, found: RunEstimate | None = None
) -> list[str]:
    """Return the lines that describe a run; its loaders are made here, its optimisers before."""
    trainer.fit_loop.setup_data()
    lines = [_net_line(model), *_data_lines(trainer), _steps_line(trainer, model), *data_facts(trainer, model)]
    lines.append(f"device   {device_name(trainer.strategy.root_device)}, precision {trainer.precision}")
    if isinstance(model, RecipeTrained):
        if is_partial(model.hparams) and not model.weights and not trainer.ckpt_path:
            lines.append("warning  most of the net is frozen as it begins, at random; give --model.weights")
        if model.device.type == "cuda":
            lines.append(f"engine   {model.engine}")
        lines.append(f"loss     {model.objective}")
    if found is not None and (said := estimate_line(found)):
        lines.append(said)
    if decay := decay_line(trainer.optimizers[0]) if trainer.optimizers else None:
        lines.append(f"decay    {decay}")
    accumulation, batches = trainer.accumulate_grad_batches, trainer.num_training_batches
    if accumulation > batches:
        lines.append(
            f"warning  accumulation {accumulation} exceeds the {counted(batches, 'batch')} of an epoch: one step each"
        )
    theirs = trainer.log_dir if trainer.logger else None  # without a logger, Lightning knows no folder
    if folder or theirs:
        lines.append(f"run      {folder or theirs}")
    return list(map(one_line, lines))


def _net_line(model: LightningModule) -> str:
    parameters = _parameters(model)
    if not isinstance(model, RecipeTrained):
        return f"net      {type(model).__name__}, {parameters}"
    cost = 2 * macs(model.config, model.hparams.image_size, model.hparams.num_classes) / 1e9
    name = described(model.config.variant, vars(model.config))
    return f"net      {name}, {parameters}, {cost:.3g} GFLOPs per image forward"


def _parameters(model: LightningModule) -> str:
    """How many parameters there are, and how many of them learn if not all do."""
    total = sum(parameter.numel() for parameter in model.parameters())
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    split = f" ({trained:,} trained, {total - trained:,} frozen)" if trained < total else ""
    return f"{total:,} parameters{split}"


def _data_lines(trainer: Trainer) -> list[str]:
    loader, devices, accumulation = trainer.train_dataloader, trainer.world_size, trainer.accumulate_grad_batches
    if not loader.batch_size:
        return []
    effective = loader.batch_size * devices * accumulation
    lines = [f"batch    {loader.batch_size} per device x {counted(devices, 'device')} x {accumulation} = {effective}"]
    if isinstance(loader.dataset, Sized):
        records, data = len(loader.dataset), trainer.datamodule
        dropped = max(records - trainer.num_training_batches * loader.batch_size * devices, 0)
        whole = data.train_set if isinstance(data, ImageData) else None
        of = f" of {len(whole)}" if whole is not None and len(whole) != records else ""
        equally = ", drawn equally from all classes" * (getattr(data, "sampler", "shuffled") == "balanced")
        images = "image" if records == 1 else "images"
        lines.append(f"data     {records}{of} training {images}, {dropped} dropped per epoch{equally}")
    return lines


def _steps_line(trainer: Trainer, model: LightningModule) -> str:
    schedule = model.schedule if isinstance(model, RecipeTrained) else None
    decay = f", warm-up {schedule.warmup_steps}, then {schedule.decay}" if schedule else ""
    batches, steps = trainer.num_training_batches, trainer.estimated_stepping_batches
    epochs = "epochs"
    if trainer.max_epochs and trainer.max_epochs > 0:
        most = math.ceil(batches / trainer.accumulate_grad_batches) if batches < math.inf else math.inf
        begun = math.ceil(steps / most) if steps < math.inf and most < math.inf else trainer.max_epochs
        epochs = counted(min(trainer.max_epochs, begun), "epoch")  # max_steps may end the run before
    length = f", {counted(int(steps), 'optimiser step')}" if steps < math.inf else " until the run is ended"
    return f"steps    {epochs} of {counted(batches, 'batch') if batches < math.inf else 'batches'}{length}{decay}"
