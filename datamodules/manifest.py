"""Images listed in tables: one row per image, with its path and its label or labels."""

import csv
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import array_cache
from datamodules.reading.array_cache import MappedStrings
from datamodules.reading.class_map import class_numbers, classes_of, read_class_map
from datamodules.reading.damaged_files import reading
from datamodules.reading.image_index import IndexedImages
from datamodules.reading.multihot import MultiHot
from datamodules.reading.parquet_rows import open_table
from datamodules.reading.shared_sequences import Ragged, Strings
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.subsets import check_share, hold_out
from vit_lightning.errors import InputError

VERSION = "manifest 1"
DELIMITERS = {".csv": ",", ".tsv": "\t"}


class Paths(MappedStrings):
    """Paths of image files that start from a folder.

    Args:
        file: where they are kept.
        root: the folder.
    """

    def __init__(self, file: Path, root: Path) -> None:
        super().__init__(file, "paths")
        self.root = root

    def __reduce__(self) -> tuple:
        return Paths, (self.file, self.root)

    def image(self, number: int) -> Path:
        """Return an image's path, which starts from where the program runs."""
        return self.root / self[number]


class Manifest(ImageDataModule):
    """Your own images listed in tables: CSV or TSV with a header, or Parquet.

        path,label
        2019/a.jpg,cat
        2019/b.jpg,dog

    Labels are names, whose sorted text is the order of the classes, or whole numbers from 0. With `multi_label` an
    image may have any number of them: `cat;dog` in text, or a list column in Parquet; they become float vectors.

    A table is read once and kept in a form that all processes share; a table that has changed is read again.

    Args:
        root: folder that the tables' names and the paths in them start from.
        train: table of the training images.
        val: table of the validation images; unset: part of the training images is held out.
        test: table of the test images.
        path_column: column with the paths.
        label_column: column with the labels.
        multi_label: whether an image may have several labels, or none.
        separator: what stands between several labels in text.
        class_map: text file with one class per line, in the order of the labels; unset: those of the training table.
        val_fraction: share of the training images held out for validation if there is no table for it; 0: none.
        cache: folder for what was read; unset: vit_lightning in the user's cache folder.
    """

    def __init__(
        self,
        root: Path,
        train: Path = Path("train.csv"),
        val: Path | None = None,
        test: Path | None = None,
        path_column: str = "path",
        label_column: str = "label",
        multi_label: bool = False,
        separator: str = ";",
        class_map: Path | None = None,
        val_fraction: float = 0.1,
        cache: Path | None = None,
        **kwargs,
    ) -> None:
        super().__init__(root=root, **kwargs)
        self.tables = {"train": train, "val": val, "test": test}
        self.columns = path_column, label_column
        self.multi_label = multi_label
        self.separator = separator
        self.class_map = class_map
        self.val_fraction = check_share(val_fraction)
        self.cache = cache

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        if self.class_map is None:
            return classes_of(list(MappedStrings(self._file("train"), "names")), self.root / self.tables["train"])
        return read_class_map(self.class_map)

    def prepare_data(self) -> None:
        for split, table in self.tables.items():
            if table is not None:
                self._file(split)

    def setup(self, stage: str) -> None:
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test")
        if self.val_set is None:
            self.train_set, self.val_set = hold_out(self.train_set, self.val_fraction)

    def _file(self, split: str) -> Path:
        """Return the file that keeps the content of a split's table, which is read if need be."""
        table = (self.root / self.tables[split]).resolve()
        version = "\n".join((VERSION, *self.columns, self.separator * self.multi_label))
        file = array_cache.cache_file(self.cache, table, version)
        state = array_cache.file_state(table)
        if not any(state):
            raise InputError(f"{table} is missing; give --data.root and --data.{split}")
        if not file.exists() or tuple(array_cache.load(file)["stamp"]) != state:
            rank_zero_info(f"reading {table}, once")
            array_cache.save(file, {**self._content(table), "stamp": np.array(state)})
        return file

    def _content(self, table: Path) -> dict[str, np.ndarray | Strings | Ragged]:
        """Read a table: paths, names of labels in order, and which of them each image has."""
        numbers: dict[str, int] = {}
        labels, ends = array("i"), array("q", [0])

        def paths() -> Iterator[str]:
            for row, (path, cell) in enumerate(_rows(table, self.columns), start=1):
                found = self._split(cell)
                if not path:
                    raise InputError(f"{table} has no path in row {row}")
                if len(found) != 1 and not self.multi_label:
                    raise InputError(
                        f"{table} has {len(found)} labels in row {row} ({path}), expected one; "
                        "give --data.multi_label true for images with several labels or none"
                    )
                labels.extend(numbers.setdefault(name, len(numbers)) for name in found)
                ends.append(len(labels))
                yield path

        kept = Strings(paths())
        if not numbers:
            raise InputError(f"{table} has {len(kept)} rows and no label in any")
        names = sorted(numbers)
        place = np.empty(len(names), dtype=np.int32)
        place[[numbers[name] for name in names]] = np.arange(len(names))
        rows = Ragged(place[np.array(labels, dtype=np.int32)], np.array(ends))
        return {"paths": kept, "names": Strings(names), "labels": rows}

    def _split(self, cell: Any) -> list[str]:
        if isinstance(cell, str):
            cell = cell.split(self.separator) if self.multi_label else [cell]
        elif not isinstance(cell, Iterable):
            cell = [] if cell is None else [cell]
        return [name for item in cell if (name := str(item).strip())]

    def _read(self, split: str) -> ImageSet | None:
        if self.tables[split] is None:
            return None
        file = self._file(split)
        arrays = array_cache.load(file)
        rows = Ragged(arrays["labels.values"], arrays["labels.ends"])
        paths = Paths(file, self.root)
        numbers = self._numbers(list(MappedStrings(file, "names")), rows, split, paths)
        if not np.array_equal(numbers, np.arange(len(numbers))):
            rows = Ragged(numbers[rows.values], rows.ends)
        if not self.multi_label:
            return IndexedImages(paths, rows.values)
        return MultiHot(IndexedImages(paths, np.zeros(len(paths), np.int8)), rows, range(len(rows)), self.num_classes)

    def _numbers(self, names: Sequence[str], rows: Ragged, split: str, paths: Paths) -> np.ndarray:
        """Return the class of each name in a table."""
        numbers = class_numbers(names, self.class_names, or_numbers=True)
        unknown = np.flatnonzero(numbers < 0)
        if len(unknown):
            first = np.argmax(rows.values == unknown[0])
            row = int(np.searchsorted(rows.ends, first, side="right")) - 1
            split_at = f"; labels are split at --data.separator {self.separator!r}" if self.multi_label else ""
            raise InputError(
                f"{self.root / self.tables[split]} has the label {names[unknown[0]]!r} in row {row + 1} "
                f"({paths[row]}), which {self.class_map or self.root / self.tables['train']} lacks{split_at}"
            )
        return numbers


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
        val_fraction: float = 0.001,
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


def _rows(table: Path, columns: tuple[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield path and labels of each row."""
    if table.suffix == ".parquet":
        opened = open_table(table)
        _check_columns(table, opened.schema_arrow.names, columns)
        with reading(table):
            for batch in opened.iter_batches(columns=list(columns)):
                yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        return
    if table.suffix not in DELIMITERS:
        raise InputError(f"{table} must end in .csv, .tsv or .parquet")
    with reading(table), table.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.DictReader(file, delimiter=DELIMITERS[table.suffix])
        _check_columns(table, lines.fieldnames or [], columns)
        for line in lines:
            yield line[columns[0]], line[columns[1]]


def _check_columns(table: Path, found: Sequence[str], columns: tuple[str, str]) -> None:
    for name, flag in zip(columns, ("path_column", "label_column"), strict=True):
        if name not in found:
            raise InputError(f"{table} has no column {name!r} but {', '.join(found) or 'none'}; give --data.{flag}")
