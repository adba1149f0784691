"""Images listed in tables: one row per image, with its path and its label or labels."""

from functools import cached_property
from pathlib import Path

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import array_cache, doubtful_classes, stated_split, tables_together
from datamodules.reading.array_cache import MappedStrings
from datamodules.reading.beside_columns import group_hint
from datamodules.reading.class_map import (
    WrongLabelsError,
    classes_in_text,
    is_hidden,
)
from datamodules.reading.class_map_file import ClassMap
from datamodules.reading.divided_table import DividedTable
from datamodules.reading.image_index import IndexedImages
from datamodules.reading.joined_words import doubtful, several_in_one
from datamodules.reading.label_text import MISSING, check_told
from datamodules.reading.listed_images import say_hidden, single_labels, unlabelled
from datamodules.reading.multihot import MultiHot
from datamodules.reading.other_tables import other_tables
from datamodules.reading.shared_sequences import Ragged
from datamodules.reading.table_content import TableForm, content
from datamodules.reading.table_labels import TableLabels
from datamodules.reading.table_paths import Paths
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.files import meant

VERSION = "manifest 15"
TRAIN_TABLE = Path("train.csv")


class Manifest(DividedTable):
    """Your own images listed in tables with a header: CSV, TSV, JSON lines or Parquet.

        path,label
        2019/a.jpg,cat
        2019/b.jpg,dog

    Labels are names, whose sorted text is the order of the classes, or whole numbers from 0; 01 and 1e3 are names.
    Labels of all tables are matched by name. Errors count rows from 1, without the header. With `multi_label` an image
    may have any number of them: `cat;dog` in text, or a list; they become float vectors. CSV, TSV and JSON lines may be
    compressed (.csv.gz). JSON is a list of objects, or COCO's with images, annotations and categories; fields of the
    images are columns. A table called _classes.csv (Roboflow's) has a column for each class, but for Unlabeled.

    Images with one value in `group_column`, such as a patient's, are never divided. What `test_fraction` and
    `group_column` draw is kept in split.csv in the run folder, and read again by test, validate, predict and a resumed
    run.

    A table is read once and kept in a form that all processes share; a table that has changed is read again.

    Args:
        root: folder that the tables' names and the paths in them start from; paths may also start from their table's
            folder. A path that leads to two different files is an error.
        train: table of the training images; null: none, to score or predict other data by the net's classes.
        val: table of the validation images; unset: part of the training images is held out.
        test: table of the test images; without a column of labels they serve predict alone.
        path_column: column with the paths, or several whose texts are joined, as [folder, file]; unset: path, else the
            only one of file_name, filename, image and img.
        label_column: column with the labels, or one for each class that holds 0 or 1, as [cat, dog]; unset: label, else
            the only one of labels, fine_label and choice.
        split_column: column of the training table with each image's split: train, val or test; unset: the only one that
            names splits alone; false: none. It names no split that has a table of its own.
        split_names: splits of other words in that column, as {PublicTest: val}.
        group_column: column that says which images stay together; false: none, and no column is proposed.
        image_folder: folder that the paths in the tables start from, or a list of those in which each is looked for;
            unset: root, or the table's own.
        image_prefix: beginning of the paths that is left out.
        image_ending: ending of the files, as .jpg, where the paths lack it.
        multi_label: whether an image may have several labels, or none.
        separator: what stands between several labels in text.
        class_map: file with one class per line, JSON or .csv, in the order of the labels; unset: those of the training
            table. Or .csv, .tsv or .json from labels to the names of their classes, where these are called otherwise.
        cache: folder for what was read; unset: vit_lightning in the user's cache folder.
    """

    def __init__(
        self,
        root: Path,
        train: Path | None = TRAIN_TABLE,
        val: Path | None = None,
        test: Path | None = None,
        path_column: str | list[str] | None = None,
        label_column: str | list[str] | None = None,
        split_column: bool | str | None = None,
        split_names: dict[str, str] | None = None,
        group_column: bool | str | None = None,
        image_folder: str | list[str] | None = None,
        image_prefix: str = "",
        image_ending: str = "",
        multi_label: bool = False,
        separator: str = ";",
        class_map: Path | None = None,
        cache: Path | None = None,
        **kwargs,
    ) -> None:
        super().__init__(root=root, **kwargs)
        self.tables = {"train": train, "val": val, "test": test}
        for split, table in self.tables.items():
            if not isinstance(table, str | Path | None):
                raise InputError(f"--data.{split} {table!r:.60} is no table; give one, with the rows of all files")
        self.lacks_train = train is None or (train == TRAIN_TABLE and bool(val or test) and not self._is_there(train))
        if self.lacks_train:
            self.tables["train"] = None
        self.columns = path_column, label_column
        self.split_column = split_column
        self.split_names = split_names
        stated_split.split_words(split_names)
        stated_split.check_flag(group_column, "group_column")
        self.group_column = group_column or None
        self.proposes_group = group_column is None
        self.image_folder = image_folder
        self.image_prefix = image_prefix
        self.image_ending = f".{image_ending}" if image_ending.isalnum() else image_ending
        self.multi_label = multi_label
        self.separator = separator
        self.class_map = class_map
        self.cache = cache
        if self.lacks_train and not (val or test):
            raise InputError("--data.train null leaves no table; give --data.test")
        stated_split.check_flag(split_column, "split_column")
        if self.lacks_train and split_column:
            raise InputError(f"--data.split_column {split_column} divides the training table; give --data.train")

    def _is_there(self, table: Path) -> bool:
        return (Path(self.root or "") / table).exists()

    @property
    def num_classes(self) -> int | None:
        return len(self.class_names) or None

    @cached_property
    def class_names(self) -> list[str]:
        if self._map.listed is not None:
            return self._map.listed
        if self.lacks_train:
            return self._scored_names()
        table = self._labels("train")
        labels = [] if table.arrays["one_hot"] else table.training()
        try:
            doubtful_classes.check_numbers(labels)
            names = classes_in_text(table.training(), self.multi_label, self.separator, table.most_labels)
        except WrongLabelsError as error:
            raise table.wrong(error.labels, error.why) from error
        for said in doubtful_classes.said_of(names, labels, self._map.renamed.values()):
            self.notice(f"{table.table}: {said}")
        are_listed = self.multi_label and not table.arrays["one_hot"]
        if are_listed and (said := doubtful(names, table.rows.longest > 1, "--data.separator {} divides them")):
            self.notice(said)
        fix = "give --data.multi_label true and --data.separator {}"
        if not self.multi_label and not table.arrays["one_hot"] and (said := several_in_one(names, fix)):
            self.notice(f"{table.table}: {said}")
        return names

    @cached_property
    def _map(self) -> ClassMap:
        return ClassMap(self.class_map, self._all_labels)

    def _all_labels(self) -> set[str]:
        """The different labels of all tables."""
        files = [self._file(split) for split, table in self.tables.items() if table is not None]
        return {name for file in files for name in MappedStrings(file, "names")}

    def _scored_names(self) -> list[str]:
        """The classes of the tables that are scored, which the model looks up among its own."""
        tables = [self._labels(split) for split, table in self.tables.items() if table is not None]
        told = {name for table in tables for name in table.names if not is_hidden(name)}
        try:
            return classes_in_text(told, self.multi_label, self.separator, max(table.most_labels for table in tables))
        except WrongLabelsError as error:
            wrong = next(table for table in tables if {*error.labels} & {*table.names})
            raise wrong.wrong(error.labels, error.why) from error

    def prepare_data(self) -> None:
        for split, table in self.tables.items():
            if table is not None:
                self._file(split)

    def setup(self, stage: str) -> None:
        if self.lacks_train and stage == "fit":
            raise InputError(
                f"{self.root / TRAIN_TABLE} is missing, and a fit needs training images; give --data.train"
            )
        is_stated = self._divides is not None or self.split_file is not None
        for said in [] if self.lacks_train else other_tables(self.root, self.tables, is_stated):
            self.notice(said)
        if self._divides and self._divides != self.split_column:
            self._say(f"{self.tables['train']} has the column {self._divides}, which is taken for --data.split_column")
        for split, table in self.tables.items():
            for notice in MappedStrings(self._file(split), "notices") if table is not None else ():
                self.notice(notice)
        for said in tables_together.check_meaning(self._read_tables, self._map, self.columns[1] is not None):
            self.notice(said)
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test", needs_labels=stage == "test")
        tables_together.check_apart(self._read_tables)
        if self.lacks_train:
            return
        for said in self._map.said(self._labels("train").counts):
            self.notice(said)
        kept = array_cache.load(self._file("train"))
        splits = kept["splits"] if self._divides is not None else None
        self._check_groups(splits)
        for column in MappedStrings(self._file("train"), "may_group") if stage == "fit" and self.proposes_group else ():
            self.notice(group_hint(self.root / str(self.tables["train"]), column))
        if splits is not None:
            self._divide_by_column(splits, kept["digests"])
        else:
            self._draw(np.arange(len(self.train_set)), kept["digests"])
        if stage == "fit" and self.test_set is None:
            self._say("split    no test set; --data.test_fraction 0.15 draws one, and --data.test TABLE names one")

    @property
    def _read_tables(self) -> list[tables_together.ReadTable]:
        return [
            tables_together.ReadTable(split, self.root / table, self._paths(split), self._labels(split))
            for split, table in self.tables.items()
            if table is not None
        ]

    def _paths(self, split: str) -> Paths:
        folders = [(self.root / self.tables[split]).parent, self.root]
        if self.image_folder is not None:
            given = self.image_folder if isinstance(self.image_folder, list | tuple) else [self.image_folder]
            folders = [self.root / folder for folder in given]
        return Paths(self._file(split), folders)

    def _file(self, split: str) -> Path:
        """Return the file that keeps the content of a split's table, which is read if need be."""
        table = (self.root / self.tables[split]).resolve()
        form = self._form(split)
        file = array_cache.cache_file(self.cache, table, f"{VERSION} {form}")
        state = array_cache.content_state(table)
        if not any(state):
            raise InputError(f"{table} is missing; give --data.root and --data.{split}{meant(table)}")
        if not file.exists() or tuple(array_cache.load(file)["stamp"]) != state:
            rank_zero_info(f"reading {table}, once")
            array_cache.save(file, {**content(table, form), "stamp": np.array(state)})
        return file

    def _form(self, split: str) -> TableForm:
        """Return how the table of a split is read."""
        return TableForm(
            columns=self.columns,
            split=(self.split_column or None) if split == "train" else None,
            group=self.group_column,
            prefix=self.image_prefix,
            ending=self.image_ending,
            multi_label=self.multi_label,
            separator=self.separator if self.multi_label else ";",
            of=split,
            stated=self._stated(split),
            words=tuple(sorted((self.split_names or {}).items())),
            beside=tuple(other for other, table in self.tables.items() if split == "train" != other and table),
            missing=tuple(word for word in MISSING if word not in self._called_missing),
            lists=self._map.lists,
            renamed=tuple(sorted(self._map.lines.items())),
            by_place=tuple(self._map.by_place.items()),
        )

    @cached_property
    def _called_missing(self) -> frozenset[str]:
        """The names of the class map, in small letters: a class may be called none."""
        return frozenset(map(str.lower, self._map.words))

    def _read(self, split: str, needs_labels: bool = True) -> ImageSet | None:
        if self.tables[split] is None:
            return None
        table = self.root / self.tables[split]
        file = self._file(split)
        arrays = array_cache.load(file)
        rows = Ragged(arrays["labels.values"], arrays["labels.ends"])
        paths = self._paths(split)
        if fault := paths.fault(table):
            self.report(InputError(fault))
        names = list(MappedStrings(file, "names"))
        if not names:
            return unlabelled(paths, table, needs_labels, "labels" if arrays["has_labels"] else "column of labels")
        numbers = self._numbers(split)
        if self.multi_label and split == "train" and not arrays["one_hot"]:
            check_told(str(table), names, rows.ends, self.num_classes)
        if not np.array_equal(numbers, np.arange(len(numbers))):
            rows = Ragged(numbers[rows.values], rows.ends)
        if not self.multi_label:
            return IndexedImages(paths, single_labels(rows, table, needs_labels))
        images = IndexedImages(paths, np.zeros(len(paths), np.int8))
        hidden = arrays["hidden"]
        if IGNORE in numbers:  # -1, which the table has as a name
            row_of = np.repeat(np.arange(len(rows)), np.diff(rows.ends.astype(np.int64)))
            hidden = hidden | np.isin(np.arange(len(rows)), row_of[rows.values == IGNORE])
        say_hidden(int(hidden.sum()), len(hidden), table, needs_labels)
        return MultiHot(images, rows, range(len(rows)), self.num_classes, hidden if hidden.any() else None)

    def _labels(self, split: str) -> TableLabels:
        is_divided = split == "train" and self._divides is not None
        return TableLabels(self._file(split), self.root / self.tables[split], is_divided, self._map.class_of)

    def _numbers(self, split: str) -> np.ndarray:
        """Return the class of each name in a table."""
        train = self._labels(split if self.lacks_train else "train")
        has_list = self._map.listed is not None
        source = f"{self.class_map if has_list else train.table} lacks"
        if self._divides is not None and not has_list:
            source = f"the training images of {train.table} lack by its column {self._divides!r}"
            source += "" if self.split_column else f"; {stated_split.LEFT_ALONE}"
        if self.multi_label:
            source += f"; labels are split at --data.separator {self.separator!r}"
        if has_list and split == "train":
            self._map.check_numbers(train.training(), str(train.table))
        training = None if has_list else [] if train.lists_classes else train.training()
        return self._labels(split).numbers(self.class_names, training, source, may_hide=split == "test")


class WebScale(Manifest):
    """A private set of very many images with any number of labels each, as JFT-300M is, listed in a table.

    It is `Manifest` with the defaults of such a set. Train on it with --model.loss sigmoid and --model.net.head_bias
    -10, as the paper does (appendix B.1). Give it a class_map: else the table is read to learn the number of classes.

    Args:
        root: folder that the tables' names and the paths in them start from.
        train: table of the training images, with columns path and labels.
        val_fraction: share of the training images held out for validation if there is no table for it; 0: none.
    """

    def __init__(
        self,
        root: Path,
        train: Path = Path("train.parquet"),
        label_column: str = "labels",
        multi_label: bool = True,
        val_fraction: float | None = 0.001,
        **kwargs,
    ) -> None:
        super().__init__(
            root=root,
            train=train,
            label_column=label_column,
            multi_label=multi_label,
            val_fraction=val_fraction,
            **kwargs,
        )
