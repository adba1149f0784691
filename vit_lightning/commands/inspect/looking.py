"""The pass over the images: sums of what holds for all, and a file for each image that is drawn."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.utils.data import DataLoader

from vit_lightning.commands.inspect.choices import Choices
from vit_lightning.data import ImageDataModule
from vit_lightning.data.frozen_images import FrozenImages
from vit_lightning.data.image_set import ImageSet, keys_of
from vit_lightning.data.loaders import frozen_loader
from vit_lightning.data.sampling import BROKEN
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError
from vit_lightning.inspection.artefacts import NormHistogram
from vit_lightning.inspection.attention import MeanDistance, Rollout, RowsRead, pixels_per_patch, reads_of
from vit_lightning.inspection.features import RunningPCA
from vit_lightning.inspection.observation import Observation, checked, observe
from vit_lightning.inspection.relevance import gradient_free_relevance, gradient_relevance
from vit_lightning.models.finite import check_finite
from vit_lightning.models.vit import ViT
from vit_lightning.terminal import progress
from vit_lightning.training.recipe import RecipeModel

MOST_ENTRIES = 2**25
"""Of the attention of a layer, 128 MiB in fp32, by which the images of a batch are parted."""
MOST_POINTS = 5000
"""Images of a map of them."""
SPLITS = {"val": ("val_set", "validation"), "test": ("test_set", "test"), "train": ("train_subset", "training")}
"""Where a datamodule has its sets, and what they are called."""


class InspectedData(FrozenImages):
    """Images of a datamodule, the same ones every time, none of them varied.

    Args:
        data: the datamodule.
        split: which of its sets: val, test or train.
        most: how many images at most.
    """

    def __init__(self, data: ImageDataModule, split: str, most: int) -> None:
        super().__init__(data)
        self.split, self.most = split, most
        self.called = split
        """The set, in words; after `setup`."""
        self.images: Subset
        """The images; after `setup`."""
        self.numbers: np.ndarray
        """Their numbers in the set."""

    def setup(self, stage: str) -> None:
        """Find the images.

        Raises:
            InputError: there are none.
        """
        whole = self._whole()
        self.numbers = _drawn(len(whole), self.most)
        self.images = Subset(whole, self.numbers)
        self.names = [str(key) for key in (keys_of(whole)[int(number)] for number in self.numbers)]

    def _whole(self) -> ImageSet:
        data, data.trainer = self.data, self.trainer
        if data.num_classes is None:
            data.setup("predict")
            images, self.called, remedy = data.predict_set, "given", "give other images"
        else:
            data.setup("test" if self.split == "test" else "fit")
            attribute, self.called = SPLITS[self.split]
            images, others = getattr(data, attribute), [name for name in SPLITS if name != self.split]
            remedy = f"give --split {' or '.join(others)}, or other data"
        if images is None or not len(images):
            raise InputError(f"{type(data).__name__} has no {self.called} images to look at; {remedy}")
        return images

    def predict_dataloader(self) -> DataLoader:
        return frozen_loader(self.data, self.images, self.called)


@dataclass
class Sums:
    """What holds for all images, in memory that does not grow with their number."""

    distance: Tensor | None = None
    """Sum over images of the mean attention distances, `(layers, h)`."""
    count: int = 0
    seconds: float = 0.0
    norms: NormHistogram = field(default_factory=NormHistogram)
    pca: RunningPCA = field(default_factory=RunningPCA)
    features: list[Tensor] = field(default_factory=list)
    """Of at most 5,000 images."""
    labels: list[int] = field(default_factory=list)
    """Of the same images; below 0 where nobody knows it."""
    kept: list[Tensor] = field(default_factory=list)
    """Images as they came, for ablations."""
    drawn: list[Path] = field(default_factory=list)
    """Files of the images that are drawn."""


class Looking(LightningModule):
    """A net that is looked into by a Trainer's predict.

    Args:
        model: what has, or will have, the net.
        data: the images.
        choices: what is wanted.
        folder: where files of images lie until they are drawn.
        shows: whether progress is shown.
    """

    def __init__(self, model: RecipeModel, data: InspectedData, choices: Choices, folder: Path, shows: bool) -> None:
        super().__init__()
        self.model, self.inspected, self.choices, self.folder = model, data, choices, folder
        self.shows, self.sums, self.came = shows, Sums(), 0
        self._showing = ExitStack()
        self._advance: Callable[[int], Any] = lambda more: None

    @property
    def hparams(self) -> Any:
        """Those of the model, which data without an image size of their own ask for."""
        return self.model.hparams

    @property
    def pixel_facts(self) -> tuple[int | None, tuple[float, float] | None]:
        """Those of the model."""
        return self.model.pixel_facts

    @property
    def net(self) -> ViT:
        """The net that is looked into."""
        return checked(self.model.net)

    def configure_model(self) -> None:
        self.model.configure_model()
        net = self.net
        check_finite(net.state_dict(), "the net")
        self.choices.check(net, len(self.inspected.images))
        self.layers, self.heads = self.choices.layers_of(net), self.choices.heads_of(net)
        self.relevance_class = self.choices.class_number(self.class_names, net.num_classes)

    @property
    def class_names(self) -> list[str]:
        """Names of the net's classes; empty: nobody has stated them."""
        return list(getattr(self.model, "head_names", ()) or getattr(self.model, "class_names", ()))

    def on_predict_start(self) -> None:
        total = len(self.inspected.images)
        self.wanted = set(_drawn(total, self.choices.maps).tolist())
        self.points = set(_drawn(total, MOST_POINTS).tolist())
        self.ablated = set(_drawn(total, self.choices.ablation_images).tolist())
        self._began = time.monotonic()
        if self.shows:
            self._advance = self._showing.enter_context(progress(self.inspected.called, "looked at", total))

    def predict_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> int:
        """Look at the next images; those that could not be read count nothing."""
        images, labels = batch
        known = labels.long() if labels.ndim == 1 else torch.where((labels == BROKEN).all(1), BROKEN, -1)
        readable = [place for place, label in enumerate(known.tolist()) if label != BROKEN]
        if readable:
            with torch.autocast(self.device.type, enabled=False):
                for part in self._parts(readable):
                    self._look(images[part], known[part].tolist(), [self.came + place for place in part])
        self.came += len(labels)
        self._advance(len(labels))
        return len(labels)

    def on_predict_end(self) -> None:
        self.sums.seconds = time.monotonic() - self._began
        self._showing.close()

    def on_exception(self, exception: BaseException) -> None:
        self._showing.close()

    def teardown(self, stage: str) -> None:
        self._showing.close()

    # A batch ---------------------------------------------------------------------------------------------------------

    def _parts(self, places: list[int]) -> list[list[int]]:
        """Return places in a batch, as many together as have room for the attention of a layer."""
        net = self.net
        tokens = net.num_prefix_tokens + net.grid[0] * net.grid[1]
        size = max(1, MOST_ENTRIES // (net.config.heads * tokens**2))
        return [places[start : start + size] for start in range(0, len(places), size)]

    def _look(self, images: Tensor, labels: list[int], places: list[int]) -> None:
        net, sums = self.net, self.sums
        seen = self.model.normalise(images)
        distance = MeanDistance(net.grid, pixels_per_patch(net.config), net.num_prefix_tokens)
        reading = net.grid, net.num_prefix_tokens, reads_of(net.config)
        rolled, rows = Rollout(*reading), RowsRead(self.layers, *reading)
        found = observe(net, seen, distance, rolled, rows)
        if not found.features.isfinite().all():
            name = self.inspected.names[places[int((~found.features.isfinite().all(1)).nonzero()[0])]]
            raise InputError(f"the features of {name} are not finite; the weights are damaged or overflow")
        total = distance.result().double().sum(1).cpu()
        sums.distance = total if sums.distance is None else sums.distance + total
        sums.norms.add(found.norms)
        if "pca" in self.choices.figures:
            sums.pca.add(found.tokens[:, net.num_prefix_tokens :].flatten(0, 1))
        sums.count += len(images)
        self._keep_points(found, labels, places)
        if "ablation" in self.choices.figures:
            sums.kept += [images[at].cpu() for at, place in enumerate(places) if place in self.ablated]
        drawn = [at for at, place in enumerate(places) if place in self.wanted]
        if drawn:
            maps = {"rollout": rolled.result(), "norms": found.norms[-1]}
            maps |= {f"heads_{layer}": one for layer, one in rows.maps.items()}
            self._spool(images, seen, found, maps, labels, places, drawn)

    def _keep_points(self, found: Observation, labels: list[int], places: list[int]) -> None:
        if "embedding" in self.choices.figures:
            chosen = [at for at, place in enumerate(places) if place in self.points]
            self.sums.features += [found.features[at].float().cpu() for at in chosen]
            self.sums.labels += [labels[at] for at in chosen]

    def _spool(
        self,
        images: Tensor,
        seen: Tensor,
        found: Observation,
        maps: dict[str, Tensor],
        labels: list[int],
        places: list[int],
        drawn: list[int],
    ) -> None:
        """Write what is drawn of some images, a file each, so that none of it stays in memory."""
        net = self.net
        maps = {name: values[drawn] for name, values in maps.items()} | {"image": images[drawn]}
        maps["norms"] = maps["norms"].unflatten(1, net.grid)
        maps["tokens"] = found.tokens[drawn]
        if found.logits is not None:
            scores = found.logits[drawn].float()
            best = scores.argmax(1)
            several = self.model.hparams.get("loss") == "sigmoid"
            shares = scores.sigmoid() if several else scores.softmax(1)
            chosen = best if self.relevance_class is None else torch.full_like(best, self.relevance_class)
            maps |= {"best": best, "class": chosen, "probability": shares.gather(1, chosen[:, None])[:, 0]}
            if "relevance" in self.choices.figures:
                maps["gradient_free_relevance"] = gradient_free_relevance(net, seen[drawn], chosen)
                # One by one: it needs the attention of all layers together.
                pairs = zip(seen[drawn].split(1), chosen.split(1), strict=True)
                maps["gradient_relevance"] = torch.cat([gradient_relevance(net, *pair) for pair in pairs])
        for number, at in enumerate(drawn):
            arrays = {name: _array(values[number]) for name, values in maps.items()}
            path = self.folder / f"{places[at]}.npz"
            np.savez(path, label=labels[at], place=places[at], **arrays)
            self.sums.drawn.append(path)


def _drawn(total: int, most: int) -> np.ndarray:
    """Return numbers below a total, by size: all, or as many as there may be, drawn with a fixed seed.

    Every second or tenth one would all be of one class in a set whose classes take turns.
    """
    return np.arange(total) if total <= most else np.sort(np.random.default_rng(0).permutation(total)[:most])


def _array(values: Tensor) -> np.ndarray:
    return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).cpu().numpy()
