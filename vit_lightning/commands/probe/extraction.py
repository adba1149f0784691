"""Features of a datamodule's training and test images, computed once for each net and set, on all devices together."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule
from vit_lightning.data.frozen_images import FrozenImages
from vit_lightning.data.image_set import ImageSet, labels_of, record_of
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.loaders import check_names, frozen_loader, frozen_records
from vit_lightning.data.sampling import Draw
from vit_lightning.errors import InputError
from vit_lightning.evaluation.features import (
    SEVERAL,
    Collector,
    DamagedFile,
    FeatureCache,
    FeatureSet,
    check_finite,
    net_digest,
    set_digest,
)
from vit_lightning.models import NetConfig
from vit_lightning.terminal import near, progress, report
from vit_lightning.training.construction import nets_built_by_trainers
from vit_lightning.training.data_facts import NORMALISATION
from vit_lightning.training.gathering import gathered
from vit_lightning.training.recipe import RecipeModel
from vit_lightning.weights import open_weights

LOOKED_AT = 16
"""Images, spread over a set, whose pixels are part of its digest."""
CLASSES_LOOKED_AT = 128
"""Classes, the first image of each of which is looked at too."""
FILES_LOOKED_AT = 2**14
"""Image files, spread over a set, whose sizes and times are part of its digest."""


class Extracted(NamedTuple):
    """A set's features, and what they took."""

    found: FeatureSet
    seconds: float | None
    """None: they come from a file."""


class ProbeData(FrozenImages):
    """Training and test images of a datamodule, none of them varied.

    Args:
        data: the datamodule.
        check: refuses labels that cannot be probed: those of the training images, of the others, and what these are
            called. It is asked before anything is computed, where the sets know all their labels.
    """

    def __init__(self, data: ImageDataModule, check: Callable[[np.ndarray, np.ndarray, str], None]) -> None:
        super().__init__(data)
        self.check = check
        self.sets: dict[str, ImageSet] = {}
        """Training images and those that are scored, by what they are called; after `setup`."""
        self.to_load: Callable[[], list[str]] = lambda: list(self.sets)
        """Names of those whose features are not known yet."""
        self._unread: dict[str, Tensor] = {}
        """Which images of a set could not be read for its digest, and have been named."""

    def setup(self, stage: str) -> None:
        """Find the images.

        Raises:
            InputError: there are none to train on, or none to score.
        """
        data, data.trainer = self.data, self.trainer
        data.setup("fit")
        if data.test_set is None:
            data.setup("test")
        name = type(data).__name__
        split, scored = ("test", data.test_set) if data.test_set is not None else ("validation", data.val_set)
        if data.train_subset is None or not len(data.train_subset):
            raise InputError(f"{name} has no training images, on whose features a probe is fitted; give other data")
        if scored is None or not len(scored):
            raise InputError(f"{name} has neither test nor validation images, which a probe scores; give other data")
        check_names(data, "train_set", "val_set" if data.test_set is None else "test_set")
        self.sets = {"training": data.train_subset, split: scored}
        labels = [labels_of(images) for images in self.sets.values()]
        if any(known is not None and known.ndim > 1 for known in labels):
            raise InputError(SEVERAL)
        if labels[0] is not None and labels[1] is not None:
            self.check(labels[0], labels[1], split)

    def predict_dataloader(self) -> list[DataLoader]:
        return [self._loader(split) for split in self.to_load()]

    def _loader(self, split: str) -> DataLoader:
        """Return the loader of a set, which names no image again."""
        loader = frozen_loader(self.data, self.sets[split], split)
        skipped = getattr(loader.dataset, "skipped", None)
        if skipped is not None and split in self._unread:
            skipped.flags |= self._unread[split]
        return loader

    def digest(self, split: str) -> str:
        """Return what stands for a set as it is seen."""
        data, images = self.data, self.sets[split]
        records = frozen_records(data, images, split)
        seen = [records[Draw(index, position=index)][0] for index in looked_at(images)]
        if records.skipped is not None:
            self._unread[split] = records.skipped.flags
        kind = type(data)
        facts = {"data": f"{kind.__module__}.{kind.__qualname__}", "root": str(data.root), "size": data.size}
        facts |= {"on_error": data.on_error, "classes": list(data.class_names), "files": file_stamps(images)}
        return set_digest(images, torch.stack([each.to(seen[0]) for each in seen]), facts)


class FrozenNet(LightningModule):
    """A net whose features of a datamodule's images are computed, for a Trainer's predict.

    Args:
        model: what has, or will have, the net.
        data: the images.
        folder: where features are kept.
        shows: whether progress is shown.
    """

    def __init__(self, model: RecipeModel, data: ProbeData, folder: Path, shows: bool = True) -> None:
        super().__init__()
        self.model = model
        self.data, self.folder, self.shows = data, folder, shows
        self.extracted: dict[str, Extracted] = {}
        """Each set's features, on the first process; filled by predict."""
        self._digests: dict[str, str] = {}
        self._left: list[str] = []
        self._showing = ExitStack()

    def configure_model(self) -> None:
        self.model.configure_model()

    def setup(self, stage: str) -> None:
        """Ask for the loaders of what no file holds, once the net is there."""
        self.data.to_load = self._not_kept

    def _not_kept(self) -> list[str]:
        found: list[str] = []
        if self.trainer.is_global_zero:
            self.cache = FeatureCache(self.folder, net_digest(self.model.net, self._facts()))
            self._digests = {split: self.data.digest(split) for split in self.data.sets}
            found = [split for split in self.data.sets if not self._read(split)]
        self._left = self.trainer.strategy.broadcast(found)
        return list(self._left)

    def _facts(self) -> dict[str, Any]:
        """What features depend on beside the net's tensors."""
        model = self.model
        facts = {name: model.hparams[name] for name in ("net", *NORMALISATION)}
        if model.hparams.get("lora", {}).get("rank"):  # its alpha is no tensor
            facts["lora"] = model.hparams["lora"]
        return facts | {"size": self.data.data.size, "precision": str(self.trainer.precision)}

    def _read(self, split: str) -> bool:
        path = self.cache.path(split, self._digests[split])
        try:
            found = self.cache.read(split, self._digests[split])
        except DamagedFile as error:
            report(f"features {error}: computed anew")
            return False
        if found is not None:
            self.extracted[split] = Extracted(found, None)
            report(f"features of the {len(found):,} {split} images are those of {near(path)}")
        return found is not None

    # Batches ---------------------------------------------------------------------------------------------------------

    def on_predict_start(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Begin with the next set."""
        if not self._left:
            return
        images = len(self.data.sets[self._left[0]])
        self._began, self._collector = time.monotonic(), Collector(images, keeps=self.trainer.is_global_zero)
        if self.shows and self.trainer.is_global_zero:
            self._advance = self._showing.enter_context(progress(self._left[0], "extracted", images))

    def predict_step(self, batch: tuple[Tensor, Tensor], batch_idx: int, dataloader_idx: int = 0) -> int:
        """Take the features of a batch from all processes.

        Returns:
            Images that came; Lightning warns of a step that returns nothing.
        """
        images, labels = batch
        features, before = self.model.net.features(self.model.normalise(images)), self._collector.came
        self._collector.add(*gathered(self.trainer, features, labels))
        if self.shows and self.trainer.is_global_zero:
            self._advance(self._collector.came - before)
        came = self._collector.came
        if came == self._collector.images:
            self._finish(self._left.pop(0))
            self._begin()
        return came - before

    def _finish(self, split: str) -> None:
        """Keep the features of a set that is done; those that are not finite are refused when all is done."""
        self._showing.close()
        if not self.trainer.is_global_zero:
            return
        found = self._collector.result()
        self.extracted[split] = Extracted(found, time.monotonic() - self._began)
        if found.features[found.numbers].isfinite().all():
            self.cache.write(split, self._digests[split], found)

    def on_exception(self, exception: BaseException) -> None:
        self._showing.close()

    def teardown(self, stage: str) -> None:
        self._showing.close()

    def check(self) -> None:
        """Refuse features that are not finite."""
        for split, one in self.extracted.items():
            check_finite(one.found, split, self.data.sets[split])


def looked_at(images: ImageSet) -> list[int]:
    """Return numbers of images that are spread over a set and its classes."""
    labels = labels_of(images)
    of_classes = [] if labels is None else np.unique(labels, return_index=True)[1][:CLASSES_LOOKED_AT].tolist()
    return sorted({*_spread(len(images), LOOKED_AT), *of_classes})


def file_stamps(images: ImageSet) -> list[tuple[int, int]]:
    """Return sizes and times of the files of a set, spread over it; none where its images are no files of their own.

    Pixels of all images would take as long as their features, and of a few they show no change of a single class.
    """
    found: list[tuple[int, int]] = []
    for number in _spread(len(images), FILES_LOOKED_AT):
        try:
            path = record_of(images, number)[0]
            if not isinstance(path, str | os.PathLike):
                return []
            state = os.stat(path)
            found.append((state.st_size, state.st_mtime_ns))
        except (BrokenImage, OSError):  # the loader tells what is wrong with it
            found.append((0, 0))
    return found


def _spread(images: int, most: int) -> range:
    return range(0, images, -(-images // most))


def goes_through_all(trainer: Trainer) -> bool:
    """Tell whether no flag of the trainer lets it stop early; 1 is one batch, and 1.0 all of them."""
    limit = trainer.limit_predict_batches  # type: ignore[attr-defined]
    return not trainer.fast_dev_run and isinstance(limit, float) and limit == 1.0  # type: ignore[attr-defined]


def frozen_model(model: LightningModule, checkpoint: str | None, verb: str = "probe") -> RecipeModel:
    """Return the model whose net a verb probes or looks into, to be built by a Trainer from its checkpoint or weights.

    A head stays what it was, whatever the data's classes, since what comes before it (the paper's tanh layer) belongs
    to the features; with --model.weights_head reset that layer is dropped as for fine-tuning.

    Raises:
        InputError: the model has no features.
    """
    if not isinstance(model, RecipeModel):
        raise InputError(
            f"{verb} needs a net that shows its features, as Classifier and MaskedPatch have; {type(model).__name__} "
            "has none"
        )
    if not isinstance(model, Classifier):
        known = {name: model.hparams[name] for name in ("image_size", *NORMALISATION)}
        with nets_built_by_trainers():
            model = Classifier(net=NetConfig(**model.hparams["net"]), num_classes=0, **known)
    if checkpoint is not None:
        model.weights = checkpoint
        model.hparams.update(weights_head="keep", weights_raw=False, weights_adapt=False)
    assert model.weights is not None, "the command line asks for a net"
    if model.hparams["weights_head"] == "keep":
        opened = open_weights(model.weights, model.hparams["weights_raw"], model.chosen)
        model.hparams["num_classes"] = opened.num_classes
    return model
