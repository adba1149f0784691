"""Parquet files with encoded images and labels, as Hugging Face publishes data sets."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import (
    doubtful_classes,
    named_codes,
    parquet_parts,
    parquet_paths,
    parquet_splits,
    renamed_folders,
    split_copies,
)
from datamodules.reading.class_map import check_meaning, numbers_in_place
from datamodules.reading.class_map_file import ClassMap
from datamodules.reading.drawn_split import TEST, TRAIN
from datamodules.reading.idle_flags import name_idle_fraction
from datamodules.reading.joined_words import several_in_one
from datamodules.reading.kept_splits import hold_to_run
from datamodules.reading.label_text import check_told, is_whole
from datamodules.reading.multihot import MultiHot
from datamodules.reading.parquet_classes import class_list, match, renamed_classes
from datamodules.reading.parquet_files import split_parquet
from datamodules.reading.parquet_labels import FileLabels, holds_numbers, listed_classes, read_labels
from datamodules.reading.parquet_rows import Rows, check_columns, given_paths, number_of_rows, open_table
from datamodules.reading.shared_sequences import Ragged
from datamodules.reading.splits import SPLITS, check_counted
from datamodules.reading.stated_split import Use, check_flag, split_words
from datamodules.reading.table_columns import only_column
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import Subset, check_share, hold_out
from vit_lightning.errors import InputError
from vit_lightning.files import check_data_root

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "labels", "fine_label")
LAYOUT = "train*.parquet or train/*.parquet, and perhaps the same for val and test, in it or in its folder data"


class Parquet(ImageDataModule):
    """Parquet files with encoded images and labels, as Hugging Face publishes data sets.

    Under root, under root/data, or under the one folder of root that has them, lie

        train*.parquet    or train/*.parquet
        val*.parquet      (or valid, validation, dev; without it, part of train is held out)
        test*.parquet     (or testing; optional)

    The image column holds encoded bytes, paths, or a struct with the fields `bytes` and `path`. Paths start from the
    folder of their own file, else from root. The label column holds text, or whole numbers, whose names are taken from
    Hugging Face's schema metadata where there are any. Labels of all files are matched by name. Errors count the rows
    of a file from 1; the names of images, as train.parquet:0, count from 0. Needs pyarrow:
    `pip install 'vit-lightning[parquet]'`. What save_to_disk of Hugging Face's datasets wrote is read from mapped
    memory, by that library: `pip install 'vit-lightning[arrow]'`.

    Args:
        root: folder that holds the files.
        image_column: column with the images; unset: image, else img.
        label_column: column with the labels; unset: label, else the one of labels and fine_label that is there.
        multi_label: whether a row has a list of labels; they become float vectors.
        class_map: file with one class per line, JSON or .csv, in the order of the labels; unset: those of the training
            files. Or .csv, .tsv or .json from labels to the names of their classes, where these are called otherwise.
        val_fraction: share of the training images held out for validation if there is no val file; 0: none.
        split_column: column of the training files with each image's split: train, val or test, of which none has
            files of its own; unset: a column that names splits is an error; false: none.
        split_names: splits of other words in that column, as {PublicTest: val}.
    """

    def __init__(
        self,
        root: Path,
        image_column: str | None = None,
        label_column: str | None = None,
        multi_label: bool = False,
        class_map: Path | None = None,
        val_fraction: float = 0.1,
        split_column: bool | str | None = None,
        split_names: dict[str, str] | None = None,
        **kwargs,
    ) -> None:
        super().__init__(root=root, **kwargs)
        self.image_column = image_column
        self.label_column = label_column
        self.multi_label = multi_label
        self.class_map = class_map
        self.val_fraction = check_share(val_fraction)
        self.split_column = split_column
        self.split_words = split_words(split_names)
        check_flag(split_column, "split_column")
        self._listed: dict[str, parquet_paths.Listed] = {}
        self._named: list[named_codes.Named] = []

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        if self._map.listed is not None:
            return self._map.listed
        files = self._files.get(self._naming)
        if not files:
            raise self._no_training()
        check_columns(files, (self._image, self._label))
        listed = [listed_classes(file, self._label) or [] for file in files]
        labels = [self._labels_of(file) for file, names in zip(files, listed, strict=True) if not names]
        named = map(renamed_classes, files, listed, repeat(self._map.class_of))
        classes = class_list(labels, filter(None, named), files[0].parent, self.multi_label)
        names = {name for one in labels for name in one.names}
        for said in doubtful_classes.said_of(classes, names, self._map.renamed.values()):
            self.notice(f"{files[0].parent}: {said}")
        fix = "divide it at {} into a list, for --data.multi_label true"
        if labels and not self.multi_label and (said := several_in_one(classes, fix)):
            self.notice(f"{files[0].parent}: {said}")
        return classes

    @cached_property
    def _map(self) -> ClassMap:
        return ClassMap(self.class_map, self._all_labels)

    def _all_labels(self) -> set[str]:
        """The different labels of all files."""
        files = [file for files in self._files.values() for file in files]
        files = [file for file in files if self._label in open_table(file).schema_arrow.names]
        return {
            name
            for file in files
            for name in listed_classes(file, self._label)
            or read_labels(file, self._label, self.multi_label, self._map.values).names
        }

    def _labels_of(self, file: Path) -> FileLabels:
        """Return the labels of a file as the classes that they stand for."""
        return read_labels(file, self._label, self.multi_label, self._map.values).renamed(self._map.class_of)

    @property
    def _naming(self) -> str:
        """The split whose labels are the classes; of data that are only scored, the first that is there."""
        return "train" if "train" in self._files else next(iter(self._files), "train")

    def _no_training(self) -> InputError:
        check_data_root(self.root)
        return InputError(f"{self.root} holds no train*.parquet: expected {LAYOUT}; give --data.root")

    @cached_property
    def _training(self) -> list[str]:
        """The different labels of the training files; none where one of them lists its classes."""
        files = self._labels(self._naming)
        return [] if any(file.listed for file in files) else sorted({name for file in files for name in file.names})

    def setup(self, stage: str) -> None:
        if stage == "fit" and "train" not in self._files:
            raise self._no_training()
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test", needs_labels=stage == "test")
        # Paths in equal files of two folders are those of different images.
        with_paths = {split for split, listed in self._listed.items() if len(listed.numbers)}
        split_copies.check_files({split: files for split, files in self._files.items() if split not in with_paths})
        is_given = self.label_column is not None
        for said in named_codes.check(self._named, self._map.numbered, self.class_map, self._label, is_given):
            self.notice(said)
        self._named.clear()
        if self._map.listed is None:
            self._check_meaning()
        for split in self._files:
            self._check_stated(split)
        groups = self._listed["train"].copies() if self.train_set is not None else None
        if self._splits is not None:
            rows = self._divide(self._splits, needs_labels=stage == "test")
            groups = None if groups is None else groups[rows]
        if self._listed:
            parquet_paths.check(list(self._listed.values()))
        name_idle_fraction(self, self.root)
        is_drawn = self.val_set is None and self.val_fraction > 0
        files = [file for file in self._files.get("train", ()) if number_of_rows([file])]
        if "train" not in with_paths and (said := split_copies.copies_that_train(files, is_drawn)):
            self.notice(said)
        for said in parquet_parts.said_of_copies(self._parts):
            self.notice(said)
        if self.val_set is None and self.train_set is not None:  # an image that stands in two rows stays in one split
            self.train_set, self.val_set = hold_out(self.train_set, self.val_fraction, groups=groups)
        for said in parquet_parts.said_of_groups(self._parts, (self._image, self._label)) if stage == "fit" else ():
            self.notice(said)
        self._listed.clear()

    @property
    def _parts(self) -> dict[str, parquet_parts.Part]:
        return parquet_parts.parts_of({"train": self.train_set, "val": self.val_set, "test": self.test_set})

    def _check_stated(self, split: str) -> None:
        """Refuse a column that states each image's split and was not given; say what else may state it."""
        if split == "train" and isinstance(self.split_column, str):
            return
        use: Use = "left" if self.split_column is False else "taken" if split == "train" else "refused"
        known = self._image, self._label
        for notice in parquet_splits.refuse_stated(self._files[split], known, split, use, self.split_words):
            self.notice(notice)

    @cached_property
    def _splits(self) -> np.ndarray | None:
        """The split of each row of the training files, if a column was given that states it."""
        if not isinstance(self.split_column, str) or "train" not in self._files:
            return None
        beside = self._files.keys() - {"train"}
        return parquet_splits.splits_of(self._files["train"], self.split_column, beside, self.split_words)

    def _divide(self, splits: np.ndarray, needs_labels: bool) -> np.ndarray:
        """Divide the training files by the split of each row; return the rows that train."""
        whole, listed = self.train_set, self._listed.pop("train")
        tested = listed.rows.labels[splits == TEST]
        if needs_labels and len(tested) and (tested == IGNORE).all():
            raise InputError(f"{self._files['train'][0]} has no labels of test rows; predict does without them")
        if not self.multi_label and self._map.listed is None and self._training:  # else something else names them
            parquet_splits.check_trained(listed.rows, splits, self.class_names)
        known = [] if self.multi_label else self.class_names
        names = [known[label] if known and label >= 0 else "" for label in listed.rows.labels.tolist()]
        hold_to_run(self, self._files["train"][0], list(map(str, listed.rows.keys)), names, splits)
        for number, split in enumerate(SPLITS):
            if len(rows := np.flatnonzero(splits == number)):
                setattr(self, f"{split}_set", Subset(whole, rows))
                self._listed[split] = listed.part(split, rows)
        return np.flatnonzero(splits == TRAIN)

    @cached_property
    def _files(self) -> dict[str, list[Path]]:
        """The files of each split."""
        found = split_parquet(self.root, self.notice)
        check_counted(file for files in found.values() for file in files)
        return found

    @cached_property
    def _image(self) -> str:
        return self.image_column or self._column("image_column", IMAGE_COLUMNS)

    @cached_property
    def _label(self) -> str:
        return self.label_column or self._column("label_column", LABEL_COLUMNS)

    def _column(self, flag: str, known: Sequence[str]) -> str:
        file = next(files for files in self._files.values() if files)[0]
        return only_column(file, open_table(file).schema_arrow.names, flag, known)

    def _labels(self, split: str) -> list[FileLabels]:
        check_columns(self._files[split], (self._image, self._label))
        return [self._labels_of(file) for file in self._files[split]]

    def _read(self, split: str, needs_labels: bool = True) -> ImageSet | None:
        files = self._files.get(split)
        if not files:
            return None
        if split == "test" and self._is_unlabelled(files, needs_labels):
            check_columns(files, (self._image,))
            return Rows(files, self._image, np.full(number_of_rows(files), IGNORE), self.root)
        classes, ends = [], [np.zeros(1, dtype=np.int64)]
        told = False
        splits = self._splits if split == "train" else None
        found = self._labels(split)
        if split == "train":
            self._check_map(found)
        for labels in found:
            start = sum(map(len, ends)) - 1
            parts = None if splits is None else splits[start : start + len(labels.ends) - 1]
            if split != "test":
                labels.check_complete(self._label, None if parts is None else parts == TEST)
            if not self.multi_label:
                known = self._image, self._label, self.split_column
                self._named += named_codes.in_parquet(labels, known, parts)
                is_given = self.label_column is not None
                for said in named_codes.said_of_listed(labels, known, self._label, is_given):
                    self.notice(said)
                self._check_folders(labels)
            told = told or labels.listed or not set(labels.names) <= {"0", "1"}
            has_map = self._map.listed is not None
            source = self.class_map if has_map else "train"
            training = self._training if not has_map and all(map(is_whole, self.class_names)) else ()
            or_places = has_map and self._may_be_places(labels)
            classes.append(match(labels, self.class_names, source, or_places, split == "test", training))
            ends.append(labels.ends[1:] + ends[-1][-1])
        rows = Ragged(np.concatenate(classes), np.concatenate(ends))
        hidden = _hidden(rows)
        if hidden.all() and len(hidden) and needs_labels:
            raise InputError(f"{files[0]} has no labels, which {split} needs; predict does without them")
        if hidden.any():
            rank_zero_info(
                f"{hidden.sum()} of the {len(hidden)} labels in {split}*.parquet are hidden: they do not count"
            )
        if self.multi_label and split == "train" and not told:
            check_told(str(files[0].parent), ("0", "1"), rows.ends, self.num_classes)
        if not self.multi_label:
            images = Rows(files, self._image, rows.values, self.root)
            self._listed[split] = parquet_paths.Listed(split, images, rows.values)
            return images
        images = Rows(files, self._image, np.zeros(len(rows), dtype=np.int64), self.root)
        self._listed[split] = parquet_paths.Listed(split, images, parquet_paths.numbered(rows, hidden))
        return MultiHot(images, rows, range(len(rows)), self.num_classes, hidden if hidden.any() else None)

    def _may_be_places(self, labels: FileLabels) -> bool:
        """Tell whether numbers in a file may be places in the class map: text only where that says the numbers."""
        if listed := listed_classes(labels.file, self._label):
            return all(map(is_whole, listed)) and numbers_in_place(listed)
        return labels.numbered or self._map.says_numbers

    def _check_folders(self, labels: FileLabels) -> None:
        """Refuse many paths in folders that are called as other labels are; name a few."""
        told = ["" if place < 0 else labels.names[place] for place in labels.places.tolist()]
        paths = given_paths(labels.file, self._image)
        rows = zip([path or "" for path in paths], told, strict=False)
        if found := renamed_folders.differing(rows, self._map.renamed, self._map.by_place):
            self.notice(found.said(str(labels.file), self._label, self.label_column is not None))

    def _check_map(self, training: Sequence[FileLabels]) -> None:
        """Refuse numbers that a class map may mean otherwise, and say which labels it makes one class of."""
        names = {name for labels in training for name in labels.names}
        are_places = all(map(self._may_be_places, training))
        self._map.check_numbers(names, str(self._files["train"][0]), are_places)
        for said in self._map.said(sum((labels.counts() for labels in training), Counter())):
            self.notice(said)

    def _check_meaning(self) -> None:
        """Refuse numbers in one file that may be places among the names of another, or names."""
        files = [file for split in self._files for file in self._files[split]]
        files = [file for file in files if self._label in open_table(file).schema_arrow.names]
        listed = {file: listed_classes(file, self._label) for file in files}
        numbered = [file for file, names in listed.items() if not names and holds_numbers(file, self._label)]
        check_meaning(numbered, [(file, names) for file, names in listed.items() if names])

    def _is_unlabelled(self, files: Sequence[Path], needs_labels: bool) -> bool:
        """Tell whether test files have no labels, and say so."""
        if any(self._label in open_table(file).schema_arrow.names for file in files):
            return False
        if needs_labels:
            raise InputError(f"{files[0]} has no column {self._label!r}, which test needs; predict does without it")
        rank_zero_info(f"{files[0].name} has no column {self._label!r}: its images serve predict alone")
        return True


def _hidden(rows: Ragged) -> np.ndarray:
    """Return which rows have a label that is hidden, bool `(rows,)`: what else they have is not the whole truth."""
    return np.diff(np.append(0, np.cumsum(rows.values == IGNORE))[rows.ends]) > 0
