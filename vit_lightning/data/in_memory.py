"""Small sets in memory: decoded once, and served a whole batch at a time."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from vit_lightning.augment.per_batch import BatchAugment, UnaugmentedBatch
from vit_lightning.data.image_set import record_of
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.records import Records
from vit_lightning.data.sampling import BROKEN, IGNORE, Draw, Draws, columns
from vit_lightning.data.workers import shield_worker
from vit_lightning.errors import InputError
from vit_lightning.seeds import StatelessRandom

BUDGET = 2 * 2**30
"""Bytes of decoded images up to which a set is loaded without --data.in_memory."""
SIDE = 128
"""Pixels per side up to which images count as small: to decode larger ones before the first step would take long."""
PROBES = 16
"""Images looked at before a set is taken to be of one size."""
CHUNK_BYTES = 2**20
"""Bytes of images that are decoded in one go."""
WORKERS = 8
"""Processes that decode, at most: each has two chunks in shared memory, of which a container may have 64 MiB."""
CHUNKS_PER_WORKER = 4
"""Chunks that are worth a process of their own."""
PAUSE = 5.0
"""Seconds between two lines of progress."""


class InMemorySet:
    """A set in memory.

    Args:
        images: uint8, or float in [0, 1], `(n, c, y, x)`; black where one cannot be read.
        labels: int64 `(n,)` or float `(n, classes)`.
        faults: why images cannot be read, by their numbers.
        keys: a name per record.
    """

    def __init__(self, images: Tensor, labels: Tensor, faults: dict[int, BrokenImage], keys: Sequence[Any]) -> None:
        self.images = images
        self.labels = labels
        self.faults = faults
        self.keys = keys

    def to(self, device: torch.device) -> "InMemorySet":
        """Return the same set in the memory of a device."""
        return InMemorySet(self.images.to(device), self.labels.to(device), self.faults, self.keys)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if index in self.faults:
            raise self.faults[index]
        return self.images[index], self.labels[index]


class SizeMismatch(InputError):  # noqa: N818
    """An image that has not the size of the others."""


def load_into_memory(records: Records, demanded: bool | None, cores: int) -> InMemorySet | None:
    """Decode a set into memory.

    Args:
        records: the set; its transform is not applied.
        demanded: True: whatever it takes; None: if the images are small, few enough and of one size; False: never.
        cores: how many processes decode at once.

    Returns:
        The set, or None if it stays where it is.

    Raises:
        InputError: if it is demanded and the images differ in size.
        BrokenImage: if an image cannot be read and the records skip none.
    """
    shape = None if demanded is False else next(_shapes(records, range(len(records))), None)
    if shape is None or not (demanded or _fits(records, shape)):
        return None
    records.check_labels()  # before the long part
    try:
        return _decode(records, shape, cores)
    except SizeMismatch:
        if demanded:
            raise
        return None


class InMemoryBatches(Records):
    """Records of a set in memory, a batch at a time.

    Args:
        source: the set.
        settings: what Records takes; in evaluation the transform must take a batch as well as an image.
        augment: what varies training batches, in place of the transform; None: nothing does.
    """

    source: InMemorySet

    def __init__(
        self, source: InMemorySet, *settings: Any, augment: BatchAugment | None = None, trains: bool | None = None
    ) -> None:
        super().__init__(source, *settings, trains=trains)
        self.augment = augment

    def __getitem__(self, draw: Draw | int) -> tuple[Tensor, Tensor]:
        images, labels = self.__getitems__([draw])
        return images[0], labels[0]

    def __getitems__(self, draws: list[Draw | int]) -> tuple[Tensor, Tensor]:
        """Return images `(b, c, y, x)` and labels `(b,)` or `(b, classes)`."""
        return self.vary(self.take(columns(draws)))

    def vary(self, batch: UnaugmentedBatch) -> tuple[Tensor, Tensor]:
        """Return images and labels of a batch from `take`, on the device where it is."""
        return self.augment(batch.images, batch.numbers) if self.augment else batch.images, batch.labels

    def take(self, draws: Draws) -> UnaugmentedBatch:
        """Return records as and where they lie, with the numbers that decide how they will be varied."""
        if self.augment:
            chosen, device = torch.from_numpy(self._readable(draws.indices)), self.source.images.device
            if device.type == "cuda":
                chosen = chosen.pin_memory().to(device, non_blocking=True)
            pixels, labels = (each[chosen] for each in (self.source.images, self.source.labels))
            return UnaugmentedBatch(
                pixels, labels, self.augment.draw(StatelessRandom(self.seed, draws.epochs, draws.positions))
            )
        pixels, labels = (each[torch.from_numpy(draws.indices)] for each in (self.source.images, self.source.labels))
        pixels = self.transform(pixels)
        labels[torch.from_numpy(draws.padding)] = IGNORE
        for place in self._broken(draws.indices):
            index = int(draws.indices[place])
            pixels[place], labels[place] = 0, BROKEN
            if not draws.padding[place]:
                self._skip(index)
        return UnaugmentedBatch(pixels, labels, ())

    def _skip(self, index: int) -> None:
        if self.skipped is not None:
            self.skipped.add(index, self.source.faults[index])

    def _broken(self, indices: np.ndarray) -> np.ndarray:
        """Return the places of records that cannot be read."""
        return np.flatnonzero(np.isin(indices, list(self.source.faults)))

    def _readable(self, indices: np.ndarray) -> np.ndarray:
        """Return the records, and for each that cannot be read the next one that can."""
        indices = indices.copy()
        for place in self._broken(indices):
            for index in self.candidates(int(indices[place])):
                indices[place] = index
                if index not in self.source.faults:
                    break
                self._skip(index)
        return indices


def no_collate(batch: Any) -> Any:
    """Collate nothing, for sets that give whole batches."""
    return batch


def _shapes(records: Records, numbers: range) -> Iterator[torch.Size]:
    """Decode some records; give the shapes of those that can be read."""
    for index in numbers:
        try:
            image, _ = record_of(records.source, index)
            yield records.load(image, records.name(index)).shape
        except BrokenImage:
            continue


def _fits(records: Records, shape: torch.Size) -> bool:
    size = len(records)
    if max(shape[1:]) > SIDE or shape.numel() * _dtype(records).itemsize * size > BUDGET:
        return False
    return set(_shapes(records, range(0, size, -(-size // PROBES)))) <= {shape}


def _dtype(records: Records) -> torch.dtype:
    return torch.uint8 if records.form is None else records.form.dtype


@torch.inference_mode(False)  # the set serves later training too, whatever the caller does
def _decode(records: Records, shape: torch.Size, cores: int) -> InMemorySet:
    chunks = SetInChunks(records, shape)
    pixels = torch.zeros((len(records), *shape), dtype=_dtype(records))
    labels: Tensor | None = None
    faults: dict[int, BrokenImage] = {}
    done, reported = 0, time.monotonic()
    for chunk in _decoded_chunks(chunks, cores):
        if isinstance(chunk, InputError):
            raise chunk
        pixels[chunk.indices] = chunk.pixels
        if len(chunk.labelled):
            records.label(chunk.labels[0], int(chunk.labelled[0]))  # of one kind in all chunks
            if labels is None:
                labels = chunk.labels.new_full((len(records), *chunk.labels.shape[1:]), IGNORE)
            labels[chunk.labelled] = chunk.labels
        faults |= {index: BrokenImage(name, reason) for index, name, reason in chunk.faults}
        done += len(chunk.indices) + len(chunk.faults)
        if time.monotonic() - reported > PAUSE:
            reported = time.monotonic()
            rank_zero_info(f"decoded {done:,} of {len(records):,} {records.split} images into memory")
    if faults and records.skipped is None:
        records[Draw(min(faults))]  # raises what it would in the middle of the run
    if labels is None:
        labels = torch.full((len(records),), IGNORE)
    return InMemorySet(pixels, labels, faults, records.keys)


def _decoded_chunks(chunks: "SetInChunks", cores: int) -> Iterable["DecodedChunk | InputError"]:
    """Decode all chunks, each process a run of neighbours, since sets may read many records at a time."""
    forks = sys.platform == "linux"  # elsewhere a process starts slowly
    workers = min(cores, WORKERS, len(chunks) // CHUNKS_PER_WORKER) if forks else 0
    if not workers:
        return map(chunks.__getitem__, range(len(chunks)))
    share = -(-len(chunks) // workers)
    turns = chain.from_iterable(range(first, len(chunks), share) for first in range(share))
    return DataLoader(
        chunks,
        batch_size=None,
        sampler=list(turns),
        num_workers=workers,
        collate_fn=no_collate,
        worker_init_fn=shield_worker,
        multiprocessing_context="fork",
        generator=torch.Generator(),  # not the run's, which would depend on the number of cores
    )


class DecodedChunk(NamedTuple):
    """Some records, decoded; in tensors, since a process whose parent died could not end amid a long message."""

    indices: Tensor
    """Of the images that could be decoded."""
    pixels: Tensor
    """Theirs, uint8 or float `(n, c, y, x)`."""
    labelled: Tensor
    """Records whose label is known."""
    labels: Tensor
    """Theirs, int64 `(n,)` or float `(n, classes)`."""
    faults: list[tuple[int, str, str]]
    """Number, name and reason of each image that cannot be read."""


class SetInChunks(Dataset[DecodedChunk | InputError]):
    """A set on its way into memory, `CHUNK_BYTES` of images at a time.

    Args:
        records: the set.
        shape: of every image `(c, y, x)`.
    """

    def __init__(self, records: Records, shape: torch.Size) -> None:
        self.records = records
        self.shape = shape
        self.size = max(1, CHUNK_BYTES // (shape.numel() * _dtype(records).itemsize))

    def __len__(self) -> int:
        return -(-len(self.records) // self.size)

    def __getitem__(self, number: int) -> DecodedChunk | InputError:
        """Decode a chunk; what is wrong with the set is returned, since a process would wrap what it raises."""
        shown, labels, faults = {}, {}, []
        for index in range(number * self.size, min((number + 1) * self.size, len(self.records))):
            try:
                image, label = record_of(self.records.source, index)
                labels[index] = self.records.label(label, index)
                shown[index] = self._sized(image, index)
            except BrokenImage as error:
                faults.append((index, error.name, error.reason))
            except InputError as error:
                return error
        pixels = torch.stack([*shown.values()]) if shown else torch.empty((0, *self.shape), dtype=_dtype(self.records))
        known = torch.stack([*labels.values()]) if labels else torch.empty(0)
        return DecodedChunk(torch.tensor([*shown], dtype=torch.long), pixels, torch.tensor([*labels]), known, faults)

    def _sized(self, image: Any, index: int) -> Tensor:
        name = self.records.name(index)
        pixels = self.records.load(image, name)
        if pixels.shape != self.shape:
            raise SizeMismatch(
                f"--data.in_memory true needs images of one size, but {name} has {tuple(pixels.shape)} and others "
                f"{tuple(self.shape)}; resize them, or leave the flag away"
            )
        return pixels
