"""What validate and test print: a row per set, with its images, its scores as percentages, and the time."""

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.data import extract_batch_size
from rich import box
from rich.table import Table

from vit_lightning.callbacks.class_tables import ClassTables
from vit_lightning.callbacks.figures import NOT_SHOWN, has_several_labels, speed
from vit_lightning.callbacks.score_file import ScoreFile, members_of
from vit_lightning.classifier import Classifier
from vit_lightning.evaluation.scores import SCORES, of_set, score_of
from vit_lightning.terminal import console, duration, near, number, report
from vit_lightning.terminal import counted as quantity
from vit_lightning.training.recipe import RecipeModel

SPLITS = {"validate": ("val", "validation"), "test": ("test", "test")}
"""Verbs that score: how the names of their metrics begin, and what a person calls the set."""
TOP = 5
"""Classes of which each image's first five guesses hold every one."""
NUMBERED = re.compile(r"(.+)/dataloader_idx_(\d+)")
"""How Lightning names the metrics of several sets that a model from elsewhere logs."""


class ScoreTable(Callback):
    """Print the scores in place of Lightning's table, which has neither percentages nor numbers of images."""

    def __init__(self) -> None:
        self._wanted = True
        self._began = 0.0
        self._images: Counter[int] = Counter()
        self._several = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        loop = trainer.test_loop if stage == "test" else trainer.validate_loop
        self._wanted, loop.verbose = loop.verbose, False

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin()

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin()

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._images.clear()

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._count(trainer, batch, dataloader_idx)

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self._count(trainer, batch, dataloader_idx)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._show(trainer, pl_module)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._show(trainer, pl_module)

    def _count(self, trainer: Trainer, batch: Any, dataloader_idx: int) -> None:
        if dataloader_idx == 0:  # a further set, such as ReaL, may have several where this one has not
            self._several = has_several_labels(batch)
        own = isinstance(batch, tuple | list)
        self._images[dataloader_idx] += (len(batch[0]) if own else extract_batch_size(batch)) * trainer.world_size

    def _show(self, trainer: Trainer, model: LightningModule) -> None:
        if not self._wanted or not trainer.is_global_zero:
            return
        seconds = time.monotonic() - self._began
        split, name = SPLITS[trainer.state.fn or "test"]
        values = {key.removeprefix(f"{split}/"): float(value) for key, value in trainer.callback_metrics.items()}
        if isinstance(model, RecipeModel):
            if model.hparams.num_classes <= TOP:
                values.pop("top5", None)  # it says nothing there
            counted = {key: model.scores[split][key].counted for key in values if key in model.scores[split]}
            alone = model.answering.alone.get(split, {}).values() if isinstance(model, Classifier) else ()
            members = [(str(near(one.source)), one.scores) for one in alone]
            shown = score_table(name, values, counted, model.further_sets, self._several, members)
            images = sum({key: counted[key] for key in ("loss", *model.further_sets) if key in counted}.values())
        else:
            shown, images = foreign_table(name, values, self._images), self._images.total()
        if shown.row_count:
            where = console()
            where.print(shown if where.measure(shown).maximum <= where.width else upright(shown))
        for note in model.split_scores[split].notes if isinstance(model, Classifier) else ():
            report(f"note     {note}")
        if trainer.ckpt_path and not members_of(model):
            report(f"scored   {near(trainer.ckpt_path)}")
        writers = [callback for callback in trainer.callbacks if isinstance(callback, ScoreFile | ClassTables)]
        for line in (line for writer in writers for line in writer.kept):
            report(line)
        for path in (path for writer in writers if isinstance(writer, ScoreFile) for path in writer.written):
            report(f"wrote    {near(path)}")
        files = [path for writer in writers if isinstance(writer, ClassTables) for path in writer.written]
        if files:
            report(f"tables   {', '.join([str(near(files[0])), *(path.name for path in files[1:])])}")
        rate = speed(images / max(seconds, 1e-9))
        report(f"time     {duration(seconds)}, {rate} on {quantity(trainer.world_size, 'device')}")


def score_table(
    name: str,
    values: dict[str, float],
    counted: dict[str, int],
    further: list[str],
    several: bool,
    members: Sequence[tuple[str, Mapping[str, float]]] = (),
) -> Table:
    """Return the scores of our models, and behind them what else is logged of the set, under its own names.

    Args:
        name: What a person calls the set.
        values: The scores, by the last part of their names.
        counted: Images that have a label, by score.
        further: Names of the further sets; their top-1 accuracy has that name, and other scores begin with it.
        several: Whether images have several labels.
        members: What each net of an ensemble is called, and its scores.
    """
    main = [key for key in SCORES if key in values and key not in further]
    own = [key for key in values if key not in SCORES and key.partition("/")[0] not in further]
    own = [key for key in own if not key.startswith(NOT_SHOWN) and not NUMBERED.fullmatch(key)]
    shown = _table("set", "images", *(SCORES[key].name_for(several) for key in main), *own)
    cells = [*(SCORES[key].said(values[key]) for key in main), *(number(values[key]) for key in own)]
    shown.add_row(name, f"{counted[main[0]]:,}" if main else "", *cells)
    for called, scores in members:
        cells = [SCORES[key].said(scores[key]) if key in scores else "" for key in main]
        shown.add_row(f"  {called}", f"{counted[main[0]]:,}" if main else "", *cells)
    for key in (key for key in further if key in values):
        score, names = score_of(key), {column: of_set(key, column) for column in main}
        cells = [SCORES[column].said(values[own]) if own in values else "" for column, own in names.items()]
        shown.add_row(score.short if score else key, f"{counted[key]:,}", *cells)
    return shown


def foreign_table(name: str, values: dict[str, float], images: Counter[int]) -> Table:
    """Return the metrics of a model from elsewhere, under its own names: a row for each of its sets."""
    rows: dict[int, dict[str, float]] = {number: {} for number in images}
    for key, value in values.items():
        found = NUMBERED.fullmatch(key)
        rows.setdefault(int(found[2]) if found else 0, {})[found[1] if found else key] = value
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    shown = _table("set", "images", *columns)
    for place, row in sorted(rows.items()):
        label = name if len(rows) == 1 else f"{name} {place + 1}"
        shown.add_row(label, f"{images[place]:,}", *(number(row[key]) if key in row else "" for key in columns))
    return shown


def upright(table: Table) -> Table:
    """Return a table with a row for each column, for a terminal that is too narrow."""
    first, *others = table.columns
    shown = _table(first.header, *first.cells)
    for column in others:
        shown.add_row(column.header, *column.cells)
    return shown


def _table(*columns: str) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, column in enumerate(columns):
        shown.add_column(column, justify="right" if place else "left", no_wrap=True)
    return shown
