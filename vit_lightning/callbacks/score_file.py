"""The scores of a checkpoint as a JSON file in its run folder, beside what is printed."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn

from vit_lightning.callbacks.score_names import put_aside, stem
from vit_lightning.callbacks.scored_sets import scored_sets
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.files import write_atomically
from vit_lightning.runs.checkpoint_names import fingerprint
from vit_lightning.training.recipe import RecipeModel


class ScoreFile(Callback):
    """Write test.json or validate.json: scores, images, checkpoint, data and date. A later call replaces it.

    One with scores that the later call lacks is kept as test.earlier-1.json and so on.

    Of further sets, `further_images` has the number of images by name. `sets` says of each set which images these
    are, as `scored_sets` does; `flip` is there where mirror images have answered too.

    Several nets together have test.mean.json, with the checkpoint and the scores of each. Another group of nets has
    test.mean-2.json. Data that are not the run's own have test-2.json, test-3.json, ...

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
        self.kept: list[str] = []
        """What is to be said of a file that was put aside, which ScoreTable prints."""
        self.written: list[Path] = []
        """The file, which ScoreTable names."""

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
        if further := _further_images(model, split):
            facts["further_images"] = further
        data = type(trainer.datamodule)  # type: ignore[attr-defined]  # set by Lightning from outside
        members = members_of(model)
        if not members:
            facts |= _checkpoint(str(self.checkpoint and Path(self.checkpoint).resolve()))
        if isinstance(model, Classifier) and model.hparams.flip:
            facts["flip"] = True
        facts |= _alone(model, split, members)
        facts["data"] = f"{data.__module__}.{data.__qualname__}"
        if self.source:
            facts["source"] = self.source
        facts["sets"] = scored_sets(trainer.datamodule, split)  # type: ignore[attr-defined]
        facts["date"] = datetime.now(UTC).isoformat(timespec="seconds")
        self.written = []
        path = self.folder / f"{stem(self.folder, verb, members, self.source, self.is_own)}.json"
        try:
            self.kept = put_aside([path] if _scores_of(path) - scores.keys() else [])
            write_atomically(path, json.dumps(facts, indent=2) + "\n")
            self.written = [path]
        except InputError as error:  # the scores are printed all the same
            rank_zero_warn(str(error))


def _scores_of(path: Path) -> set[str]:
    """Return the names of the scores that a file of an earlier call holds."""
    try:
        return set(json.loads(path.read_text())["scores"]) if path.is_file() else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def members_of(model: LightningModule) -> list[str]:
    """Return the checkpoints that answer together, whole paths; empty where one answers."""
    sources = model.answering.sources if isinstance(model, Classifier) else []
    return [source if "://" in source else str(Path(source).expanduser().resolve()) for source in sources]


def _alone(model: LightningModule, split: str, members: list[str]) -> dict[str, Any]:
    """Return the scores of each answer by itself, of several nets or views together."""
    alone = model.answering.alone.get(split, {}).values() if isinstance(model, Classifier) else ()
    scores = [{f"{split}/{name}": value for name, value in one.scores.items()} for one in alone]
    if members:
        paired = zip(members, scores, strict=True)
        return {"members": [_checkpoint(path) | {"scores": each} for path, each in paired]}
    return {"without flip": scores[0]} if scores else {}


def _checkpoint(path: str) -> dict[str, str]:
    """Return where a checkpoint lies, and which state it is, as far as that can be told."""
    found = None if "://" in path else fingerprint(Path(path))
    return {"checkpoint": path} | ({"fingerprint": found} if found else {})


def _images(model: LightningModule, split: str) -> int | None:
    """How many images the scores are of; None where a model does not count them."""
    return model.scores[split]["loss"].counted if isinstance(model, RecipeModel) else None


def _further_images(model: LightningModule, split: str) -> dict[str, int]:
    """How many images of each further set the scores are of."""
    if not isinstance(model, Classifier):
        return {}
    means = model.scores[split]
    return {name: means[name].counted for name in model.further_sets if name in means}
