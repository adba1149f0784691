"""Images listed in tables: one row per image, with its path and its label or labels."""

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import array_cache, table_repeats
from datamodules.reading.array_cache import MappedStrings
from datamodules.reading.class_map import (
    WrongLabelsError,
    check_meaning,
    check_order,
    class_numbers,
    classes_in_text,
    first_of,
    is_hidden,
    read_class_map,
)
from datamodules.reading.divided_data import DividedData
from datamodules.reading.drawn_split import TEST, TRAIN, VAL, used_in
from datamodules.reading.image_index import IndexedImages
from datamodules.reading.label_text import check_told, joined, look_alike
from datamodules.reading.multihot import MultiHot
from datamodules.reading.shared_sequences import Ragged
from datamodules.reading.splits import SPLITS
from datamodules.reading.table_content import TableForm, content
from datamodules.reading.table_paths import Paths
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError

VERSION = "manifest 8"
SEPARATORS = (",", ";", "|")
"""Signs that stand between labels in text."""


class Manifest(DividedData):
    """Your own images listed in tables with a header: CSV, TSV, JSON lines or Parquet.

        path,label
        2019/a.jpg,cat
        2019/b.jpg,dog

    Labels are names, whose sorted text is the order of the classes, or whole numbers from 0; 01 and 1e3 are names.
    Labels of all tables are matched by name. Errors count rows from 1, without the header. With `multi_label` an image
    may have any number of them: `cat;dog` in text, or a list; they become float vectors. CSV, TSV and JSON lines may be
    compressed (.csv.gz). JSON is a list of objects, or COCO's with images, annotations and categories. A table called
    _classes.csv (Roboflow's) has a column for each class.

    Images with one value in `group_column`, such as a patient's, are never divided. What `test_fraction` and
    `group_column` draw is kept in split.csv in the run folder, and read again by test, validate, predict and a resumed
    run.

    A table is read once and kept in a form that all processes share; a table that has changed is read again.

    Args:
        root: folder that the tables' names and the paths in them start from; paths may also start from their table's
            folder. A path that leads to two different files is an error.
        train: table of the training images.
        val: table of the validation images; unset: part of the training images is held out.
        test: table of the test images; without a column of labels they serve predict alone.
        path_column: column with the paths, or several whose texts are joined, as [folder, file]; unset: path, else the
            only one of file_name, filename, image and img.
        label_column: column with the labels, or one for each class that holds 0 or 1, as [cat, dog]; unset: label, else
            the only one of labels, fine_label and choice.
        split_column: column of the training table with each image's split: train, val or test.
        group_column: column that says which images stay together.
        image_folder: folder that the paths in the tables start from; unset: root, or the table's own.
        image_prefix: beginning of the paths that is left out.
        image_ending: ending of the files, as .jpg, where the paths lack it.
        multi_label: whether an image may have several labels, or none.
        separator: what stands between several labels in text.
        class_map: file with one class per line, JSON or .csv, in the order of the labels; unset: those of the training
            table.
        cache: folder for what was read; unset: vit_lightning in the user's cache folder.
    """

    def __init__(
        self,
        root: Path,
        train: Path = Path("train.csv"),
        val: Path | None = None,
        test: Path | None = None,
        path_column: str | list[str] | None = None,
        label_column: str | list[str] | None = None,
        split_column: str | None = None,
        group_column: str | None = None,
        image_folder: Path | None = None,
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
        self.columns = path_column, label_column
        self.split_column = split_column
        self.group_column = group_column
        self.image_folder = image_folder
        self.image_prefix = image_prefix
        self.image_ending = f".{image_ending}" if image_ending.isalnum() else image_ending
        self.multi_label = multi_label
        self.separator = separator
        self.class_map = class_map
        self.cache = cache
        if split_column is not None and (val or test):
            raise InputError(f"--data.split_column {split_column} divides the table; drop --data.val and --data.test")

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        if self.class_map is not None:
            return read_class_map(self.class_map)
        try:
            names = classes_in_text(self._training_names())
            self._check_separator(names)
            return names
        except WrongLabelsError as error:
            raise self._wrong("train", error.labels, error.why) from error

    def _check_separator(self, names: Collection[str]) -> None:
        """Refuse labels that hold others with another sign between them; a blank is a part of names too often."""
        if not self.multi_label:
            return
        if found := joined(names, [sign for sign in SEPARATORS if sign != self.separator]):
            fix = f"give --data.separator {found[1]!r} if it holds several labels, else --data.class_map"
            raise WrongLabelsError([found[0]], f", whose parts are labels of their own; {fix}")
        if found := joined(names, [" "]):
            self.notice(
                f"the label {found[0]!r} may be several, as each of its words is a label: --data.separator ' ' divides "
                "them"
            )

    def _training_names(self) -> list[str]:
        """Return the different labels of the training table's training images."""
        file = self._file("train")
        names, arrays = list(MappedStrings(file, "names")), array_cache.load(file)
        if self.split_column is None or arrays["one_hot"]:
            return names
        return [names[place] for place in used_in(arrays, TRAIN)]

    def prepare_data(self) -> None:
        for split, table in self.tables.items():
            if table is not None:
                self._file(split)

    def setup(self, stage: str) -> None:
        self._name_other_tables()
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test", needs_labels=stage == "test")
        self._check_apart()
        self._check_meaning()
        kept = array_cache.load(self._file("train"))
        rows = np.arange(len(self.train_set))
        if self.split_column is not None:
            splits = kept["splits"]
            rows = np.flatnonzero(splits == TRAIN)
            whole, parts = self.train_set, [np.flatnonzero(splits == split) for split in (VAL, TEST)]
            self.train_set = Subset(whole, rows)
            self.val_set, self.test_set = (Subset(whole, part) if len(part) else None for part in parts)
            self._check_groups(splits)
        else:
            self._check_groups()
        lacking = self.val_set is None, self.test_set is None
        if self.wants_divided(lacking) or (self.group_column is not None and lacking[0]):
            self._divide(rows, lacking)
        elif lacking[0]:
            self.hold_out()

    def _divide(self, rows: np.ndarray, lacking: tuple[bool, bool]) -> None:
        """Divide the training images, which are these rows of their table."""
        images = self.train_set
        labels = [
            np.flatnonzero(images[row][1]) if self.multi_label else [images.labels[row]] for row in range(len(rows))
        ]
        counts = Counter(int(label) for some in labels for label in some)
        rarest = [min((counts[int(label)], int(label)) for label in some)[1] if len(some) else -1 for some in labels]
        names = [self.separator.join(self.class_names[label] for label in some) for some in labels]
        groups = None
        if self.group_column is not None:
            found = MappedStrings(self._file("train"), "groups")
            groups = [found[int(row)] for row in rows]
        self.divide(rarest, names, groups, lacking)

    def _check_apart(self) -> None:
        """Refuse an image that two of the tables have, but for test images without labels, which serve predict."""
        found = []
        for split, table in self.tables.items():
            if table is not None and (arrays := array_cache.load(self._file(split)))["has_labels"].all():
                found.append(table_repeats.Listed(split, self.root / table, arrays["digests"], self._paths(split)))
        table_repeats.check_apart(found)

    def _check_meaning(self) -> None:
        """Refuse numbers in one table that may be places among the names of another, or names."""
        files = {self.root / table: self._file(split) for split, table in self.tables.items() if table is not None}
        if self.class_map is None:
            check_meaning(
                [table for table, file in files.items() if array_cache.load(file)["numbered"].all()],
                [(table, list(MappedStrings(file, "listed"))) for table, file in files.items()],
            )

    def _paths(self, split: str) -> Paths:
        folders = [(self.root / self.tables[split]).parent, self.root]
        return Paths(self._file(split), folders if self.image_folder is None else [self.root / self.image_folder])

    def _check_groups(self, splits: np.ndarray | None = None) -> None:
        """Refuse a group with images in two splits that the tables give."""
        if self.group_column is None:
            return
        tables = [split for split, table in self.tables.items() if table is not None]
        found = {split: list(MappedStrings(self._file(split), "groups")) for split in tables}
        if splits is not None:
            found = {
                name: [found["train"][row] for row in np.flatnonzero(splits == split)]
                for split, name in enumerate(SPLITS)
            }
        table_repeats.check_groups(found, self.group_column)

    def _name_other_tables(self) -> None:
        """Say which tables lie beside that of the training images and are not asked for."""
        train = self.root / self.tables["train"]
        ending = train.name.partition(".")[2]
        for split in ("val", "test"):
            beside = [train.with_name(f"{name}.{ending}") for name in SPLITS[split]]
            if train.parent != self.root:
                beside += [train.parent.parent / name / train.name for name in SPLITS[split]]
            there = [table for table in beside if table != train and table.is_file()]
            if there and self.tables[split] is None:
                self.notice(f"{there[0]} is not read; give --data.{split} {there[0]} if it holds {split} images")

    def _file(self, split: str) -> Path:
        """Return the file that keeps the content of a split's table, which is read if need be."""
        table = (self.root / self.tables[split]).resolve()
        form = self._form(split)
        file = array_cache.cache_file(self.cache, table, f"{VERSION} {form}")
        state = array_cache.content_state(table)
        if not any(state):
            raise InputError(f"{table} is missing; give --data.root and --data.{split}")
        if not file.exists() or tuple(array_cache.load(file)["stamp"]) != state:
            rank_zero_info(f"reading {table}, once")
            array_cache.save(file, {**content(table, form), "stamp": np.array(state)})
        return file

    def _form(self, split: str) -> TableForm:
        """Return how the table of a split is read."""
        return TableForm(
            columns=self.columns,
            split=self.split_column if split == "train" else None,
            group=self.group_column,
            prefix=self.image_prefix,
            ending=self.image_ending,
            multi_label=self.multi_label,
            separator=self.separator if self.multi_label else ";",
            is_test=split == "test",
        )

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
            return self._unlabelled(
                paths, table, needs_labels, "labels" if arrays["has_labels"] else "column of labels"
            )
        numbers = self._numbers(names, rows, split)
        if self.multi_label and split == "train" and not arrays["one_hot"]:
            check_told(str(table), names, rows.ends, self.num_classes)
        if not np.array_equal(numbers, np.arange(len(numbers))):
            rows = Ragged(numbers[rows.values], rows.ends)
        if not self.multi_label:
            return IndexedImages(paths, self._single(rows, table, needs_labels))
        images = IndexedImages(paths, np.zeros(len(paths), np.int8))
        hidden = arrays["hidden"]
        if IGNORE in numbers:  # -1, which the table has as a name
            row_of = np.repeat(np.arange(len(rows)), np.diff(rows.ends.astype(np.int64)))
            hidden = hidden | np.isin(np.arange(len(rows)), row_of[rows.values == IGNORE])
        self._check_hidden(int(hidden.sum()), len(hidden), table, needs_labels)
        return MultiHot(images, rows, range(len(rows)), self.num_classes, hidden if hidden.any() else None)

    def _single(self, rows: Ragged, table: Path, needs_labels: bool) -> np.ndarray:
        """Return one label per row, IGNORE where that of a test image is hidden."""
        if len(rows.values) == len(rows) and (rows.values >= 0).all():
            return rows.values
        labels = np.full(len(rows), IGNORE, dtype=np.int32)
        labels[np.diff(rows.ends) == 1] = rows.values
        self._check_hidden(int((labels == IGNORE).sum()), len(labels), table, needs_labels)
        return labels

    def _check_hidden(self, hidden: int, count: int, table: Path, needs_labels: bool) -> None:
        """Say how many labels are hidden, and refuse to test without any."""
        if hidden == count and needs_labels:
            raise InputError(f"{table} has no labels, which test needs; predict does without them")
        if hidden:
            rank_zero_info(f"{hidden} of the {count} labels in {table.name} are hidden: they do not count")

    def _unlabelled(self, paths: Paths, table: Path, needs_labels: bool, what: str) -> IndexedImages:
        if needs_labels:
            raise InputError(f"{table} has no {what}, which test needs; predict does without it")
        rank_zero_info(f"{table} has no {what}: its images serve predict alone")
        return IndexedImages(paths, np.full(len(paths), IGNORE))

    def _numbers(self, names: Sequence[str], rows: Ragged, split: str) -> np.ndarray:
        """Return the class of each name in a table."""
        if self.class_map is not None and array_cache.load(self._file(split))["numbered"].all():
            check_order(self.class_names, str(self.root / self.tables[split]))
        numbers = class_numbers(names, self.class_names, or_numbers=self.class_map is not None)
        if split == "test" or self.split_column is not None:
            hidden = np.array([is_hidden(name) for name in names], bool) & (numbers < 0)
            if split == "train":
                hidden[used_in(array_cache.load(self._file("train")), TRAIN, VAL)] = False
            numbers[hidden] = IGNORE
        named = zip(names, numbers.tolist(), strict=True)
        unknown = {name for name, number in named if number < 0 and number != IGNORE}
        if unknown & {names[place] for place in np.unique(rows.values)}:  # a column for each class may be empty
            train = self.root / self.tables["train"]
            source = f"{self.class_map or train} lacks"
            if self.split_column is not None and self.class_map is None:
                source = f"the training images of {train} lack"
            split_at = f"; labels are split at --data.separator {self.separator!r}" if self.multi_label else ""
            raise self._wrong(split, unknown, f", which {source}{split_at}", self.class_names)
        return numbers

    def _wrong(self, split: str, labels: Collection[str], why: str, known: Sequence[str] = ()) -> InputError:
        """Say which is the first row with one of some labels that cannot be, and which known one it resembles."""
        file = self._file(split)
        arrays = array_cache.load(file)
        rows = Ragged(arrays["labels.values"], arrays["labels.ends"])
        row, label = first_of(labels, MappedStrings(file, "names"), rows)
        place = f"{label!r:.60} in row {row + 1} ({MappedStrings(file, 'paths')[row]})"
        return InputError(f"{self.root / self.tables[split]} has the label {place}{why}{look_alike(label, known)}")


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
