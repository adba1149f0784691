"""What a fit has come to, printed at its end: scores, places, time, and the command that comes next."""

import shlex
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from vit_lightning.callbacks.figures import has_several_labels, speed, unit, waiting
from vit_lightning.callbacks.require import bounds
from vit_lightning.callbacks.run_estimate import cost_in_words
from vit_lightning.callbacks.throughput import Throughput
from vit_lightning.data import ImageDataModule
from vit_lightning.evaluation.scores import score_of
from vit_lightning.runs.checkpoint_names import LAST
from vit_lightning.runs.folders import CHECKPOINTS
from vit_lightning.terminal import counted, duration, near, number, report
from vit_lightning.training.recipe import RecipeModel


class RunSummary(Callback):
    """Print best and last score, where everything lies, the time, and the command to type next.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._began = time.monotonic()
        self._validated_step: int | None = None
        self._trained = False
        self._several = False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began = time.monotonic()

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        self._trained = True

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if dataloader_idx == 0:
            self._several = has_several_labels(batch)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._validated_step = trainer.global_step

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and trainer.global_step:
            report("\n".join(self._lines(trainer)))

    def _lines(self, trainer: Trainer) -> list[str]:
        checkpoint = next((one for one in trainer.checkpoint_callbacks if isinstance(one, ModelCheckpoint)), None)
        monitor = checkpoint.monitor if checkpoint else None
        best = Path(checkpoint.best_model_path) if checkpoint and checkpoint.best_model_path else None
        last = self.folder / CHECKPOINTS / LAST
        lines = []
        if checkpoint and best:
            score = checkpoint.best_model_score
            lines.append(
                f"best     {near(best)}{self._score(monitor, None if score is None else float(score), unit(trainer))}"
            )
        if last.exists():
            value = trainer.callback_metrics.get(monitor or "") if self._validated_step == trainer.global_step else None
            lines.append(
                f"last     {near(last)}{self._score(monitor, None if value is None else float(value), unit(trainer))}"
            )
        lines.append(f"time     {self._time(trainer)}")
        if throughput := _throughput(trainer):
            lines.append(f"cost     {cost_in_words(throughput.final_cost(), throughput.on_gpu)}")
        lines.append(f"run      {near(self.folder)}")
        if not self._trained:
            steps = counted(trainer.global_step, "optimiser step")
            lines.append(
                f"nothing was left to train: the checkpoint has {steps}; to go on, raise --trainer.max_epochs or "
                f"--trainer.max_steps{_horizon_flag(trainer)}"
            )
        failed = any(bound.falls_short(trainer) for bound in bounds(trainer))
        if not failed and (scored := self.folder if best else last if last.exists() else None):
            lines.append(f"next     {self._next(trainer, scored)}")
        return lines

    def _score(self, monitor: str | None, value: float | None, of: str) -> str:
        if monitor is None or value is None:
            return ""
        if (score := score_of(monitor)) is None:
            return f" ({monitor} {number(value)})"
        return f" ({f'{of} ' if of and score.is_share else ''}{score.name_for(self._several)} {score.said(value)})"

    def _time(self, trainer: Trainer) -> str:
        seconds = time.monotonic() - self._began
        parts = [duration(seconds)]
        if throughput := _throughput(trainer):
            whole = 3600 * throughput.device_hours / trainer.world_size
            if whole > seconds:  # the run was resumed
                parts.append(f"{duration(whole)} with what came before")
            figures = throughput.whole
            parts += [speed(figures["perf/images_per_s"]), waiting(figures["perf/data_wait"])] if figures else []
        return ", ".join(parts)

    def _next(self, trainer: Trainer, scored: Path) -> str:
        data = trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
        verb = "test"
        if isinstance(data, ImageDataModule) and data.test_set is None:
            verb = "report" if data.val_set is None else "validate"
        return shlex.join(["python", "-m", "vit_lightning", verb, str(near(scored))])


def _horizon_flag(trainer: Trainer) -> str:
    """Name the flag that a longer run needs where its learning rate depends on its length."""
    model = trainer.lightning_module
    follows = isinstance(model, RecipeModel) and model.schedule.follows_horizon()
    return ", and give --model.schedule.allow_horizon_change true, since the learning rate changes" * follows


def _throughput(trainer: Trainer) -> Throughput | None:
    return next((one for one in trainer.callbacks if isinstance(one, Throughput)), None)
