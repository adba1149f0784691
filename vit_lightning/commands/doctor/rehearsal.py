"""A fit that ends before its first optimiser step: what it refuses, a fit refuses."""

from contextlib import redirect_stdout
from io import StringIO
from typing import NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.callbacks.progress import ProgressBar

from vit_lightning.callbacks.timely_end import TimelyEnd
from vit_lightning.commands.doctor.findings import TOO_FEW, Finding
from vit_lightning.compute.gpu_memory import is_exhausted
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.private_api import use_one_device
from vit_lightning.runs.checkpoints import LastCheckpoint
from vit_lightning.terminal import counted

LEFT_OUT = (LastCheckpoint, ProgressBar, TimelyEnd)
"""Callbacks that save, show or end what is no run."""
WARNING = "warning  "
"""How a line that a fit prints begins, if it warns."""


class FirstStepReached(Exception):  # noqa: N818  # it is no error
    """A fit has come to its first step."""


class _EndBeforeFirstBatch(Callback):
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        raise FirstStepReached


class _EndBeforeFirstStep(Callback):
    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        raise FirstStepReached


class Rehearsal(NamedTuple):
    """What a fit would say."""

    findings: list[Finding]
    failure: Exception | None = None
    """An error that is no InputError, which would end a fit too."""


def rehearse(
    trainer: Trainer, model: LightningModule, data: ImageDataModule, batches: int, steps: bool = True
) -> Rehearsal:
    """Fit up to the gradients of the first batch, on one device; write nothing, and skip images that cannot be read.

    Args:
        trainer: The trainer of the run, which is of no further use afterwards.
        model: Its model.
        data: Its data, which are set up anew.
        batches: Training batches of an epoch on each of the run's devices.
        steps: Whether a batch is tried, which takes the time of the net; false: end before the first one.
    """
    _prepare(trainer, data, batches, steps)
    said, found = StringIO(), []
    failure: Exception | None = None
    try:
        with redirect_stdout(said):
            trainer.fit(model, datamodule=data)
    except FirstStepReached:
        pass
    except InputError as error:
        found.append(Finding("error", "batch" if TOO_FEW in str(error) else "config", str(error)))
    except (RuntimeError, MemoryError) as error:
        if is_exhausted(error):
            text = f"the memory here does not suffice for {counted(data.batch_size, 'image')} a step"
            found.append(Finding("note", "memory", text, "benchmark --batches auto finds the largest batch"))
        else:
            failure = error
    except Exception as error:
        failure = error
    lines = dict.fromkeys(said.getvalue().splitlines())
    found += [Finding("warning", "run", line.removeprefix(WARNING)) for line in lines if line.startswith(WARNING)]
    return Rehearsal(found, failure)


def _prepare(trainer: Trainer, data: ImageDataModule, batches: int, steps: bool) -> None:
    if trainer.world_size > 1:
        use_one_device(trainer)
        trainer.limit_train_batches = batches
    trainer.loggers = []
    trainer.num_sanity_val_steps = (trainer.num_sanity_val_steps or 1) if steps else 0
    kept: list[Callback] = [callback for callback in trainer.callbacks if not isinstance(callback, LEFT_OUT)]
    for callback in kept:
        if isinstance(callback, ModelCheckpoint):
            callback.save_on_exception = False
    trainer.callbacks = [*kept, _EndBeforeFirstStep() if steps else _EndBeforeFirstBatch()]
    data.faults = None
    data.num_workers = min(data.workers, 1)
    data.on_error, data.max_broken = "skip", 1.0  # the survey has named them
