"""A tree of image files in which folders name the classes."""

import os
from array import array
from collections.abc import Sequence, Set
from functools import cached_property
from pathlib import Path

import numpy as np
from lightning.pytorch.utilities import rank_zero_info
from torch import nn

from datamodules.reading import (
    doubtful_classes,
    folder_copies,
    folder_layouts,
    folder_links,
    folder_sides,
    folder_spelling,
    image_sources,
    unread_images,
    unread_splits,
)
from datamodules.reading.class_folders import ClassImages, said_of_strays
from datamodules.reading.class_map import WrongLabelsError, one_or_two
from datamodules.reading.class_map_file import ClassMap
from datamodules.reading.divided_data import DividedData
from datamodules.reading.image_files import ImageFiles, files_below, is_image, numbered_files_below
from datamodules.reading.label_text import difference, look_alike, spelled_twice
from datamodules.reading.splits import KNOWN, split_folders
from vit_lightning.data.images import is_hidden
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.evaluation.scores import SCORES
from vit_lightning.files import check_data_root, looked_for_in, meant

UNLABELLED = "_unlabeled"
"""Folder in which FiftyOne keeps images without a class."""


class ImageFolder(DividedData):
    """Your own images in folders named after their classes.

    Under root lie

        train/<class>/<any depth>/<image>.jpg   (or training)
        val/<class>/...      (or valid, validation, dev; without it, part of train is held out)
        test/<class>/...     (or testing; optional; images without class folders serve predict alone)

    or <class>/<image>.jpg alone. Then 15 % of each class validate and 15 % test; split.csv in the run folder keeps
    which, and test, validate, predict and a resumed run read it again.

    The folders of train, sorted as text, are the classes 0, 1, 2, ... of every split. Hidden files and folders,
    FiftyOne's folder _unlabeled and files that are no images are ignored; an empty class folder of train keeps its
    number. Linked folders are followed. Folders that are called as parts of a set are, such as trainA, masks or
    unlabelled, are an error unless class_map lists them.

    A trained net is scored on images of some of its classes, by name: on these classes alone. Then train is not
    needed.

    Args:
        root: folder that holds train, and perhaps val and test; or the folders of the classes.
        class_map: text file with one class folder per line, in the order of the labels; unset: sorted as text. Or .csv,
            .tsv or .json from folders to the names of their classes, where these are called otherwise.
        also: further folders of <class>/<image>, by the names under which they are scored in the same pass as the
            validation and the test images, as {night: /data/night}; each is taken whole, and scored on the classes
            that it has.
    """

    def __init__(
        self, root: Path, class_map: Path | None = None, also: dict[str, Path] | None = None, **kwargs
    ) -> None:
        super().__init__(root=root, **kwargs)
        self.class_map = class_map
        self.also = also or {}
        self._numbered: list[folder_links.Numbered] = []
        if wrong := next((name for name in self.also if not _may_be_scored(name)), None):
            raise InputError(
                f"--data.also {wrong!r} may be no set's name, as those of splits, of scores or with other signs than "
                "letters and digits; give it another"
            )

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        if self._map.listed is not None:
            return self._map.listed
        train = self._folders.get("train") or next(iter(self._folders.values()), None)
        names = self._classes_in(train) if train else []
        if not names:
            check_data_root(self.root)
            self._refuse_one_class()
            unread_images.check(self.root, "", list(files_below(self.root, "")))
            raise InputError(
                f"{self.root} holds no train/<class>/ folders: expected train/<class>/<image>, and perhaps "
                "val/<class>/<image> and test/<class>/<image>, or two or more <class>/<image> alone"
                f"{folder_layouts.labels_in_table(train or self.root)}; give --data.root{self._beside()}"
                f"{folder_layouts.classes_in_names(train or self.root)}"
            )
        classes = list(dict.fromkeys(self._class_of(train, name) for name in names))
        if pair := spelled_twice(classes):
            raise InputError(
                f"{train} has two class folders for what may be one: {difference(*pair)}; rename one, or "
                f"{one_or_two(*pair)}"
            )
        known = classes if set(names) <= self._listed else ()
        for said in doubtful_classes.said_of(classes, known=known, fix="rename one folder"):
            self.notice(f"{train}: {said}")
        return classes

    def _class_of(self, folder: Path, name: str) -> str:
        """Return the class that a folder in another shows."""
        try:
            return self._map.class_of(self._padded.get(name, name))
        except WrongLabelsError as error:
            raise InputError(f"{folder} has the class folder {name!r:.60}{error.why}") from error

    @cached_property
    def _map(self) -> ClassMap:
        return ClassMap(self.class_map, self._labels, may_be_places=False)

    @cached_property
    def _listed(self) -> Set[str]:
        """Folders that class_map lists, which are classes whatever they are called."""
        return {*(self._map.renamed or self._map.listed or ()), *self._map.by_number, *self._padded}

    @cached_property
    def _padded(self) -> dict[str, str]:
        """The number in class_map that a folder called with zeros before it stands for, as 00014 for 14."""
        return folder_spelling.padded_numbers(self._all_folders(), {*self._map.renamed, *self._map.by_number})

    def _labels(self) -> set[str]:
        """All folders, by their numbers in class_map where these are called otherwise there."""
        names = self._all_folders()
        numbers = folder_spelling.padded_numbers(names, self._map.lines.keys())
        return {numbers.get(name, name) for name in names}

    def _all_folders(self) -> set[str]:
        """The names of all folders in root and in those of the splits."""
        places = [self.root, *split_folders(self.root)[0].values()]
        return {name for place in places if place.is_dir() for name in self._class_folders(place)}

    def _refuse_one_class(self) -> None:
        """Say that classes lie in root itself, but too few."""
        found = self._class_folders(self.root, with_images=True) if self.root.is_dir() else []
        if len(found) == 1 and "train" not in self._folders:
            raise InputError(
                f"{self.root} holds one folder with images, {found[0]!r}, and a classifier needs two classes or more: "
                "expected <class>/<image> or train/<class>/<image>; add the folder of another class"
            )

    def setup(self, stage: str) -> None:
        self._numbered.clear()
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test", needs_labels=stage == "test")
        self.further_sets = {name: self._further(name, Path(folder)) for name, folder in self.also.items()}
        if self._numbered:
            folder_links.check(self._numbered)
        lacking = self.val_set is None, self.test_set is None
        if self.train_set is not None and self.split_file is None:
            drawn = [split for split, lacks in zip(("val", "test"), lacking, strict=True) if lacks]
            if said := unread_splits.said_of_lists(self.root, drawn):
                self.notice(said)
        draws = self._is_flat or self.wants_divided(lacking)
        if self.train_set is not None:
            self.name_idle_shares(lacking, draws)
        if self.train_set is not None and self.split_file is None and (draws or lacking[0]):
            for said in image_sources.said_of(self.train_set.keys):
                self.notice(said)
        if self.train_set is not None and draws:
            classes = self.train_set.labels.tolist()
            names = [self.class_names[label] for label in classes]
            self.divide(classes, names, lacking=lacking, is_whole=self._is_flat)
        elif lacking[0]:
            self.hold_out()

    def _beside(self) -> str:
        """Say which folders lie beside one that has a split's name and no folders, and may be classes as it may."""
        found, others = split_folders(self.root)
        folders = [folder for folder in found.values() if any(map(is_image, files_below(folder, "")))]
        plain = [folder for folder in folders if not self._class_folders(folder)]
        return folder_layouts.beside_images(self.root, plain[0], others) if plain else ""

    @property
    def _is_flat(self) -> bool:
        """Whether the classes lie in root itself."""
        return self._folders.get("train") == self.root

    @cached_property
    def _folders(self) -> dict[str, Path]:
        """The folder of each split, which holds folders of classes as far as can be told."""
        found, others = split_folders(self.root)
        names = {folder.name for folder in found.values()}.union(others)
        if names <= set(self._listed) and (others or not any(map(self._holds_listed, found.values()))):
            found = {}  # a class called train
        classes = self._class_folders(self.root, with_images=True) if not found and self.root.is_dir() else []
        if is_flat := len(classes) > 1:
            found = {"train": self.root}
        train = found.get("train") or next(iter(found.values()), self.root)
        folder_layouts.check(train, classes or (self._class_folders(train) if found else []), is_flat, self._listed)
        if found and (
            said := folder_layouts.taken_together(train, classes or self._class_folders(train), self._listed)
        ):
            self.notice(said)
        if found and (said := folder_sides.aside(train, classes or self._class_folders(train), self._listed)):
            self.notice(said)
        if is_flat:
            for name in sorted(set(others) - set(classes)):
                what = "runs" if folder_layouts.holds_runs(self.root / name) else "no images"
                self.notice(f"{self.root / name} holds {what} and is left out")
        elif others and found:
            self.notice(
                f"{self.root} has the folder {others[0]}, which is no split and is left out ({len(others)} such); "
                f"splits are called {KNOWN}"
            )
        return found

    def _holds_listed(self, folder: Path) -> bool:
        """Tell whether a folder holds one of a class that class_map lists."""
        return not set(self._listed).isdisjoint(self._class_folders(folder))

    def _further(self, name: str, folder: Path) -> ImageFiles:
        """Return the images of a further folder, scored on the classes that it has."""
        if not folder.is_dir():
            raise InputError(f"--data.also {name}: there is no folder {folder}{looked_for_in(folder)}{meant(folder)}")
        folder_links.check_other(name, folder, self._folders.get("train"))
        classes = self._class_folders(folder, with_images=True)
        folder_layouts.check(folder, classes, is_flat=True, known=self._listed)
        return self._labelled(folder, classes, "test", scored_on_found=True)

    def _read(self, split: str, needs_labels: bool = True) -> ImageFiles | None:
        folder = self._folders.get(split)
        if folder is None:
            return None
        found = self._classes_in(folder)
        if split == "test" and not found and not needs_labels:
            return self._unlabelled(folder)
        return self._labelled(folder, found, split)

    def _labelled(self, folder: Path, found: list[str], split: str, scored_on_found: bool = False) -> ImageFiles:
        """Return the images of class folders."""
        if found and (said := said_of_strays(folder)):
            self.notice(said)
        images = ClassImages(folder, self._listed)
        folders = self._folders_by_class(folder, found, split)
        for label, (name, of_class) in enumerate(folders.items()):
            if not images.add(label, of_class) and split == "train":
                rank_zero_info(f"class {name!r} has no images in {folder}; it keeps its number {label}")
        for said in images.said():
            self.notice(said)
        if images.others:
            rank_zero_info(f"{folder}: ignored {len(images.others)} hidden or other files, such as {images.others[0]}")
        if not images.names:
            raise InputError(
                f"{folder} holds no <class>/<image>; images must lie in a folder named after their class"
                f"{folder_layouts.labels_in_table(folder)}"
            )
        if split == "train":
            self._check_training(images)
        scored_on = np.unique(images.labels) if scored_on_found else None
        return self._kept(ImageFiles(folder, images.names, images.labels, scored_on), images.numbers, split)

    def _folders_by_class(self, folder: Path, found: Sequence[str], split: str) -> dict[str, list[str]]:
        """Return the folders that show each class, for all classes.

        Raises:
            InputError: a folder shows no class.
        """
        folders: dict[str, list[str]] = {name: [] for name in self.class_names}
        shown = {each: self._class_of(folder, each) for each in found}
        if split == "train":
            self._map.check_numbers(found, str(folder), are_places=bool(self._map.by_number))
        if unknown := sorted(each for each, name in shown.items() if name not in folders):
            raise self._unknown(folder, unknown)
        for each, name in shown.items():
            folders[name].append(each)
        return folders

    def _check_training(self, images: ClassImages) -> None:
        """Refuse folders that hold the images of others again, and say what may be such and what the map merges."""
        counts = {each: len(found) for each, found in images.by_folder.items()}
        for said in (
            *folder_copies.check(images.folder, images.by_folder, self._listed),
            *self._map.said({self._padded.get(each, each): count for each, count in counts.items()}),
        ):
            self.notice(said)

    def _unknown(self, folder: Path, unknown: list[str]) -> InputError:
        """Return the error of class folders that show no known class."""
        if said := folder_layouts.listed_classes(folder, unknown):
            return InputError(said)
        source = self.class_map or self._folders.get("train")
        mapped = "" if self.class_map else ", or say in --data.class_map which class it shows"
        return InputError(
            f"{folder} has the class folder {unknown[0]!r}, which {source} lacks "
            f"({len(unknown)} such); add it there{mapped}, or remove it{look_alike(unknown[0], self.class_names)}"
        )

    def _unlabelled(self, folder: Path) -> ImageFiles | None:
        """Return the images of a folder without classes."""
        files = {file: number for file, number in numbered_files_below(folder, "") if is_image(file)}
        rank_zero_info(f"{folder} has {len(files)} images and no class folders: they serve predict alone")
        for said in unread_images.check(folder, "", list(files_below(folder, ""))):
            self.notice(said)
        images = ImageFiles(folder, files, [IGNORE] * len(files))
        return self._kept(images, array("Q", files.values()), "test") if files else None

    def _kept(self, images: ImageFiles, numbers: array, split: str) -> ImageFiles:
        """Keep what files the images of a split are, until all splits are compared."""
        self._numbered.append(folder_links.Numbered(images, np.array(numbers, np.uint64), split == "train"))
        return images

    def _classes_in(self, folder: Path) -> list[str]:
        if folder == self.root:
            return self._class_folders(folder, with_images=True)
        names = self._class_folders(folder)
        stores = self._stores(folder, names)
        for name in stores:
            self.notice(f"{folder / name} holds no images that are read and is left out; it is called as no class is")
        return [name for name in names if name not in stores]

    def _class_folders(self, folder: Path, with_images: bool = False) -> list[str]:
        entries = [entry for entry in os.scandir(folder) if not is_hidden(entry.name)]
        for entry in entries:
            if entry.is_symlink() and not os.path.exists(entry):
                self.notice(f"{entry.path} is a link to {os.readlink(entry)}, which is missing, and is left out")
        names = sorted(entry.name for entry in entries if entry.is_dir() and entry.name != UNLABELLED)
        if not with_images:
            return names
        runs = [name for name in names if folder_layouts.holds_runs(folder / name)]
        found = [name for name in names if name not in runs and any(map(is_image, files_below(folder, name)))]
        if not set(found) <= set(self._listed):
            for name in set(names) - {*found, *runs, *self._stores(folder, names)}:
                for said in unread_images.check(folder, name, list(files_below(folder, name)), is_class=False):
                    self.notice(said)
        return found

    def _stores(self, folder: Path, names: Sequence[str]) -> list[str]:
        """Return the folders that keep pictures which are not read, and are no classes."""
        return [name for name in names if name not in self._listed and unread_images.is_store(folder, name)]


def _may_be_scored(name: str) -> bool:
    """Tell whether a further set may be called so, beside splits, scores and members of ensembles."""
    taken = name in ("val", "test", "mean") or (name in SCORES and SCORES[name].needs != "further set")
    return name.isidentifier() and not (taken or name.startswith("member") or hasattr(nn.ModuleDict, name))
