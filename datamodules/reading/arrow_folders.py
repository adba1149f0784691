"""Folders that save_to_disk of Hugging Face's datasets writes, read as a Parquet file is, from mapped memory."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from datamodules.reading.damaged_files import read_whole, reading
from datamodules.reading.splits import SPLIT_OF
from vit_lightning.errors import InputError

STATE = "state.json"
SPLITS = "dataset_dict.json"
GROUP = 64
"""Rows that are looked up at a time; those of mapped memory are not copied."""


class Group(NamedTuple):
    """What a row group of Parquet says of itself."""

    num_rows: int
    total_byte_size: int


class ArrowFolder:
    """A folder of Arrow files, with those members of pyarrow's ParquetFile that are used here.

    Args:
        folder: what holds state.json.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from datasets import Dataset
        except ImportError as error:
            raise InputError(
                f"{folder} was written by save_to_disk of Hugging Face's datasets, which reads it: pip install "
                "'vit-lightning[arrow]'; or write it with it as Parquet, by to_parquet('train.parquet')"
            ) from error
        with reading(folder):
            self._rows = Dataset.load_from_disk(str(folder), keep_in_memory=False).with_format("arrow")
            self.schema_arrow = self._rows.features.arrow_schema
        self._bytes = self._rows.data.nbytes

    @property
    def metadata(self) -> "ArrowFolder":
        return self

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    @property
    def num_row_groups(self) -> int:
        return -(-self.num_rows // GROUP)

    def row_group(self, number: int) -> Group:
        rows = min(GROUP, self.num_rows - GROUP * number)
        return Group(rows, self._bytes * rows // self.num_rows)

    def read_row_group(self, number: int, columns: Sequence[str], use_threads: bool = False) -> Any:
        """Return some rows as a table of pyarrow; threads are of no use here."""
        return self._rows.select_columns(list(columns))[GROUP * number : GROUP * (number + 1)]

    def read(self, columns: Sequence[str]) -> Any:
        """Return whole columns as a table of pyarrow."""
        return self._rows.select_columns(list(columns))[:]


def open_folder(folder: Path) -> ArrowFolder:
    """Return what a folder holds, opened once per process."""
    return _opened(folder, (folder / STATE).stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _opened(folder: Path, changed: int) -> ArrowFolder:
    return ArrowFolder(folder)


def split_folders(root: Path) -> tuple[dict[str, list[Path]], list[str]]:
    """Return the folder of each split that save_to_disk wrote under a folder, and the splits of other names.

    Raises:
        InputError: two of them are one split, as val and validation.
    """
    if (root / STATE).is_file():
        return {"train": [root]}, []
    if (root / SPLITS).is_file():
        with reading(root / SPLITS):
            names = [str(name) for name in json.loads(read_whole(root / SPLITS))["splits"]]
    else:  # each split was saved by itself
        names = sorted(path.parent.name for path in root.glob(f"*/{STATE}"))
    found: dict[str, list[Path]] = {}
    for name in names:
        split = SPLIT_OF.get(name.lower())
        if split is None:
            continue
        if split in found:
            raise InputError(f"{found[split][0]} and {root / name} are both named as {split} data are; keep one")
        if not (root / name / STATE).is_file():
            raise InputError(f"{root / name / STATE} is missing, which {root / SPLITS} needs; write the set anew")
        found[split] = [root / name]
    return found, [name for name in names if name.lower() not in SPLIT_OF]
