"""The Visual Task Adaptation Benchmark: 19 data sets in their original form, and the splits of its protocol."""

import dataclasses
import difflib
from pathlib import Path
from typing import Literal

import numpy as np
from torch.utils.data import ConcatDataset

from datamodules.reading.damaged_files import read_whole
from datamodules.reading.image_files import ImageFiles
from datamodules.reading.published import PublishedData, PublishedSet
from datamodules.vtab.tasks import TASKS, Task, part_of, split_of, tfds_order
from vit_lightning.augment import Augment
from vit_lightning.augment import per_image as augmenting
from vit_lightning.augment.per_image import Transform
from vit_lightning.data.image_set import ImageSet, keys_of
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError

TRAIN, VAL = 800, 200
"""Images of VTAB-1k for training and for choosing a recipe."""


class VTAB(PublishedData):
    """One of the 19 tasks of the Visual Task Adaptation Benchmark, tested on its whole test split.

    The splits are slices of the order of TensorFlow Datasets, which the keys of the images alone decide. Choose a
    recipe with train800 and its 200 validation images, then train on train800val200 for the score, without validation.

    Under root lies each set as it was published; the message about a missing file says how. Or root holds the widely
    shared copy of VTAB-1k with images encoded anew, which is taken where a task's folder has these lists:

        <task>/train800.txt, val200.txt, train800val200.txt, test.txt       lines of: images/<path>.jpg <label>

    Args:
        task: caltech101, cifar100, dtd, flowers102, pets, sun397, svhn; patch_camelyon, eurosat, resisc45, retinopathy;
            clevr_count, clevr_distance, dmlab, kitti_distance, dsprites_location, dsprites_orientation,
            smallnorb_azimuth or smallnorb_elevation.
        split: what is trained on: train800, train800val200, or full, which is all that is not for testing.
        image_size: height and width of the images given to the model; 384 in the paper, 224 in VTAB's own code.
        augment: how training images are varied. Whatever it says, images are not cropped in the tasks clevr_count,
            clevr_distance, dmlab, kitti_distance and dsprites_location, and not mirrored in dsprites_location,
            dsprites_orientation and smallnorb_azimuth.
    """

    def __init__(
        self,
        task: str,
        split: Literal["train800", "train800val200", "full"] = "train800val200",
        image_size: int | tuple[int, int] = 384,
        augment: Augment = Augment(crop="resize"),
        **kwargs,
    ) -> None:
        super().__init__(image_size=image_size, augment=augment, **kwargs)
        if task not in TASKS:
            close = difflib.get_close_matches(task, TASKS, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(TASKS)}"
            raise InputError(f"--data.task {task} is no task of VTAB; {hint}")
        self.task = task
        self.split = split

    @property
    def row(self) -> Task:
        """The task's row of the benchmark's table."""
        return TASKS[self.task]

    @property
    def num_classes(self) -> int:
        return len(self.row.names)

    @property
    def class_names(self) -> list[str]:
        return list(self.row.names)

    @property
    def published(self) -> PublishedSet:
        lists = self.root / self.row.folder / "train800val200.txt"
        return reencoded(self.row) if lists.is_file() else self.row.source

    def setup(self, stage: str) -> None:
        if self.published is not self.row.source:
            self._setup_reencoded()
        else:
            self._setup_published()

    def _setup_published(self) -> None:
        row, first = self.row, (None, None) if self.split == "full" else (TRAIN, VAL)
        sets = {split: self.read(split) for split in {split_of(part) for part in (row.train, row.val, row.test)}}
        orders = {split: tfds_order(split, keys_of(sets[split])) for split in sets}
        train, val, self.test_set = (
            Subset(sets[split_of(part)], part_of(part, orders[split_of(part)])[:count])
            for part, count in zip((row.train, row.val, row.test), (*first, None), strict=True)
        )
        if self.split == "train800":
            self.train_set, self.val_set = train, val
        else:
            self.train_set = Joined([train, val])

    def _setup_reencoded(self) -> None:
        if self.split == "full":
            raise InputError(
                f"--data.split full needs {self.row.source.name} in its original form under {self.root}, "
                f"where {self.row.folder} holds the 1,000 images of VTAB-1k alone"
            )
        self.train_set, self.test_set = self.read(self.split), self.read("test")
        if self.split == "train800":
            self.val_set = self.read("val200")

    def train_transform(self) -> Transform:
        crop = self.augment.crop if self.row.crop else "none"
        augment = dataclasses.replace(self.augment, crop=crop, flip=self.augment.flip and self.row.flip)
        return augmenting.train_transform(augment, self.size)


class Joined(ConcatDataset):
    """Several sets after each other, with their labels and keys.

    Args:
        sets: the sets.
    """

    def __init__(self, sets: list[ImageSet]) -> None:
        super().__init__(sets)
        self.labels = np.concatenate([part.labels for part in sets])
        self.keys = [key for part in sets for key in keys_of(part)]


def reencoded(row: Task) -> PublishedSet:
    """Return a task of the shared copy of VTAB-1k, whose images go by their place in the order of each split."""

    def read(root: Path, split: str) -> ImageFiles:
        lines = read_whole(root / row.folder / f"{split}.txt").decode().splitlines()
        files, labels = zip(*(line.rsplit(maxsplit=1) for line in lines), strict=True)
        return ImageFiles(root / row.folder, files, [int(label) for label in labels])

    test = len(part_of(row.test, np.arange(row.source.sizes[split_of(row.test)])))
    return PublishedSet(
        f"VTAB-1k's {row.folder}",
        f"{row.folder}/{{images/<split>/<number>.jpg,train800.txt,val200.txt,train800val200.txt,test.txt}}",
        {"train800": TRAIN, "val200": VAL, "train800val200": TRAIN + VAL, "test": test},
        read,
    )
