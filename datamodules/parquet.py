"""Parquet files with encoded images and labels, as Hugging Face publishes data sets."""

import json
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from datamodules.reading.damaged_files import reading, reason
from vit_lightning.data import ImageDataModule
from vit_lightning.data.datamodule import MOST_CLASSES
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import hold_out
from vit_lightning.errors import InputError

CACHE_BYTES = 256 * 2**20
"""How many bytes of row groups one process keeps; a shuffled order comes back to each of them."""


class RowNames(Sequence[str]):
    """Names of rows, such as train-00001.parquet:17, counted from 0 in each file.

    Args:
        files: the files, in order.
        starts: number of the first row of each, and of all rows.
    """

    def __init__(self, files: Sequence[Path], starts: Sequence[int]) -> None:
        self.files = files
        self.starts = starts

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, index: int) -> str:
        index = range(len(self))[index]
        file = bisect_right(self.starts, index) - 1
        return f"{self.files[file].name}:{index - self.starts[file]}"


class Rows:
    """Rows of Parquet files, read one row group at a time where they are asked for.

    Args:
        files: the files of one split, in order.
        image: name of the image column: encoded bytes, or a struct with a field `bytes`.
        labels: one class per row.
    """

    def __init__(self, files: Sequence[Path], image: str, labels: np.ndarray) -> None:
        self.files = files
        self.image = image
        self.labels = labels
        self.groups = []
        sizes, rows = [0], [0]
        largest = 1
        for number, file in enumerate(files):
            metadata = open_table(file).metadata
            rows.append(rows[-1] + metadata.num_rows)
            for group in range(metadata.num_row_groups):
                self.groups.append((number, group))
                sizes.append(metadata.row_group(group).num_rows)
                largest = max(largest, metadata.row_group(group).total_byte_size)
        self.starts = np.cumsum(sizes)
        self.places = RowNames(files, rows)
        self.keys: Sequence[str] = self.places
        self.keep = max(1, CACHE_BYTES // largest)
        self.cache: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        group = int(np.searchsorted(self.starts, index, side="right")) - 1
        try:
            data = self._images(group)[index - int(self.starts[group])].as_py()
        except Exception as error:  # see damage.reading
            raise BrokenImage(self.places[index], reason(error)) from error
        if data is None:
            raise BrokenImage(self.places[index], f"the column {self.image!r} holds no bytes")
        return data, int(self.labels[index])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": {}}

    def _images(self, group: int):
        if group not in self.cache:
            if len(self.cache) >= self.keep:
                self.cache.pop(next(iter(self.cache)))
            file, number = self.groups[group]
            table = open_table(self.files[file]).read_row_group(number, columns=[self.image], use_threads=False)
            column = table.column(0).combine_chunks()
            self.cache[group] = column.field("bytes") if hasattr(column, "field") else column
        return self.cache[group]


class Parquet(ImageDataModule):
    """Parquet files with encoded images and labels, as Hugging Face publishes data sets.

    Under root, or under root/data, lie

        train*.parquet
        val*.parquet      (without it, part of train is held out)
        test*.parquet     (optional)

    The image column holds encoded bytes, or a struct with a field `bytes`. The label column holds whole numbers, whose
    names are taken from Hugging Face's schema metadata where there are any, or text. Needs pyarrow:
    `pip install 'vit-lightning[parquet]'`.

    Args:
        root: folder that holds the files.
        image_column: column with the images.
        label_column: column with the labels.
        val_fraction: share of the training images held out for validation if there is no val file; 0: none.
    """

    def __init__(
        self,
        root: Path,
        image_column: str = "image",
        label_column: str = "label",
        val_fraction: float = 0.1,
        **kwargs,
    ) -> None:
        super().__init__(root=root, **kwargs)
        self.image_column = image_column
        self.label_column = label_column
        self.val_fraction = val_fraction

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        files = self._files("train")
        if not files:
            raise InputError(
                f"{self.root} holds no train*.parquet: expected train*.parquet, and perhaps val*.parquet and "
                "test*.parquet, in it or in its folder data; give --data.root"
            )
        metadata = open_table(files[0]).schema_arrow.metadata or {}
        with reading(files[0]):
            features = json.loads(metadata.get(b"huggingface", "{}")).get("info", {}).get("features", {})
            if names := features.get(self.label_column, {}).get("names"):
                return list(map(str, names))
        labels = self._labels("train")
        if labels.dtype.kind == "i":
            greatest = labels.max(initial=-1)
            if greatest >= MOST_CLASSES:
                raise InputError(f"{files[0].parent} has the label {greatest}, which is no class below {MOST_CLASSES}")
            return [str(label) for label in range(greatest + 1)]
        return sorted(set(labels))

    def setup(self, stage: str) -> None:
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test")
        if self.val_set is None:
            self.train_set, self.val_set = hold_out(self.train_set, self.val_fraction)

    def _files(self, split: str) -> list[Path]:
        folders = (self.root, self.root / "data")
        return next(filter(None, (sorted(folder.glob(f"{split}*.parquet")) for folder in folders)), [])

    def _read(self, split: str) -> Rows | None:
        files = self._files(split)
        if not files:
            return None
        labels = self._labels(split)
        if labels.dtype.kind != "i":
            if unknown := sorted(set(labels) - set(self.class_names)):
                raise InputError(f"{split}*.parquet under {self.root} has the label {unknown[0]!r}, which train lacks")
            labels = np.searchsorted(self.class_names, labels)
        if split == "test":
            labels = np.where(labels == -1, IGNORE, labels)  # published test sets hide their labels as -1
        return Rows(files, self.image_column, labels)

    def _labels(self, split: str) -> np.ndarray:
        columns = []
        for file in self._files(split):
            parquet = open_table(file)
            for column in (self.image_column, self.label_column):
                if column not in parquet.schema_arrow.names:
                    raise InputError(
                        f"{file} has no column {column!r} but {', '.join(parquet.schema_arrow.names)}; "
                        "give --data.image_column and --data.label_column"
                    )
            column = read_columns(file, [self.label_column]).column(0)
            if column.null_count:
                raise InputError(f"{file} has {column.null_count} rows without a {self.label_column}")
            with reading(file):
                columns.append(column.to_numpy())
            if columns[-1].dtype.kind not in "iu" and not all(isinstance(label, str) for label in columns[-1]):
                raise InputError(
                    f"{file} has {column.type} in its column {self.label_column!r}; expected whole numbers or text"
                )
        labels = np.concatenate(columns)
        return labels.astype(np.int64) if labels.dtype.kind == "u" else labels


def open_table(file: Path):
    """Return a Parquet file whose content is read when it is asked for."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'vit-lightning[parquet]'") from error
    with reading(file):
        return ParquetFile(file, memory_map=True)


def read_columns(file: Path, columns: Sequence[str]):
    """Return whole columns of a Parquet file, a field of a struct being named as image.path is."""
    opened = open_table(file)
    with reading(file):
        table = opened.read(list(columns))
    if table.num_columns < len(columns):
        raise InputError(f"{file} has no {' and '.join(columns)} but {', '.join(opened.schema_arrow.names)}")
    return table
