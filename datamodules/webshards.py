"""WebDataset tars: samples of an image file and a label file that share their name."""

import json
import os
import re
import tarfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.folder import ENDINGS, Strings
from datamodules.manifest import _classes
from datamodules.reading import array_cache
from datamodules.reading.class_map import read_class_map
from datamodules.reading.remote_files import (
    MissingPiece,
    Piece,
    Pieces,
    cache_folder,
    file_system,
    is_packed,
    is_remote,
)
from vit_lightning.data import ImageDataModule
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.subsets import hold_out
from vit_lightning.errors import InputError
from vit_lightning.terminal import stderr_bar

VERSION = "webshards 1"
THREADS = 8
"""Tars that are asked for at once."""


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
        pieces: the tars.
        file: where `build` has put what lies in them.
        labels: the class of each sample.
    """

    def __init__(self, pieces: Pieces, file: Path, labels: np.ndarray) -> None:
        self.pieces = pieces
        arrays = array_cache.load(file)
        self.keys = array_cache.Mapped(file, "keys")
        self.file = file
        self.labels = labels
        self.places = arrays["places"]
        self.sizes = arrays["sizes"]
        self.tars = arrays["tars"]
        if pieces.remote:
            self.blocks = self.tars

    def __len__(self) -> int:
        return len(self.labels)

    def __getstate__(self) -> tuple:
        return self.pieces, self.file, self.labels

    def __setstate__(self, state: tuple) -> None:
        self.__init__(*state)

    def __getitem__(self, number: int) -> tuple[bytes, int]:
        tar, size = int(self.tars[number]), int(self.sizes[number])
        data = self.pieces.read(tar, int(self.places[number]), size)
        if len(data) < size:
            raise BrokenImage(self.keys[number], f"{self.pieces.pieces[tar].url} ends before it")
        return data, int(self.labels[number])

    def announce(self, numbers: np.ndarray) -> None:
        """Begin to fetch the tars of samples that come soon."""
        self.pieces.announce(dict.fromkeys(self.tars[numbers].tolist()))


class WebShards(ImageDataModule):
    """WebDataset tars in a folder or from S3, GCS, HTTP and whatever else fsspec knows.

    A sample is the files of a tar that follow on each other with the same name up to its first dot: an image (.jpg,
    .png, .webp ...) and its class, as a whole number or a name in a .cls file, or in a field of a .json file. Tars may
    be packed (.tgz, .tar.gz).

    All tars are read once, at the start of the first run, to learn what lies in them; this is kept in the user's cache.
    After that every sample can be read by its number, so that a run resumes with the very next image, whatever the
    number of workers, and each device takes as many steps as any other. Tars from afar and packed ones are kept on
    this machine; their training images are mixed across about 32 tars at a time. Tars in a folder that have changed are
    read anew; for tars from afar that have, give another cache.

    Args:
        root: folder or address that the names of tars start from.
        train: training tars, as names with * (not over HTTP), {000..146} or {a,b}; several patterns are joined by ::.
        val: validation tars, likewise; without them, part of train is held out.
        test: test tars, likewise.
        val_fraction: share of the training images held out for validation if there are no val tars; 0: none.
        label_field: field of the .json files that holds the class.
        class_map: text file with one class name per line, in the order of the labels; unset: all names sorted as text,
            or whole numbers up to the greatest.
        cache: folder for indices and for tars from afar; unset: vit_lightning in the user's cache folder.
        cache_limit: GiB to keep of the tars; what was used longest ago makes room. Unset: everything.
    """

    def __init__(
        self,
        root: str,
        train: str = "train*.tar",
        val: str | None = None,
        test: str | None = None,
        val_fraction: float = 0.1,
        label_field: str = "label",
        class_map: Path | None = None,
        cache: Path | None = None,
        cache_limit: float | None = None,
        **kwargs,
    ) -> None:
        super().__init__(root=None if is_remote(str(root)) else Path(root), **kwargs)
        self.address = str(root if self.root is None else self.root).rstrip("/")
        self.patterns = {"train": train, "val": val, "test": test}
        self.val_fraction = val_fraction
        self.label_field = label_field
        self.class_map = class_map
        self.cache = cache
        self.cache_limit = cache_limit
        self._tars: dict[str, tuple[Pieces, Path]] = {}
        self._damage: dict[str, list[InputError]] = {}
        """Faults of each split's tars, kept until `setup`, since `class_names` is asked for by whoever reports them."""

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def class_names(self) -> list[str]:
        if self.class_map is not None:
            return read_class_map(self.class_map)
        names = sorted(set(array_cache.Mapped(self._indexed("train")[1], "names")))
        if not names:
            empty = InputError(f"{self.address}/{self.patterns['train']} hold no samples; give other --data.train")
            raise next(iter(self._damage["train"]), empty)
        return _classes(names)

    def setup(self, stage: str) -> None:
        self.train_set = self._read("train")
        self.val_set = self._read("val")
        self.test_set = self._read("test")
        if self.val_set is None:
            self.train_set, self.val_set = hold_out(self.train_set, self.val_fraction)

    def _read(self, split: str) -> TarSamples | None:
        if self.patterns[split] is None:
            return None
        pieces, file = self._indexed(split)
        for fault in self._damage[split]:
            self.report(fault)
        numbers = {name: label for label, name in enumerate(self.class_names)}
        names = list(array_cache.Mapped(file, "names"))
        for name in names:
            if name not in numbers and not (name.isdecimal() and int(name) < len(numbers)):
                raise InputError(
                    f"the {split} tars under {self.address} have the label {name!r}, which "
                    f"{self.class_map or 'train'} lacks"
                )
        labels = np.array([numbers[name] if name in numbers else int(name) for name in names], dtype=np.int32)
        return TarSamples(pieces, file, labels[array_cache.load(file)["labels"]])

    def _indexed(self, split: str) -> tuple[Pieces, Path]:
        if split not in self._tars:
            self._tars[split] = self._index(split)
        return self._tars[split]

    def _index(self, split: str) -> tuple[Pieces, Path]:
        """Return the tars of a split and the file that says what lies in them, which is made if there is none."""
        urls = list(chain.from_iterable(_found(self.address, one) for one in self.patterns[split].split("::")))
        if not urls:
            raise InputError(f"{self.address}/{self.patterns[split]}: no such tar; give --data.root and --data.{split}")
        if not all(is_remote(url) or Path(url).is_file() for url in urls):
            raise self._missing(split, urls)
        folder = cache_folder(self.cache, self.address)
        stamps = [(url, *_stamp(url)) for url in urls]
        source = Path(f"{folder.name}-{split}")
        version = f"{VERSION}\n{self.label_field}\n{stamps}"
        file = array_cache.place(self.cache, source, version)
        damage = self._damage[split] = []
        if not file.exists():
            made = array_cache.place(self.cache, source, f"{version} in part")
            try:
                pieces = Pieces([Piece(url) for url in urls], folder, self.cache_limit)
                build(pieces, made, self.label_field, damage.append)
            except MissingPiece as error:
                raise self._missing(split, urls) from error
            file = made if damage else made.replace(file)
        lengths = array_cache.load(file)["lengths"].tolist()
        pieces = [Piece(url, None if is_packed(url) else length) for url, length in zip(urls, lengths, strict=True)]
        return Pieces(pieces, folder, self.cache_limit), file

    def _missing(self, split: str, urls: Sequence[str]) -> InputError:
        """Say how many tars are missing, after asking for each, and what to do about it."""
        with ThreadPoolExecutor(THREADS) as pool:
            missing = [url for url, there in zip(urls, pool.map(_exists, urls), strict=True) if not there]
        first = missing[0] if missing else urls[0]
        remedy = "upload them" if is_remote(first) else "fetch them"
        return InputError(
            f"{first} is missing ({len(missing)} of {len(urls)} {split} tars are); {remedy}, or name in "
            f"--data.{split} only those that are there"
        )


def expand(pattern: str) -> list[str]:
    """Write out the braces of a pattern: {000..146} with its leading zeros, and {a,b}."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    ends = re.fullmatch(r"(\d+)\.\.(\d+)", found[1])
    parts = found[1].split(",")
    if ends:
        width = len(ends[1])
        parts = [f"{number:0{width}d}" for number in range(int(ends[1]), int(ends[2]) + 1)]
    return [one for part in parts for one in expand(pattern[: found.start()] + part + pattern[found.end() :])]


def _found(address: str, pattern: str) -> list[str]:
    """Return the addresses of the tars that a pattern means."""
    urls = [one if is_remote(one) else f"{address}/{one.strip()}" for one in expand(pattern)]
    found = []
    for url in urls:
        if "*" not in url:
            found.append(url)
        elif is_remote(url):
            system, path = file_system(url)
            found += [system.unstrip_protocol(one) for one in sorted(system.glob(path))]
        else:
            found += sorted(map(str, Path(address).glob(url.removeprefix(f"{address}/"))))
    return found


def _exists(url: str) -> bool:
    if not is_remote(url):
        return Path(url).is_file()
    system, path = file_system(url)
    return system.exists(path)


def _stamp(url: str) -> tuple[int, int]:
    return (0, 0) if is_remote(url) else array_cache.stamp(Path(url))


def build(pieces: Pieces, file: Path, label_field: str, report: Callable[[InputError], None]) -> None:
    """Read all tars and write down where their samples lie.

    Args:
        pieces: the tars.
        file: where to put it.
        label_field: field of the .json files with the class.
        report: told of each tar that is damaged, of which only the samples before the damage are written down.
    """
    rank_zero_info(f"reading {len(pieces)} tars, once")
    places, sizes, labels, counts, lengths = array("q"), array("q"), array("q"), [], []
    names: dict[str, int] = {}

    def keys() -> Iterator[str]:
        with stderr_bar() as bar:
            for number in bar.track(range(len(pieces)), description=file.name.rpartition("-")[0]):
                pieces.announce(range(number, min(number + 4, len(pieces))))
                before = len(places)
                lengths.append(0)
                try:
                    lengths[number] = os.fstat(pieces.file(number).fileno()).st_size
                    for sample in samples(pieces.file(number), pieces.pieces[number].url, label_field):
                        places.append(sample.start)
                        sizes.append(sample.size)
                        labels.append(names.setdefault(sample.label, len(names)))
                        yield sample.key
                except MissingPiece:
                    raise
                except InputError as error:
                    report(error)
                counts.append(len(places) - before)

    arrays = {
        "keys": Strings(keys()),
        "places": array_cache.narrow(np.frombuffer(places, dtype=np.int64)),
        "sizes": array_cache.narrow(np.frombuffer(sizes, dtype=np.int64)),
        "labels": array_cache.narrow(np.frombuffer(labels, dtype=np.int64)),
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
