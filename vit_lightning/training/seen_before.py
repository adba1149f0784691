"""Images that the weights with which a run begins were trained on: its checkpoints keep them, and none is scored."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import keys_of
from vit_lightning.data.loaders import SPLITS
from vit_lightning.errors import InputError, listing
from vit_lightning.runs import folders
from vit_lightning.terminal import near
from vit_lightning.training import relabelled
from vit_lightning.training.seen_set import SeenSet

SCORED_BY = {"fit": ("val_set", "test_set"), "validate": ("val_set",), "test": ("test_set",)}
"""Sets that a verb scores, or that are kept for scoring the run."""


def seen_before(of_data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of all images that some weights were trained on, for a checkpoint.

    Args:
        of_data: what the weights keep of their data.

    Returns:
        `files`, hashes of own name and content `(2, n)`, and `records`, hashes of content; empty: nothing is known.

    Raises:
        InputError: what they keep is damaged.
    """
    seen = [of_data.get("seen_labels"), *(of_data.get("seen_by_members") or ())]
    return merged([*(one.get("train_set") for one in seen if isinstance(one, Mapping)), of_data.get("seen_before")])


def merged(sets: Iterable[Any]) -> dict[str, Any]:
    """Return what is known of the images of several sets, each of which a checkpoint keeps.

    Args:
        sets: from `seen_labels` or `seen_before`; None: nothing is known.

    Raises:
        InputError: one of them is damaged.
    """
    files, records = [np.empty((2, 0), np.int64)], set()
    for kept in filter(None, sets):
        if not _is_sound(kept):
            raise InputError("the weights are damaged: their seen_labels are not those of a set; give other weights")
        records.update(kept.get("records") or ())
        if (some := kept.get("files")) is not None:
            marks = some[-1] != relabelled.UNREADABLE
            files.append(torch.stack([some[0][marks], some[-1][marks]]).numpy())
    known = np.unique(np.concatenate(files, axis=1), axis=1)
    return {"files": torch.from_numpy(known), "records": sorted(records)} if known.size or records else {}


def check_unseen(before: Any, model: Any, weights: str | None = None) -> None:
    """Refuse to score images that a run's first weights were trained on, or warn where the user allows it.

    Args:
        before: from `seen_before`; empty: nothing is known.
        model: a PretrainedModel, whose trainer has set up the data.
        weights: where the weights come from; None: a checkpoint alone knows it.

    Raises:
        InputError: saying how many such images there are, one of them, and what to do.
    """
    trainer = model._trainer  # the attribute without the underscore raises where there is none
    data = None if trainer is None else trainer.datamodule
    if not before or not isinstance(data, ImageDataModule):
        return
    verb = str(trainer.state.fn and trainer.state.fn.value)
    scored = {SPLITS[name]: getattr(data, name) for name in SCORED_BY.get(verb, ())}
    if scored:
        scored |= data.further_sets
    counts, first = [], ""
    for name, images in scored.items():
        if places := places_seen_before(before, images):
            counts.append(f"{len(places)} of {len(images)} {name} images")
            first = first or str(keys_of(images)[places[0]])
    if not counts:
        return
    by = "the weights that the checkpoint began with"
    if weights:
        by = weights if "://" in weights else str(near(weights))
    said = f"{listing(counts)}, such as {first}, are images that {by} had been trained on"
    if model.hparams.get("weights_overlap") == "warn":
        rank_zero_warn(f"{said}, so that their scores say little of other images")
        return
    raise InputError(f"{said}; {_fix(data, weights)}, or give --model.weights_overlap warn to score them nevertheless")


def places_seen_before(before: Any, images: Any) -> list[int]:
    """Return where a set has images that are known to be among those of earlier training, in order.

    Args:
        before: from `seen_before`; empty: nothing is known.
        images: the set; None: there is none.

    Raises:
        InputError: what is kept is damaged.
    """
    if before and not _is_sound(before):
        raise InputError("the checkpoint is damaged: its seen_before is not that of a set; give another checkpoint")
    one = SeenSet.of(images) if before else None
    known = {"files": before.get("files"), "records": {*before.get("records", ())}} if before else {}
    return [] if one is None else sorted({*relabelled.places_of_trained(known, one)})


def _fix(data: ImageDataModule, weights: str | None) -> str:
    """Say how the images are held apart."""
    path = None if weights is None or "://" in weights else Path(weights).expanduser()
    folder = None if path is None else path if folders.is_run(path) else folders.folder_of(path)
    table = None if folder is None else folder / folders.SPLIT_TABLE
    if table is None or not table.is_file() or not hasattr(data, "unlisted"):
        return "leave them out, or put them among the training images"
    return f"give --data.split_file {near(table)} --data.unlisted train to keep the split and train on what was added"


def _is_sound(kept: Any) -> bool:
    """Tell whether this is what is kept of a training set."""
    if not isinstance(kept, Mapping):
        return False
    files, records = kept.get("files"), kept.get("records") or ()
    if not isinstance(records, Mapping | list | tuple) or not all(isinstance(one, int) for one in records):
        return False
    if files is None:
        return True
    rows = (2, relabelled.COLUMNS)
    return isinstance(files, Tensor) and files.dtype == torch.int64 and files.ndim == 2 and len(files) in rows
