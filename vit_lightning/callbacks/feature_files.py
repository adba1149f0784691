"""What the head reads of each image, as npz or parquet: written while it is computed, whatever the number of images."""

import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vit_lightning.callbacks.prediction_files import as_utf8, check_parquet, open_alone
from vit_lightning.errors import InputError
from vit_lightning.files import unwritable

ENDINGS = (".npz", ".parquet")
HEAD = 8
"""Bytes before the features of a file in the making; they say how many numbers an image has."""
ROWS_AT_ONCE = 4096


def check_ending(path: Path) -> None:
    """Refuse a name that says no known form, or one whose library is not there."""
    if path.suffix not in ENDINGS:
        raise InputError(f"--features {path} ends in neither .npz nor .parquet, which say the form; name it so")
    if path.suffix == ".parquet":
        check_parquet(f"--features {path}")


class FeaturePart:
    """Features in the making, float32 one image after the other, which one process holds; what a stop left stays.

    Args:
        path: The file.

    Raises:
        InputError: another process is writing it, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_alone(path)
        self.width = self._read_width()

    @property
    def images(self) -> int:
        """Images whose features are there."""
        return (self.path.stat().st_size - HEAD) // (4 * self.width) if self.width else 0

    def keep(self, images: int) -> None:
        """Drop all but the features of the first images, of which there are enough."""
        self._file.truncate(HEAD + 4 * self.width * images if images else 0)
        self._file.seek(0, io.SEEK_END)  # `close` asks whether it is empty
        self.width = self.width if images else 0

    def add(self, features: np.ndarray) -> None:
        """Write features float32 `(n, d)`."""
        try:
            if not self.width:
                self.width = features.shape[1]
                self._file.write(self.width.to_bytes(HEAD, "little"))
            self._file.write(np.ascontiguousarray(features, dtype="<f4").tobytes())
            self._file.flush()
        except OSError as error:
            raise unwritable(self.path, error) or error from error

    def finish(self, path: Path, keys: Sequence[Any]) -> None:
        """Make the file of the name, with a key for each image.

        Raises:
            InputError: it cannot be written.
        """
        made = path.with_name(f".{path.name}.part")
        try:
            names = [str(keys[number]) for number in range(self.images)]  # a run may have left out the last images
            (_write_npz if path.suffix == ".npz" else _write_parquet)(made, self._blocks(), names, self.width)
            made.replace(path)
        except OSError as error:
            raise unwritable(path, error) or error from error
        finally:
            made.unlink(missing_ok=True)
        self._file.close()
        self.path.unlink()

    def close(self) -> None:
        """Let go of the file, which stays for a later call unless it is empty."""
        if not self._file.closed and not self._file.tell():
            self.path.unlink(missing_ok=True)
        self._file.close()

    def _read_width(self) -> int:
        with self.path.open("rb") as file:
            head = file.read(HEAD)
        return int.from_bytes(head, "little") if len(head) == HEAD else 0

    def _blocks(self) -> Iterator[np.ndarray]:
        """Yield the features of some thousand images at a time `(n, d)`."""
        with self.path.open("rb") as file:
            file.seek(HEAD)
            while len(read := np.frombuffer(file.read(4 * self.width * ROWS_AT_ONCE), "<f4")):
                yield read.reshape(-1, self.width)


def _write_npz(path: Path, blocks: Iterator[np.ndarray], keys: Sequence[str], width: int) -> None:
    """Write arrays `features` `(n, d)` and `keys` `(n,)`, which numpy loads without pickles."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(keys), width)}
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("features.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)  # type: ignore[arg-type]  # it can be written to
            for block in blocks:
                member.write(block.tobytes())
        with archive.open("keys.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.array(keys, dtype=np.str_), allow_pickle=False)


def _write_parquet(path: Path, blocks: Iterator[np.ndarray], keys: Sequence[str], width: int) -> None:
    """Write columns `key` and `features`, a list of d numbers."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    schema = pa.schema([("key", pa.string()), ("features", pa.list_(pa.float32(), width))])
    done = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for block in blocks:
            names = list(map(as_utf8, keys[done : done + len(block)]))
            numbers = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1), pa.float32()), width)
            writer.write_table(pa.Table.from_arrays([pa.array(names, pa.string()), numbers], schema=schema))
            done += len(block)
