"""A tree of image files in which folders name the classes."""

import os
from functools import cached_property
from pathlib import Path

from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading.class_map import read_class_map
from datamodules.reading.image_files import ImageFiles, files_below, is_image
from datamodules.reading.splits import KNOWN, split_folders
from vit_lightning.data import ImageDataModule
from vit_lightning.data.images import is_hidden
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import check_share, hold_out
from vit_lightning.errors import InputError

TABLES = ("metadata.csv", "metadata.jsonl", "metadata.parquet", "_classes.csv", "labels.csv", "train.csv")
UNLABELLED = "_unlabeled"
"""Folder in which FiftyOne keeps images without a class."""


class ImageFolder(ImageDataModule):
    """Your own images in folders named after their classes.

    Under root lie

        train/<class>/<any depth>/<image>.jpg   (or training)
        val/<class>/...      (or valid, validation, dev; without it, part of train is held out)
        test/<class>/...     (or testing; optional; images without class folders serve predict alone)

    The folders of train, sorted as text, are the classes 0, 1, 2, ... of every split. Hidden files and folders,
    FiftyOne's folder _unlabeled and files that are no images are ignored; an empty class folder keeps its number.
    Linked folders are followed.

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
        train = self._folders.get("train")
        names = self._class_folders(train) if train else []
        if not names:
            raise InputError(
                f"{self.root} holds no train/<class>/ folders: expected train/<class>/<image>, and perhaps "
                f"val/<class>/<image> and test/<class>/<image>{_tables(train or self.root)}; give --data.root"
            )
        return names

    def setup(self, stage: str) -> None:
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test", needs_labels=stage == "test")
        if self.val_set is None and self.train_set is not None:
            self.train_set, self.val_set = hold_out(self.train_set, self.val_fraction)

    @cached_property
    def _folders(self) -> dict[str, Path]:
        """The folder of each split."""
        found, others = split_folders(self.root)
        if others and found:
            self.notice(
                f"{self.root} has the folder {others[0]}, which is no split and is left out ({len(others)} such); "
                f"splits are called {KNOWN}"
            )
        return found

    def _read(self, split: str, needs_labels: bool = True) -> ImageFiles | None:
        folder = self._folders.get(split)
        if folder is None:
            return None
        found = self._class_folders(folder)
        if unknown := sorted(set(found) - set(self.class_names)):
            source = self.class_map or self._folders.get("train")
            raise InputError(
                f"{folder} has the class folder {unknown[0]!r}, which {source} lacks "
                f"({len(unknown)} such); add it there or remove it"
            )
        if split == "test" and not found and not needs_labels:
            return _unlabelled(folder)
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
            raise InputError(
                f"{folder} holds no <class>/<image>; images must lie in a folder named after their class"
                f"{_tables(folder)}"
            )
        return ImageFiles(folder, names, labels)

    def _class_folders(self, folder: Path) -> list[str]:
        entries = [entry for entry in os.scandir(folder) if not is_hidden(entry.name)]
        for entry in entries:
            if entry.is_symlink() and not os.path.exists(entry):
                self.notice(f"{entry.path} is a link to {os.readlink(entry)}, which is missing, and is left out")
        return sorted(entry.name for entry in entries if entry.is_dir() and entry.name != UNLABELLED)


def _unlabelled(folder: Path) -> ImageFiles | None:
    """Return the images of a folder without classes."""
    names = [file for file in files_below(folder, "") if is_image(file)]
    rank_zero_info(f"{folder} has {len(names)} images and no class folders: they serve predict alone")
    return ImageFiles(folder, names, [IGNORE] * len(names)) if names else None


def _tables(folder: Path) -> str:
    """Say how to read a folder whose labels stand in a table, as Hugging Face's imagefolder has them."""
    tables = [name for name in TABLES if (folder / name).is_file()]
    return f"; for the labels in {tables[0]} give --data Manifest --data.train {folder / tables[0]}" if tables else ""
