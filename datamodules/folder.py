"""A tree of image files in which folders name the classes."""

import os
from functools import cached_property
from pathlib import Path

from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading.class_map import read_class_map
from datamodules.reading.image_files import ImageFiles, files_below, is_image
from vit_lightning.data import ImageDataModule
from vit_lightning.data.images import is_hidden
from vit_lightning.data.subsets import check_share, hold_out
from vit_lightning.errors import InputError


class ImageFolder(ImageDataModule):
    """Your own images in folders named after their classes.

    Under root lie

        train/<class>/<any depth>/<image>.jpg
        val/<class>/...      (or validation/; without it, part of train is held out)
        test/<class>/...     (optional)

    The folders of train, sorted as text, are the classes 0, 1, 2, ... of every split. Hidden files and folders and
    files that are no images are ignored; an empty class folder keeps its number.

    Args:
        root: folder that holds train, and perhaps val and test.
        val_fraction: share of the training images held out for validation if there is no val folder; 0: none.
        class_map: text file with one class folder per line, in the order of the labels; unset: sorted as text.
    """

    def __init__(self, root: Path, val_fraction: float = 0.1, class_map: Path | None = None, **kwargs) -> None:
        super().__init__(root=root, **kwargs)
        self.val_fraction = check_share(val_fraction)
        self.class_map = class_map

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        if self.class_map is not None:
            return read_class_map(self.class_map)
        names = _class_folders(self.root / "train")
        if not names:
            raise InputError(
                f"{self.root} holds no train/<class>/ folders: expected train/<class>/<image>, and perhaps "
                "val/<class>/<image> and test/<class>/<image>; give --data.root"
            )
        return names

    def setup(self, stage: str) -> None:
        self.train_set = self._read("train")
        self.val_set = self._read("val") or self._read("validation")
        self.test_set = self._read("test")
        if self.val_set is None and self.train_set is not None:
            self.train_set, self.val_set = hold_out(self.train_set, self.val_fraction)

    def _read(self, split: str) -> ImageFiles | None:
        folder = self.root / split
        if not folder.is_dir():
            return None
        found = _class_folders(folder)
        if unknown := sorted(set(found) - set(self.class_names)):
            source = self.class_map or self.root / "train"
            raise InputError(
                f"{folder} has the class folder {unknown[0]!r}, which {source} lacks "
                f"({len(unknown)} such); add it there or remove it"
            )
        names, labels, others = [], [], []
        for label, name in enumerate(self.class_names):
            files = list(files_below(folder, name))
            pictures = [file for file in files if is_image(file)]
            if not pictures and split == "train":
                rank_zero_info(f"class {name!r} has no images in {folder}; it keeps its number {label}")
            names += pictures
            labels += [label] * len(pictures)
            others += [file for file in files if not is_image(file)]
        if others:
            rank_zero_info(f"{folder}: ignored {len(others)} hidden or other files, such as {others[0]}")
        if not names:
            raise InputError(f"{folder} holds no <class>/<image>; images must lie in a folder named after their class")
        return ImageFiles(folder, names, labels)


def _class_folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not is_hidden(entry.name))
