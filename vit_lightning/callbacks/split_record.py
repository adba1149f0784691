"""Which images a run trains on and holds out, as a file in its folder."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_only

from vit_lightning.callbacks.scored_sets import OWN, scored_sets
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet, keys_of, labels_of
from vit_lightning.files import write_atomically
from vit_lightning.runs.folders import SPLITS


class SplitRecord(Callback):
    """Write splits.json into the run folder: of each set its images, a hash of their keys, and the classes it lacks.

    Of data whose splits are not published it has the validation images alone, as `scored_sets` knows them: other sets
    may have to read every image for its key. A part of the run that goes on with other ones writes them anew.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / SPLITS
        self.written = False

    @rank_zero_only
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.written:
            return
        self.written = True
        data = trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
        if not isinstance(data, ImageDataModule):
            return
        if not data.has_published_splits:
            facts = _validated(data)
        elif self.path.exists():
            return
        else:
            sets = {"train": data.train_subset, "val": data.val_set, "test": data.test_set}
            facts = {
                split: split_facts(images, data.class_names) for split, images in sets.items() if images is not None
            }
        if facts:
            write_atomically(self.path, json.dumps(facts, indent=1) + "\n")
        else:
            self.path.unlink(missing_ok=True)  # it would be of what another part has validated on


def _validated(data: ImageDataModule) -> dict[str, Any]:
    """Return what the validation images of data without published splits are known by, if by anything."""
    known = scored_sets(data, "val").get(OWN)
    return {"val": {"images": len(data.val_set), **known}} if known and known["sha256"] and data.val_set else {}


def split_facts(images: ImageSet, class_names: list[str]) -> dict[str, Any]:
    """Return the number of a set's images, a hash of their keys in order, and the names of the classes without any.

    The classes are None where not every image has one class that is known beforehand.
    """
    digest = hashlib.sha256()
    for key in keys_of(images):
        digest.update(f"{key}\n".encode(errors="surrogateescape"))
    facts: dict[str, Any] = {"images": len(images), "sha256": digest.hexdigest(), "absent_classes": None}
    labels = labels_of(images)
    if labels is not None and labels.ndim == 1 and labels.dtype.kind in "iu":
        present = set(np.unique(labels).tolist())
        facts["absent_classes"] = [name for number, name in enumerate(class_names) if number not in present]
    return facts
