"""Image files by the million: found once, kept in an index, and looked up by every process without a copy."""

import os
import time
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import array_cache, tars
from datamodules.reading.image_files import is_hidden, is_image
from datamodules.reading.shared_sequences import Strings
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.terminal import stderr_bar

VERSION = "index 1"


class Index(Sequence[str]):
    """Images under a folder or in tar files, by number; each item is the image's path, a tar being a folder in it.

    All processes share one copy, for ImageNet-21k 7 bytes per image and 11 in tars: names are kept without what all
    names of a folder begin and end with.

    Args:
        file: where `build` has put it.
        root: folder that the paths start from.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self.file = file
        self.root = root
        arrays = array_cache.load(file)
        self.sources = array_cache.MappedStrings(file, "sources")
        self.stamps = arrays["stamps"]
        self.folders = array_cache.MappedStrings(file, "folders")
        self.starts = arrays["starts"]
        self.prefixes = array_cache.MappedStrings(file, "prefixes")
        self.suffixes = array_cache.MappedStrings(file, "suffixes")
        self.middles = array_cache.MappedStrings(file, "middles")
        self.places = arrays["blocks"]

    def __reduce__(self) -> tuple:
        return Index, (self.file, self.root)

    def __len__(self) -> int:
        return len(self.middles)

    def __getitem__(self, number: int) -> str:
        folder = self._folder(number)
        return os.path.join(self.folders[folder], self._name(folder, number))

    def names(self, folder: int) -> Iterator[str]:
        """Yield the names of the images of a folder, given by its number."""
        return (self._name(folder, number) for number in range(self.starts[folder], self.starts[folder + 1]))

    def spread(self, values: Sequence[int]) -> np.ndarray:
        """Return one value per image, given one per folder."""
        return np.repeat(np.asarray(values, dtype=np.int32), np.diff(self.starts))

    def image(self, number: int) -> Path | bytes:
        """Return the path of an image, or its bytes if it lies in a tar."""
        if not len(self.places):
            return self.root / self[number]
        folder = self._folder(number)
        tar = self.folders[folder].partition("/")[0]
        return tars.read(self.root / tar, int(self.places[number]), self._name(folder, number))

    def check(self) -> None:
        """Compare the folders or tars with what was indexed.

        Raises:
            InputError: naming the first one in which anything was added, removed or renamed.
        """
        sources = list(self.sources)
        batches = [sources[first : first + 256] for first in range(0, len(sources), 256)]
        with ThreadPoolExecutor(32) as pool:  # a network file system answers each question late
            now = chain.from_iterable(
                pool.map(lambda some: [array_cache.file_state(self.root / each) for each in some], batches)
            )
            for source, then, state in zip(sources, self.stamps.tolist(), now, strict=True):
                if tuple(then) != state:
                    raise InputError(
                        f"{self.root / source} {'has changed' if any(state) else 'is gone'} since it was indexed; "
                        "give --data.reindex true once to index it anew"
                    )

    def _folder(self, number: int) -> int:
        return int(np.searchsorted(self.starts, number, side="right")) - 1

    def _name(self, folder: int, number: int) -> str:
        return self.prefixes[folder] + self.middles[number] + self.suffixes[folder]


class NamedImages(Protocol):
    """Images by number, each with a name."""

    def __getitem__(self, number: int, /) -> str: ...

    def image(self, number: int, /) -> Path | bytes:
        """Return an image's path, or its bytes."""
        ...


class IndexedImages:
    """The images of an index, with labels.

    Args:
        index: where they lie.
        labels: one class per image.
        scored_classes: classes on which the images are scored; None: all.
    """

    def __init__(self, index: NamedImages, labels: np.ndarray, scored_classes: np.ndarray | None = None) -> None:
        self.keys = index
        self.labels = labels
        self.scored_classes = scored_classes

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[Path | bytes, int]:
        return self.keys.image(number), int(self.labels[number])


class IndexedData(ImageDataModule):
    """Images whose files are indexed once, with a progress bar.

    Args:
        root: folder that holds the images.
        cache: folder for indices; unset: vit_lightning in the user's cache folder.
        reindex: index the files anew, after some were added, removed or renamed; for good where each run gets a fresh
            copy of them.
    """

    def __init__(self, root: Path, cache: Path | None = None, reindex: bool = False, **kwargs) -> None:
        super().__init__(root=root, **kwargs)
        self.cache = cache
        self.reindex = reindex
        self._indices: dict[Path, Index] = {}

    @abstractmethod
    def places(self) -> list[Path]:
        """Return the folders and tars to index that are there."""

    def prepare_data(self) -> None:
        for place in self.places():
            self._open(place, self.reindex)

    def index(self, place: Path) -> Index:
        """Return the index of a folder or tar."""
        return self._indices[place] if place in self._indices else self._open(place)

    def _open(self, place: Path, anew: bool = False) -> Index:
        if self.faults is None:
            return open_index(place, self.cache, anew)
        self._indices[place] = open_index(place, self.cache, anew, self.report)  # one in part is not kept in a file
        return self._indices[place]


def open_index(
    place: Path, cache: Path | None = None, anew: bool = False, report: Callable[[InputError], None] | None = None
) -> Index:
    """Return the index of a folder or tar, which is built if there is none yet.

    Args:
        place: a tar; or a folder with images at any depth; or a folder with tars.
        cache: folder for indices; None: the user's.
        anew: build it even if there is one.
        report: called with the fault of each tar that cannot be read to its end. The index then holds what can be
            read, and no run takes it.

    Raises:
        InputError: if a tar cannot be read without `report`, or if files were added, removed or renamed
            since it was built.
    """
    place = place.resolve()
    file = array_cache.cache_file(cache, place, VERSION)
    if anew or not file.exists():
        rank_zero_info(f"indexing {place}, once")
        began = time.monotonic()
        file = _build_what_is_sound(place, file, cache, report) if report else build(_list_images(place), file)
        rank_zero_info(f"indexed {place} in {time.monotonic() - began:.0f} s: {file}")
    index = Index(file, place.parent if place.is_file() else place)
    index.check()
    return index


def _build_what_is_sound(place: Path, file: Path, cache: Path | None, report: Callable[[InputError], None]) -> Path:
    """Write an index, which takes the place of a whole one only if it is whole."""
    faults = []
    made = build(_list_images(place, faults.append), array_cache.cache_file(cache, place, f"{VERSION} in part"))
    for fault in faults:
        report(fault)
    return made if faults else made.replace(file)


class FolderImages(NamedTuple):
    """The images of one folder, or of one tar."""

    source: str
    """The folder, or the outermost tar, that tells whether anything has changed."""
    stamp: tuple[int, int]
    """Its state before it was read."""
    folder: str
    names: list[str]
    blocks: list[int]


def build(found: Iterable[FolderImages], file: Path) -> Path:
    """Write an index, and return its file.

    Args:
        found: folders with their images, in order.
        file: where to put it.
    """
    stamps: dict[str, tuple[int, int]] = {}
    folders, prefixes, suffixes, starts, blocks = [], [], [], [0], array("q")

    def middles() -> Iterator[str]:
        for each in found:
            stamps.setdefault(each.source, each.stamp)
            prefix, rests, suffix = _split(each.names)
            folders.append(each.folder)
            prefixes.append(prefix)
            suffixes.append(suffix)
            starts.append(starts[-1] + len(rests))
            blocks.extend(each.blocks)
            yield from rests

    arrays = {
        "middles": Strings(middles()),
        "folders": Strings(folders),
        "prefixes": Strings(prefixes),
        "suffixes": Strings(suffixes),
        "starts": np.array(starts),
        "blocks": array_cache.compact(np.frombuffer(blocks, dtype=np.int64)),
        "sources": Strings(stamps),
        "stamps": np.array(list(stamps.values()), dtype=np.int64).reshape(-1, 2),
    }
    array_cache.save(file, arrays)
    return file


def _list_images(place: Path, report: Callable[[InputError], None] | None = None) -> Iterator[FolderImages]:
    if place.is_file():
        return _in_tars([place], report)
    _, below = _listing(place, "")
    packed = [] if below else sorted(place.glob("*.tar"))
    return _in_tars(packed, report) if packed else _in_folders(place)


def _in_folders(root: Path) -> Iterator[FolderImages]:
    here, below = _listing(root, "")
    yield here
    with stderr_bar(disable=not below) as bar:
        for folder in bar.track(below, description=root.name):
            waiting = [folder]
            while waiting:
                here, below = _listing(root, waiting.pop())
                yield here
                waiting += reversed(below)


def _listing(root: Path, folder: str) -> tuple[FolderImages, list[str]]:
    """Return the images in a folder, and the folders in it."""
    state = array_cache.file_state(root / folder)
    names, below = [], []
    with os.scandir(root / folder) as entries:
        for entry in entries:
            if is_image(entry.name):
                names.append(entry.name)
            elif entry.is_dir() and not is_hidden(entry.name):
                below.append(os.path.join(folder, entry.name))
    return FolderImages(folder, state, folder, sorted(names), []), sorted(below)


def _in_tars(files: Sequence[Path], report: Callable[[InputError], None] | None) -> Iterator[FolderImages]:
    with stderr_bar() as bar:
        task = bar.add_task(files[0].parent.name, total=sum(file.stat().st_size for file in files))
        for file in files:
            state = array_cache.file_state(file)
            start = bar.tasks[task].completed
            for folder, names, blocks in tars.scan(file, report):
                yield FolderImages(file.name, state, folder, names, blocks)
                bar.update(task, completed=start + tars.BLOCK * max(blocks, default=0))
            bar.update(task, completed=start + file.stat().st_size)


def _split(names: list[str]) -> tuple[str, list[str], str]:
    """Take off what all names begin with, and what the rests of all end with."""
    prefix = os.path.commonprefix(names)  # noqa: RUF071
    rests = [name[len(prefix) :] for name in names]
    suffix = os.path.commonprefix([rest[::-1] for rest in rests])[::-1]  # noqa: RUF071
    return prefix, [rest[: len(rest) - len(suffix)] for rest in rests], suffix
