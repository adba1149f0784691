"""Rows of Parquet files, read one row group at a time where they are asked for."""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datamodules.reading.arrow_folders import open_folder
from datamodules.reading.damaged_files import reading, reason
from datamodules.reading.image_files import find_image
from datamodules.reading.shared_sequences import Strings
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError
from vit_lightning.files import check_regular

CACHE_BYTES = 256 * 2**20
"""How many bytes of row groups one process keeps; a shuffled order comes back to each of them."""


def check_columns(files: Sequence[Path], columns: Sequence[str]) -> None:
    """Refuse files that lack one of some columns, or have it twice.

    Raises:
        InputError: naming the file and the column.
    """
    for file in files:
        there = open_table(file).schema_arrow.names
        for column in columns:
            if there.count(column) > 1:
                raise InputError(f"{file} has the column {column!r} twice; give each column a name of its own")
            if column not in there:
                raise InputError(
                    f"{file} has no column {column!r} but {', '.join(there)}; "
                    "give --data.image_column and --data.label_column"
                )


class RowNames(Sequence[str]):
    """Names of rows, such as train-00001.parquet:17, counted from 0 in each file.

    Args:
        files: the files, in order.
        starts: number of the first row of each, and of all rows.
        image: name of the image column.
    """

    are_row_numbers = True
    """They change with the order of the rows; what stays is `own_names`."""

    def __init__(self, files: Sequence[Path], starts: Sequence[int], image: str) -> None:
        self.files = files
        self.starts = starts
        self.image = image

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, index: int) -> str:
        file, row = self.place(index)
        return f"{file.name}:{row}"

    def place(self, index: int) -> tuple[Path, int]:
        """Return the file of a row, and its number there, from 0."""
        index = range(len(self))[index]
        file = bisect_right(self.starts, index) - 1
        return self.files[file], index - self.starts[file]

    def own_names(self) -> Strings | None:
        """Return the path of every image, as the rows have it; None where it does not tell one from another."""
        try:
            paths = [path for file in self.files for path in given_paths(file, self.image)]
        except InputError:  # whoever reads the images says what is wrong
            return None
        return Strings(paths) if len(paths) == len(self) == len({*paths} - {"", None}) else None


class Rows:
    """Rows of Parquet files, read one row group at a time where they are asked for.

    Args:
        files: the files of one split, in order.
        image: name of the image column: encoded bytes, a path, or a struct with the fields `bytes` and `path`.
        labels: one class per row.
        root: folder that paths may start from beside the folder of their own file.
    """

    def __init__(self, files: Sequence[Path], image: str, labels: np.ndarray, root: Path | None = None) -> None:
        self.root = root
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
        self.places = RowNames(files, rows, image)
        self.keys: Sequence[str] = self.places
        self.keep = max(1, CACHE_BYTES // largest)
        self.cache: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[bytes | Path, int]:
        image = self.given(index)
        if isinstance(image, str):
            folder = self.places.place(index)[0].parent
            image = find_image(image, [folder, self.root or folder], self.places[index])
        if not isinstance(image, bytes | Path):
            raise BrokenImage(self.places[index], f"the column {self.image!r} holds no bytes and no path")
        return image, int(self.labels[index])

    def given(self, index: int) -> Any:
        """Return what a row gives as its image: bytes, a path, or what is neither."""
        group = int(np.searchsorted(self.starts, index, side="right")) - 1
        try:
            image = self._images(group)[index - int(self.starts[group])].as_py()
        except Exception as error:  # see damaged_files.reading
            raise BrokenImage(self.places[index], reason(error)) from error
        return image.get("bytes") or image.get("path") if isinstance(image, dict) else image

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": {}}

    def _images(self, group: int):
        if group not in self.cache:
            if len(self.cache) >= self.keep:
                self.cache.pop(next(iter(self.cache)))
            file, number = self.groups[group]
            table = open_table(self.files[file]).read_row_group(number, columns=[self.image], use_threads=False)
            self.cache[group] = table.column(0).combine_chunks()
        return self.cache[group]


def open_table(file: Path):
    """Return a Parquet file, or a folder of Arrow files, whose content is read when it is asked for."""
    if file.is_dir():
        return open_folder(file)
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'vit-lightning[parquet]'") from error
    with reading(file):
        check_regular(file)
        return ParquetFile(file, memory_map=True)


def given_paths(file: Path, image: str) -> list[str | None]:
    """Return the path of each row's image, without its bytes; none of images that have none."""
    import pyarrow as pa

    kind = open_table(file).schema_arrow.field(image).type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return read_columns(file, [image]).column(0).to_pylist()
    if not pa.types.is_struct(kind) or kind.get_field_index("path") < 0:
        return []
    table = read_columns(file, [image if file.is_dir() else f"{image}.path"])  # a folder's bytes stay on the disk
    return [path for chunk in table.column(0).chunks for path in chunk.field("path").to_pylist()]


def number_of_rows(files: Sequence[Path]) -> int:
    """Return how many rows some files have together."""
    return sum(open_table(file).metadata.num_rows for file in files)


def read_columns(file: Path, columns: Sequence[str]):
    """Return whole columns of a Parquet file, a field of a struct being named as image.path is."""
    opened = open_table(file)
    with reading(file):
        table = opened.read(list(columns))
    if table.num_columns < len(columns):
        raise InputError(f"{file} has no {' and '.join(columns)} but {', '.join(opened.schema_arrow.names)}")
    return table
