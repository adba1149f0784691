"""Scores by class, the confusion matrix and the mistakes, as tables and a picture beside a run or its checkpoint."""

import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn
from torch.utils.data import DataLoader

from vit_lightning.callbacks.score_file import members_of
from vit_lightning.callbacks.score_names import put_aside, stem
from vit_lightning.classifier import Classifier
from vit_lightning.data.image_set import keys_of
from vit_lightning.data.sampling import EvalSampler
from vit_lightning.errors import InputError
from vit_lightning.evaluation.confusion import Confusion, Mistakes
from vit_lightning.evaluation.scores import TABLES
from vit_lightning.files import csv_text, write_atomically
from vit_lightning.inspection.drawing.style import printable
from vit_lightning.training.scoring import Summed

FILES = ("classes.csv", "confusion.csv", "confusion.png", "mistakes.csv")
"""How the names of all tables end."""
MOST_IN_A_SQUARE = 1_000
"""Classes whose confusion matrix is written and drawn whole; of more, only its entries that are not 0 are written."""
MOST_NAMED = 40
"""Classes whose names have room beside the picture."""
LONGEST = 24
"""Letters of such a name."""


class ClassTables(Callback):
    """Write VERB.classes.csv, VERB.confusion.csv, VERB.confusion.png and VERB.mistakes.csv. A later call replaces them.

    Those that it does not make anew are kept as VERB.confusion.earlier-1.csv and so on.

    Files of several nets together begin with VERB.mean, as `score_names.stem` says.
    The picture needs matplotlib. What --model.scores names is written beside the checkpoint where there is no run.

    Args:
        folder: The run folder; None: there is none.
        checkpoint: What is scored.
        source: What the data are known by, as for ScoreFile.
        is_own: Whether they are the run's own.
    """

    def __init__(
        self, folder: Path | None, checkpoint: str | None, source: Mapping[str, str] | None = None, is_own: bool = True
    ) -> None:
        self.folder = folder
        self.checkpoint = checkpoint
        self.source = dict(source or {})
        self.is_own = is_own
        self.written: list[Path] = []
        """What was written, which ScoreTable prints."""
        self.kept: list[str] = []
        """What is to be said of files that were put aside, likewise."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == "validate":
            self._write("validate", "val", trainer, pl_module)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write("test", "test", trainer, pl_module)

    def _write(self, verb: str, split: str, trainer: Trainer, model: LightningModule) -> None:
        self.written, self.kept = [], []
        summed = model.split_scores[split].summed if isinstance(model, Classifier) else None
        if not trainer.is_global_zero:
            return
        asked = getattr(model.hparams, "scores", None)
        folder = self.folder
        if folder is None and asked is not None:
            folder = Path(self.checkpoint).parent if self.checkpoint else Path()
        if folder is None:
            return
        begins = stem(folder, verb, members_of(model), self.source, self.is_own)
        wanted = [name for name in TABLES if asked is None or name in asked] if summed is not None else []
        try:
            contents = self._contents(split, trainer, model, wanted) if wanted else {}
            if self.folder is not None:  # those of an earlier call would lie beside the scores of this one
                names = [name for name in FILES if name not in contents]
                self.kept = put_aside(folder / f"{begins}.{name}" for name in names)
            for name, content in contents.items():
                path = folder / f"{begins}.{name}"
                write_atomically(path, content)
                self.written.append(path)
        except InputError as error:  # the scores are printed all the same
            rank_zero_warn(str(error))

    def _contents(self, split: str, trainer: Trainer, model: Classifier, wanted: Sequence[str]) -> dict[str, bytes]:
        """Return the tables that are wanted, by the ends of their names."""
        summed = model.split_scores[split].summed
        names = [str(name) for name in model.scored_names(split) or range(len(summed.counts.support))]
        keys = scored_keys(trainer) if "mistakes" in wanted and summed.mistakes else None
        return dict(_contents(summed, names, wanted, keys))


def scored_keys(trainer: Trainer) -> Sequence[Any] | None:
    """Return the name of each image that is scored, in the order of the data; None where that order is unknown."""
    loaders = trainer.test_dataloaders if trainer.state.fn == "test" else trainer.val_dataloaders
    loader = loaders[0] if isinstance(loaders, list | tuple) else loaders
    is_ours = isinstance(loader, DataLoader) and isinstance(loader.sampler, EvalSampler)
    return keys_of(loader.dataset) if is_ours else None


def _contents(
    summed: Summed, names: Sequence[str], wanted: Iterable[str], keys: Sequence[Any] | None
) -> Iterable[tuple[str, bytes]]:
    """Yield the files that are wanted: how each name ends, and what it holds."""
    if "classes" in wanted:
        yield "classes.csv", class_table(summed, names)
    if "confusion" in wanted and summed.confusion is not None:
        yield "confusion.csv", confusion_table(summed.confusion, names)
        if find_spec("matplotlib") is not None and len(names) <= MOST_IN_A_SQUARE:
            yield "confusion.png", confusion_picture(summed.confusion, names)
    if summed.mistakes is not None and keys is not None:
        yield "mistakes.csv", mistake_table(summed.mistakes, names, keys)


def class_table(summed: Summed, names: Sequence[str]) -> bytes:
    """Return a row per class: images, precision, recall and F1; of several labels the rankings too.

    A share of no image is left empty.
    """
    counts, ranking = summed.counts, summed.ranking
    columns: dict[str, np.ndarray] = {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1}
    if ranking is not None:
        columns |= {"average_precision": ranking.average_precision, "auroc": ranking.auroc}
    rows = [
        [name, int(support), *("" if np.isnan(value) else f"{value:.6f}" for value in values)]
        for name, support, *values in zip(names, counts.support, *columns.values(), strict=True)
    ]
    return _csv([["class", "support", *columns], *rows])


def confusion_table(confusion: Confusion, names: Sequence[str]) -> bytes:
    """Return a row per true class and a column per predicted one; of many classes a row per entry that is not 0."""
    if confusion.classes <= MOST_IN_A_SQUARE:
        return _csv(
            [["true", *names], *([name, *row] for name, row in zip(names, confusion.matrix().tolist(), strict=True))]
        )
    entries = zip(confusion.true, confusion.predicted, confusion.images, strict=True)
    rows = [[names[true], names[predicted], int(images)] for true, predicted, images in entries]
    return _csv([["true", "predicted", "images"], *rows])


def mistake_table(mistakes: Mistakes, names: Sequence[str], keys: Sequence[Any]) -> bytes:
    """Return a row per image that is predicted wrongly, the most confident first."""
    columns = mistakes.images, mistakes.true, mistakes.predicted, mistakes.confidence
    rows = [
        [str(keys[image]), names[true], names[predicted], f"{confidence:.6f}"]
        for image, true, predicted, confidence in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return _csv([["image", "label", "predicted", "probability"], *rows])


def confusion_picture(confusion: Confusion, names: Sequence[str]) -> bytes:
    """Return a PNG of the shares of each true class that are predicted as each class."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    matrix = confusion.matrix()
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    canvas = Figure(figsize=(6.4, 5.6), layout="constrained")
    axes = canvas.subplots()
    drawn = axes.imshow(shares, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    canvas.colorbar(drawn, ax=axes, format=PercentFormatter(1), label="share of the true class")
    axes.set(xlabel="predicted class", ylabel="true class")
    if len(names) <= MOST_NAMED:
        shown = [printable(name, LONGEST) for name in names]
        axes.set_xticks(range(len(names)), shown, rotation=90, fontsize=7, parse_math=False)
        axes.set_yticks(range(len(names)), shown, fontsize=7, parse_math=False)
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of letters that the font lacks
        canvas.savefig(picture, format="png", dpi=150)
    return picture.getvalue()


def _csv(rows: list[list[Any]]) -> bytes:
    return csv_text(rows).encode(errors="surrogateescape")
