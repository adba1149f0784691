"""The scores of a checkpoint as a JSON file in its run folder, beside what is printed."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn

from vit_lightning.callbacks.scored_data import stem
from vit_lightning.errors import InputError
from vit_lightning.files import write_atomically
from vit_lightning.training.recipe import RecipeModel


class ScoreFile(Callback):
    """Write test.json or validate.json: scores, images, checkpoint, data and date. A later call replaces it.

    Data that are not the run's own have test-2.json, test-3.json, ...

    Args:
        folder: The run folder.
        checkpoint: What was scored.
        source: What the data are known by: root, tables and split.
        is_own: Whether they are the run's own.
    """

    def __init__(
        self, folder: Path | None, checkpoint: str | None, source: Mapping[str, str] | None = None, is_own: bool = True
    ) -> None:
        self.folder = folder
        self.checkpoint = checkpoint
        self.source = dict(source or {})
        self.is_own = is_own

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == "validate":
            self._write("validate", "val", trainer, pl_module)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write("test", "test", trainer, pl_module)

    def _write(self, verb: str, split: str, trainer: Trainer, model: LightningModule) -> None:
        if not trainer.is_global_zero or self.folder is None:
            return
        scores = {name: float(value) for name, value in trainer.callback_metrics.items()}
        facts: dict[str, Any] = {"verb": verb, "scores": scores, "images": _images(model, split)}
        data = type(trainer.datamodule)  # type: ignore[attr-defined]  # set by Lightning from outside
        facts["checkpoint"] = str(self.checkpoint and Path(self.checkpoint).resolve())
        facts["data"] = f"{data.__module__}.{data.__qualname__}"
        if self.source:
            facts["source"] = self.source
        facts["date"] = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            name = stem(self.folder, verb, self.source, self.is_own)
            write_atomically(self.folder / f"{name}.json", json.dumps(facts, indent=2) + "\n")
        except InputError as error:  # the scores are printed all the same
            rank_zero_warn(str(error))


def _images(model: LightningModule, split: str) -> int | None:
    """How many images the scores are of; None where a model does not count them."""
    return model.scores[split]["loss"].counted if isinstance(model, RecipeModel) else None
