"""Parquet files with encoded images and labels, as Hugging Face publishes data sets."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.images import BrokenImage
from vit_lightning.sampling import IGNORE
from vit_lightning.subsets import hold_out

CACHE_BYTES = 256 * 2**20
"""How many bytes of row groups one process keeps; a shuffled order comes back to each of them."""


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
        sizes = [0]
        largest = 1
        for number, file in enumerate(files):
            metadata = _open(file).metadata
            for group in range(metadata.num_row_groups):
                self.groups.append((number, group))
                sizes.append(metadata.row_group(group).num_rows)
                largest = max(largest, metadata.row_group(group).total_byte_size)
        self.starts = np.cumsum(sizes)
        self.keep = max(1, CACHE_BYTES // largest)
        self.cache: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        group = int(np.searchsorted(self.starts, index, side="right")) - 1
        data = self._images(group)[index - int(self.starts[group])].as_py()
        if data is None:
            raise BrokenImage(f"row {index} of {self.files[0].parent}", f"the column {self.image!r} holds no bytes")
        return data, int(self.labels[index])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": {}}

    def _images(self, group: int):
        if group not in self.cache:
            if len(self.cache) >= self.keep:
                self.cache.pop(next(iter(self.cache)))
            file, number = self.groups[group]
            table = _open(self.files[file]).read_row_group(number, columns=[self.image], use_threads=False)
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
        metadata = _open(files[0]).schema_arrow.metadata or {}
        features = json.loads(metadata.get(b"huggingface", "{}")).get("info", {}).get("features", {})
        if names := features.get(self.label_column, {}).get("names"):
            return names
        labels = self._labels("train")
        if labels.dtype.kind == "i":
            return [str(label) for label in range(labels.max(initial=-1) + 1)]
        return sorted(set(labels))

    def setup(self, stage: str) -> None:
        self.train_set, self.val_set, self.test_set = (self._read(split) for split in ("train", "val", "test"))
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
            parquet = _open(file)
            for column in (self.image_column, self.label_column):
                if column not in parquet.schema_arrow.names:
                    raise InputError(
                        f"{file} has no column {column!r} but {', '.join(parquet.schema_arrow.names)}; "
                        "give --data.image_column and --data.label_column"
                    )
            column = parquet.read([self.label_column]).column(0)
            if column.null_count:
                raise InputError(f"{file} has {column.null_count} rows without a {self.label_column}")
            columns.append(column.to_numpy())
        return np.concatenate(columns)


def _open(file: Path):
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'vit-lightning[parquet]'") from error
    return ParquetFile(file, memory_map=True)
