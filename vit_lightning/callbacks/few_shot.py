"""Few-shot probes in the validations of a fit, which show how a net's features come on."""

from collections.abc import Sequence
from statistics import mean

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import DataLoader

from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import labels_of
from vit_lightning.data.loaders import evaluation_loader, frozen_loader
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError
from vit_lightning.evaluation import fewshot
from vit_lightning.evaluation.features import Collector, FeatureSet, check_finite
from vit_lightning.training.gathering import gathered
from vit_lightning.training.recipe import RecipeModel


class FewShot(Callback):
    """Score the net's features in every validation of a fit, by least squares on a few training images of each class.

    It logs val/fewshot10 for ten of them, the share of the validation images whose class is found. As many training
    images as that takes, and the validation images, go through the net once more. With averaged weights, the features
    are those of the average.

    Args:
        shots: Training images of each class.
        seeds: Times that these images are drawn anew; the score is the mean.
        l2: Penalty of the least squares.
    """

    def __init__(self, shots: Sequence[int] = (10,), seeds: int = 1, l2: float = fewshot.L2) -> None:
        if not shots or min(shots) < 1 or seeds < 1 or not l2 > 0:
            raise InputError(f"FewShot's shots are {list(shots)}, its seeds {seeds}, its l2 {l2}; each must be above 0")
        self.shots, self.seeds, self.l2 = sorted(set(shots)), seeds, l2
        self._chosen: dict[tuple[int, int], np.ndarray] = {}
        self._loaders: tuple[DataLoader, DataLoader] | None = None

    @property
    def score_names(self) -> list[str]:
        """Names of the scores that it logs of the validation images."""
        return [f"fewshot{shots}" for shots in self.shots]

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Draw the images.

        Raises:
            InputError: the data have not enough of them, or not one class each.
        """
        if stage != "fit":
            return
        data = trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
        if not isinstance(data, ImageDataModule) or not isinstance(pl_module, RecipeModel):
            raise InputError("FewShot needs a model and data of ours, or subclasses of Classifier and ImageDataModule")
        images = data.train_subset
        labels = labels_of(images)
        if images is None or labels is None or labels.ndim != 1 or data.val_set is None or not len(data.val_set):
            raise InputError(
                "FewShot needs training images whose labels are known at once, of one class each, and validation "
                f"images, which {type(data).__name__} does not give"
            )
        classes = data.num_classes or 0
        counts = np.bincount(labels[labels >= 0], minlength=classes)
        if max(self.shots) > (least := counts.min(initial=0 if not classes else counts.max())):
            name = data.class_names[int(counts.argmin())] if classes else ""
            raise InputError(
                f"FewShot's shots {max(self.shots)} are more than the {least} training images of class {name}; give "
                "less"
            )
        chosen = {
            (shots, seed): fewshot.select(labels, classes, shots, seed)
            for shots in self.shots
            for seed in range(self.seeds)
        }
        numbers = np.unique(np.concatenate(list(chosen.values())))
        self._chosen = {key: np.searchsorted(numbers, drawn) for key, drawn in chosen.items()}
        self._images, self._loaders = Subset(images, numbers), None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if isinstance(getattr(pl_module, "net", None), FSDPModule):
            raise InputError("FewShot needs whole weights, and these are sharded; leave one of both out")

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking or not isinstance(pl_module, RecipeModel):
            return
        data = trainer.datamodule  # type: ignore[attr-defined]
        if self._loaders is None:
            self._loaders = frozen_loader(data, self._images, "training"), evaluation_loader(data, "val_set")
        train, val = (_features(trainer, pl_module, loader) for loader in self._loaders)
        check_finite(train, "training", self._images)
        check_finite(val, "validation", data.val_set)
        val = val.labelled()
        for shots, name in zip(self.shots, self.score_names, strict=True):
            scores = [self._score(train, val, shots, seed, data.num_classes) for seed in range(self.seeds)]
            score = trainer.strategy.broadcast(mean(scores))
            pl_module.log(f"val/{name}", torch.tensor(score), prog_bar=True, batch_size=1)

    def _score(self, train: FeatureSet, val: FeatureSet, shots: int, seed: int, num_classes: int) -> float:
        chosen = self._chosen[shots, seed]
        part = FeatureSet(train.features[chosen], train.labels[chosen]).labelled()
        return fewshot.solve(part.features, part.labels, num_classes, self.l2).top1(val.features, val.labels)


def _features(trainer: Trainer, model: RecipeModel, loader: DataLoader) -> FeatureSet:
    """Return the features of a loader's images, on every process."""
    collector = Collector(len(loader.dataset))  # type: ignore[arg-type]  # ours has a length
    for batch in loader:
        images, labels = trainer.strategy.batch_to_device(batch)
        with trainer.precision_plugin.val_step_context():
            rows = model.net.features(model.normalise(images))
        collector.add(*gathered(trainer, rows, labels))
    return collector.result()
