"""The verb `doctor`: one pass over data, config and machine, with a remedy for everything that it finds."""

import logging
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from json import dumps
from pathlib import Path

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning_utilities.core import rank_zero

from vit_lightning.classifier import Classifier
from vit_lightning.commands.doctor import duplicates, findings, suspects, windows
from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.machine import Machine, machine
from vit_lightning.commands.doctor.rehearsal import Rehearsal, rehearse
from vit_lightning.commands.doctor.survey import Survey, survey
from vit_lightning.contracts import RecipeTrained
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import labels_of
from vit_lightning.data.images import is_hidden
from vit_lightning.data.loaders import names_at_odds, needs_class
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.window import HOLD_SCALED
from vit_lightning.data.window_fit import OF_VALUES
from vit_lightning.errors import InputError
from vit_lightning.files import check_place, write_atomically
from vit_lightning.models import build
from vit_lightning.models.variants import described
from vit_lightning.predictor import Predictor
from vit_lightning.terminal import counted, progress, report
from vit_lightning.training.net_model import SILENT, NetModel
from vit_lightning.weights.source import is_at_hand

SETS = ("train_set", "val_set", "test_set")
SPLITS = {"training": "train_subset", "validation": "val_set", "test": "test_set"}
SEVERITIES = ("error", "warning", "note")
SHOWN = 3
"""Files or classes that a finding names on the screen."""


def doctor(
    trainer: Trainer,
    model: LightningModule,
    datamodule: LightningDataModule,
    *,
    json: Path | None = None,
    suspect_labels: bool = False,
) -> None:
    """Look at every image, the config and the machine; say what is wrong and how to mend it.

    A fit is rehearsed up to the gradients of its first batch, in the run's own settings on one device, and nothing is
    written. Where the data have errors, it ends before that batch. Of a run with --data.test and no --data.train, only
    what the verb test would read is looked at.

    The exit status is 1 if there are errors, 0 if there are warnings and notes at most.

    Args:
        trainer: The trainer that a run with these flags would have.
        model: Its model.
        datamodule: Its data.
        json: File for all findings, with every image that they name.
        suspect_labels: Name training images whose nearest neighbours, in the features of the net of --model.weights,
            show another class.
    """
    if not isinstance(datamodule, ImageDataModule):
        raise InputError(f"doctor knows data that subclass ImageDataModule, which {type(datamodule).__name__} does not")
    if not trainer.is_global_zero:
        return
    if json is not None:
        check_place(json, "--json")
    predictor = _predictor(model, datamodule) if suspect_labels else None
    hardware = machine(trainer)
    with _each_line_once():
        surveys, found = _examine(trainer, model, datamodule)
        refused = bool(found)
        found += _data(model, datamodule, surveys, refused) + _machine(hardware, datamodule)
        seen = _by_severity(one for one in found if not _is_for_fit(one))
        _print(seen)
        rehearsal = _rehearsal(trainer, model, datamodule, surveys, refused, steps=not _are_errors(seen))
    later = [one for one in found if _is_for_fit(one) and not any(_is_for_fit(other) for other in rehearsal.findings)]
    later += [one for one in rehearsal.findings if not _is_said(one, seen)] + _statistics(model)
    if predictor and surveys and surveys[0].split == "training":
        later += _suspects(datamodule, surveys[0], predictor)
    _print(_by_severity(later))
    found = _by_severity(seen + later)
    report(_totals(found))
    if json is not None:
        counts = {one.split: {"images": len(one), "unreadable": len(one.faults)} for one in surveys}
        content = {
            "findings": [asdict(finding) for finding in found],
            "images": counts,
            "machine": asdict(hardware),
        }
        write_atomically(json, dumps(content, indent=2) + "\n")
    if errors := [finding for finding in found if finding.severity == "error"]:
        raise InputError(f"doctor found {len(errors)} error{'s' * (len(errors) > 1)}, listed above")
    if rehearsal.failure is not None:
        raise rehearsal.failure


@contextmanager
def _each_line_once() -> Iterator[None]:
    """Drop what the data say again when they are set up again."""
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        text, before = record.getMessage(), len(seen)
        seen.add(text)
        return len(seen) > before

    rank_zero.log.addFilter(is_new)
    try:
        yield
    finally:
        rank_zero.log.removeFilter(is_new)


def _examine(trainer: Trainer, model: LightningModule, data: ImageDataModule) -> tuple[list[Survey], list[Finding]]:
    """Set the data up as a run would, and look at every image, also at those that are there before an error."""
    trainer.strategy.connect(model)
    data.trainer = trainer
    found, data.faults = [], []
    try:
        data.prepare_data()
        for stage in _stages(data):
            data.setup(stage)
    except InputError as error:
        found.append(Finding("error", "data", str(error)))
    if said := names_at_odds(data, *SETS, *data.further_sets):
        found.append(Finding("error", "classes", said))
    texts = dict.fromkeys(map(str, data.faults))  # each set-up reports them
    found = [Finding("error", "data", text) for text in texts] + found
    form = PixelForm(data.channels)
    try:
        form = data.pixel_form
    except InputError as error:
        found.append(Finding("error", "data", str(error)))
    surveys, seen = [], []
    for split, attribute in SPLITS.items():
        images = getattr(data, attribute) if attribute in (data.scored_alone or SPLITS.values()) else None
        if images is None or any(images is other for other in seen):  # validation and test are one set in some data
            continue
        seen.append(images)
        try:
            labels_of(images)
        except InputError as error:
            found.append(Finding("error", "labels", str(error)))
            continue
        with progress(split, "looked at", len(images)) as advance:
            facts = data.num_classes or 0, data.workers, advance, form, needs_class(data)
            surveys.append(survey(images, split, *facts))
    return surveys, found


def _stages(data: ImageDataModule) -> Iterator[str]:
    """Yield for which stages data are set up: a fit and its test, or what is scored alone."""
    if not data.scored_alone:
        yield "predict" if data.num_classes is None else "fit"
    if data.test_set is None and data.scored_alone != ("val_set",):
        yield "test"
    if data.scored_alone == ("val_set",):
        yield "validate"


def _predictor(model: LightningModule, data: ImageDataModule) -> Predictor:
    """The net of --model.weights, at the image size of the data."""
    if not isinstance(model, Classifier) or not model.weights:
        raise InputError("--suspect_labels compares images by what a net sees; give --model.weights")
    transform = data.eval_transform()
    return Predictor(model.weights, net=model.chosen, image_size=data.image_size, transform=transform)


def _suspects(data: ImageDataModule, train: Survey, predictor: Predictor) -> list[Finding]:
    images = data.train_subset
    assert images is not None
    with progress("training", "embedded", int(train.readable.sum())) as advance:
        return suspects.suspects(images, train, data.class_names, predictor, advance)


def _answers(model: LightningModule, data: ImageDataModule) -> list[str]:
    """Flags of the run that answer an imbalance."""
    given = {
        f"--model.{name}": model.hparams.get(name) for name in ("class_weights", "focal_gamma", "logit_adjustment")
    }
    named = [f"{flag} {value}" if isinstance(value, str) else flag for flag, value in given.items() if value]
    return ["--data.sampler balanced"] * (data.sampler == "balanced") + named


def _data(model: LightningModule, data: ImageDataModule, surveys: list[Survey], refused: bool) -> list[Finding]:
    found = windows.windows(surveys) + [Finding("warning", "layout", text) for text in data.notices]
    mending, has_window = data.mending, data.window is not None or data.finds_window
    for one in surveys:
        found += findings.unreadable(one, data.on_error, data.max_broken, mending, refused)
        found += findings.wrong_labels(one)
        found += (
            findings.unusual(one, has_window)
            + findings.depth(one)
            + findings.scaled(one)
            + findings.sizes(one, data.size)
        )
        if one.split == "training":
            by_sigmoid = model.hparams.get("loss") == "sigmoid"
            found += findings.imbalance(one, data.class_names, _answers(model, data), by_sigmoid)
            found += findings.one_class(one, data.class_names)
    if surveys:
        looks = duplicates.duplicates, duplicates.contradictions, duplicates.likenesses
        for look in () if windows.hides(surveys) else looks:
            found += look(surveys, data.class_names)
        found += findings.absent_classes(surveys, data.class_names)
    held_out = [split for split in ("validation", "test") if getattr(data, SPLITS[split]) is not None]
    found += findings.trained_on(split for split in held_out if getattr(data, SPLITS[split]) is data.train_set)
    return found + findings.hidden(_hidden_folders(data.root))


def _rehearsed(model: LightningModule, data: ImageDataModule) -> str:
    """Say what is about to be tried, which may take minutes without a GPU."""
    net = type(model).__name__
    if isinstance(model, NetModel):
        is_theirs = bool(model.weights) and model.chosen.variant is None
        net = f"the net of {model.weights}" if is_theirs else described(model.config.variant, vars(model.config))
    y, x = data.size
    return f"rehearse the first step of a fit: {net}, {counted(data.batch_size, 'image')} of {x}x{y} pixels"


def _rehearsal(
    trainer: Trainer, model: LightningModule, data: ImageDataModule, surveys: list[Survey], refused: bool, steps: bool
) -> Rehearsal:
    """What a fit would say; without data that can be read, or weights that are here, as much of it as can be known."""
    if data.scored_alone:
        return Rehearsal([])
    train = next((len(one) for one in surveys if one.split == "training"), None)
    away = isinstance(model, RecipeTrained) and bool(model.weights) and not is_at_hand(model.weights)
    batches = _batches(trainer, train or 0, data.batch_size)
    if refused or away or data.num_classes is None or (not batches and trainer.world_size > 1):
        found = _config(trainer, model, data, surveys)
        if away:
            text = f"the weights {model.weights} are not on this machine, so that the net was not tried with them"
            found.append(Finding("note", "weights", text, "fit fetches them"))
        return Rehearsal(found)
    report(_rehearsed(model, data) if steps else "rehearse no step of a fit before the errors above are mended")
    return rehearse(trainer, model, data, batches, steps)


def _statistics(model: LightningModule) -> list[Finding]:
    """Whether weights leave open by which mean and std their images were normalised."""
    if not isinstance(model, Classifier) or model.normalised_by != SILENT:
        return []
    text = f"{model.weights} states neither mean nor std of its images: 0.5 is taken"
    return [Finding("warning", "weights", text, "give --data.mean and --data.std as the net was trained with")]


def _is_for_fit(finding: Finding) -> bool:
    """Whether a fit says what a finding says, at no cost and in its own words."""
    return finding.severity == "error" and finding.topic == "batch"


def _is_said(finding: Finding, seen: list[Finding]) -> bool:
    """Whether what a fit says is among what the survey has said of all images."""
    is_of_values = any(text in finding.text for text in (HOLD_SCALED, *OF_VALUES)) and any(
        one.topic == "depth" for one in seen
    )
    return is_of_values or any(f" {finding.text}".endswith(f" {item}") for one in seen for item in one.items)


def _are_errors(found: list[Finding]) -> bool:
    return any(finding.severity == "error" for finding in found)


def _by_severity(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _config(trainer: Trainer, model: LightningModule, data: ImageDataModule, surveys: list[Survey]) -> list[Finding]:
    """What building the net and planning the steps of a run would complain about."""
    if not isinstance(model, RecipeTrained):
        return []
    try:
        facts = [model.hparams.get(name) for name in ("image_size", "num_classes")]
        if None not in facts and not model.weights:
            with torch.device("meta"):
                build(model.config, *facts)
        steps = sum(_steps(trainer, len(one), data.batch_size) for one in surveys if one.split == "training")
        if steps and math.isfinite(steps):
            model.schedule.check(int(steps))
    except InputError as error:
        return [Finding("error", "config", str(error))]
    return []


def _machine(hardware: Machine, data: ImageDataModule) -> list[Finding]:
    y, x = data.size
    values = (data.channels or 3) * y * x * (4 if data.window is not None or data.finds_window else 1)
    sets = [getattr(data, attribute) for attribute in SPLITS.values()]
    found = findings.batch(len(sets[0]), data.batch_size, hardware) if sets[0] is not None else []
    found += findings.shared_memory(
        hardware, data.workers, values * data.batch_size, sum(s is not None for s in sets[:2])
    )
    return (
        found
        + findings.processors(hardware, data.workers)
        + findings.devices(hardware)
        + findings.slurm(hardware, data.workers)
    )


def _batches(trainer: Trainer, images: int, batch_size: int) -> int:
    """Training batches of an epoch on each device."""
    batches = images // (batch_size * trainer.num_devices * trainer.num_nodes)
    limit = trainer.limit_train_batches
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)


def _steps(trainer: Trainer, images: int, batch_size: int) -> float:
    """Optimiser steps of a fit."""
    batches = _batches(trainer, images, batch_size)
    epochs = trainer.max_epochs if trainer.max_epochs not in (None, -1) else math.inf
    steps = math.ceil(batches / trainer.accumulate_grad_batches) * epochs if batches else 0
    return min(steps, trainer.max_steps) if trainer.max_steps != -1 else steps


def _hidden_folders(root: object) -> Iterator[str]:
    """Yield the hidden folders below a root, which of own data may be anything."""
    for path, folders, _ in os.walk(root) if isinstance(root, str | os.PathLike) else ():
        yield from (os.path.join(os.path.relpath(path, root), folder) for folder in folders if is_hidden(folder))
        folders[:] = [folder for folder in folders if not is_hidden(folder)]


def _print(found: list[Finding]) -> None:
    if found:
        report("\n".join(_lines(found)))


def _totals(found: list[Finding]) -> str:
    counts = {severity: sum(finding.severity == severity for finding in found) for severity in SEVERITIES}
    return "doctor   " + ", ".join(f"{count} {severity}{'s' * (count != 1)}" for severity, count in counts.items())


def _lines(found: list[Finding]) -> Iterator[str]:
    for finding in found:
        shown = ", ".join(finding.items[:SHOWN]) + ", ..." * (len(finding.items) > SHOWN)
        yield f"{finding.severity:<8} {finding.text}" + f": {shown}" * bool(shown)
        if finding.fix:
            yield f"{'':<8} -> {finding.fix}"
