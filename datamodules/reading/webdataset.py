"""Samples of WebDataset tars: where they lie, written down once, and how they are read by their number."""

import json
import os
import tarfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import array_cache
from datamodules.reading.image_files import ENDINGS
from datamodules.reading.remote_files import MissingFile, RemoteFiles
from datamodules.reading.shared_sequences import Strings
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError
from vit_lightning.terminal import stderr_bar


class Sample(NamedTuple):
    """One sample of a tar."""

    key: str
    start: int
    """Where the image's bytes begin in the tar."""
    size: int
    label: str


class TarSamples:
    """Samples of tars by number.

    Args:
        files: the tars.
        file: where `index_samples` has put what lies in them.
        labels: the class of each sample.
    """

    def __init__(self, files: RemoteFiles, file: Path, labels: np.ndarray) -> None:
        self.files = files
        arrays = array_cache.load(file)
        self.keys = array_cache.MappedStrings(file, "keys")
        self.file = file
        self.labels = labels
        self.places = arrays["places"]
        self.sizes = arrays["sizes"]
        self.tars = arrays["tars"]
        if files.remote:
            self.blocks = self.tars

    def __len__(self) -> int:
        return len(self.labels)

    def __getstate__(self) -> tuple:
        return self.files, self.file, self.labels

    def __setstate__(self, state: tuple) -> None:
        self.__init__(*state)

    def __getitem__(self, number: int) -> tuple[bytes, int]:
        tar, size = int(self.tars[number]), int(self.sizes[number])
        data = self.files.read(tar, int(self.places[number]), size)
        if len(data) < size:
            raise BrokenImage(self.keys[number], f"{self.files[tar].url} ends before it")
        return data, int(self.labels[number])

    def announce(self, numbers: np.ndarray) -> None:
        """Begin to fetch the tars of samples that come soon."""
        self.files.announce(dict.fromkeys(self.tars[numbers].tolist()))


def index_samples(files: RemoteFiles, file: Path, label_field: str, report: Callable[[InputError], None]) -> None:
    """Read all tars and write down where their samples lie.

    Args:
        files: the tars.
        file: where to put it.
        label_field: field of the .json files with the class.
        report: called with the fault of each damaged tar, of which only the samples before the damage are written
            down.
    """
    rank_zero_info(f"reading {len(files)} tars, once")
    places, sizes, labels, counts, lengths = array("q"), array("q"), array("q"), [], []
    names: dict[str, int] = {}

    def keys() -> Iterator[str]:
        with stderr_bar() as bar:
            for number in bar.track(range(len(files)), description=file.name.rpartition("-")[0]):
                files.announce(range(number, min(number + 4, len(files))))
                before = len(places)
                lengths.append(0)
                try:
                    lengths[number] = os.fstat(files.open(number).fileno()).st_size
                    for sample in samples(files.open(number), files[number].url, label_field):
                        places.append(sample.start)
                        sizes.append(sample.size)
                        labels.append(names.setdefault(sample.label, len(names)))
                        yield sample.key
                except MissingFile:
                    raise
                except InputError as error:
                    report(error)
                counts.append(len(places) - before)

    arrays = {
        "keys": Strings(keys()),
        "places": array_cache.compact(np.frombuffer(places, dtype=np.int64)),
        "sizes": array_cache.compact(np.frombuffer(sizes, dtype=np.int64)),
        "labels": array_cache.compact(np.frombuffer(labels, dtype=np.int64)),
        "tars": np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        "lengths": np.array(lengths),
        "names": Strings(names),
    }
    array_cache.save(file, arrays)


def samples(file: BinaryIO, url: str, label_field: str) -> Iterator[Sample]:
    """Yield the samples of a tar, in its order.

    Raises:
        InputError: if it is damaged, or a sample has no image or no class.
    """
    try:
        with tarfile.TarFile(fileobj=file) as tar:
            key, parts = None, {}
            for member in tar:
                base = member.name.rpartition("/")[2]
                if not member.isfile() or base.startswith((".", "__")):
                    continue
                stem, _, ending = base.partition(".")
                name = member.name.removeprefix("./")[: -len(base)] + stem
                if name != key:
                    yield from _sample(key, parts, tar, url, label_field)
                    key, parts = name, {}
                parts[ending.lower()] = member
            file.seek(tar.offset)
            if file.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:  # where tarfile just stops
                raise tarfile.ReadError(f"it has no end mark at byte {tar.offset}")
            yield from _sample(key, parts, tar, url, label_field)
    except tarfile.TarError as error:
        raise InputError(f"{url} cannot be read as a tar ({error}); fetch it again if it is incomplete") from error


def _sample(
    key: str | None, parts: dict[str, tarfile.TarInfo], tar: tarfile.TarFile, url: str, label_field: str
) -> Sequence[Sample]:
    if key is None:
        return []
    image = next((member for ending, member in parts.items() if f".{ending}".endswith(ENDINGS)), None)
    label = _label(parts, tar, label_field)
    if image is None or label is None:
        lacks = "image" if image is None else f"class in a .cls or in the field {label_field!r} of a .json"
        raise InputError(f"{url}: sample {key} has no {lacks}, but .{', .'.join(parts)}")
    return [Sample(key, image.offset_data, image.size, label)]


def _label(parts: dict[str, tarfile.TarInfo], tar: tarfile.TarFile, field: str) -> str | None:
    def text(ending: str) -> str:
        return tar.extractfile(parts[ending]).read().decode().strip()

    if "cls" in parts:
        return text("cls")
    found: Any = json.loads(text("json")) if "json" in parts else {}
    value = found.get(field) if isinstance(found, dict) else None
    return None if value is None else str(value)
