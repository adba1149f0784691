"""Parquet files with encoded images and labels, as Hugging Face publishes data sets."""

import json
from functools import cached_property
from pathlib import Path

import numpy as np

from datamodules.reading.class_map import class_numbers, numbered_classes
from datamodules.reading.damaged_files import reading
from datamodules.reading.parquet_rows import Rows, open_table, read_columns
from vit_lightning.data import ImageDataModule
from vit_lightning.data.sampling import IGNORE
from vit_lightning.data.subsets import hold_out
from vit_lightning.errors import InputError


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
            return numbered_classes(int(labels.max(initial=-1)), files[0].parent)
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
            numbers = class_numbers(labels, self.class_names)
            if (numbers < 0).any():
                unknown = min(labels[numbers < 0])
                raise InputError(f"{split}*.parquet under {self.root} has the label {unknown!r}, which train lacks")
            labels = numbers
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
