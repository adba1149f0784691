"""Records of LitData's chunks by number, and what they are called."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from datamodules.reading.remote_files import RemoteFiles
from vit_lightning.data import chunks
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


class ChunkRecords:
    """Records of LitData chunks by number, in the order in which they were written.

    Args:
        files: the chunks.
        sizes: number of records in each.
        layout: what a record is made of.
        num_classes: length of label vectors, where images may show several classes.
        labels: the class of each record, where that is known beforehand.
    """

    def __init__(
        self,
        files: RemoteFiles,
        sizes: Sequence[int],
        layout: chunks.Layout,
        num_classes: int,
        labels: np.ndarray | None,
    ) -> None:
        self.files = files
        self.starts = np.cumsum([0, *sizes])
        self.layout = layout
        self.num_classes = num_classes
        if labels is not None:
            self.labels = labels
        if layout.key is not None:
            self.keys = ChunkKeys(self)
        if files.remote:
            self.blocks = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, number: int) -> tuple[bytes, int | Tensor]:
        fields = self.fields(number)
        label = np.frombuffer(fields[self.layout.label], np.int32 if self.layout.several else np.int64)
        outside = label[((label < 0) | (label >= self.num_classes)) & (label != IGNORE)]
        if len(outside):
            raise InputError(f"{self.name(number)} has label {outside[0]}, outside the {self.num_classes} classes")
        if not self.layout.several:
            return fields[self.layout.image], int(label[0])
        if IGNORE in label:
            return fields[self.layout.image], torch.full((self.num_classes,), float(IGNORE))
        target = torch.zeros(self.num_classes)
        target[torch.from_numpy(label.astype(np.int64))] = 1
        return fields[self.layout.image], target

    def fields(self, number: int) -> list[bytes]:
        """Return the parts of a record.

        Raises:
            BrokenImage: if it does not lie where its chunk says.
        """
        chunk, place = self._place(number)
        begin, end = np.frombuffer(self.files.read(chunk, 4 + 4 * place, 8).ljust(8, b"\0"), np.uint32).tolist()
        file = self.files[chunk]
        if begin == end and file.sha256 is None:
            raise InputError(f"{file.url} holds no records but Arrow rows, which LitData alone reads")
        end = min(end, file.size or end)  # a damaged place may ask for gigabytes
        try:
            fields = chunks.fields(self.files.read(chunk, begin, max(0, end - begin)), len(self.layout.formats))
            size = len(fields[self.layout.label])
            if size % 4 if self.layout.several else size != 8:
                raise ValueError(f"its label has {size} bytes")
        except ValueError as error:
            raise BrokenImage(self.name(number), f"{error}; the shard is damaged") from error
        return fields

    def name(self, number: int) -> str:
        """Return what a record is called whose own name cannot be had."""
        chunk, place = self._place(number)
        return f"record {place} of {self.files[chunk].url}"

    def _place(self, number: int) -> tuple[int, int]:
        """Return the chunk of a record, and its number there."""
        chunk = int(np.searchsorted(self.starts, number, side="right")) - 1
        return chunk, number - int(self.starts[chunk])

    def announce(self, numbers: np.ndarray) -> None:
        """Begin to fetch what records that come soon lie in."""
        found = np.searchsorted(self.starts, numbers, side="right") - 1
        self.files.announce(dict.fromkeys(found.tolist()))


class ChunkKeys(Sequence[str]):
    """Names of the records, which the chunks hold; where one is damaged or missing, its place."""

    lie_in_records = True
    """Looking at all of them would read all chunks."""

    def __init__(self, source: ChunkRecords) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < len(self):
            raise IndexError(number)
        try:
            key = self.source.fields(number)[self.source.layout.key].decode()
        except (InputError, UnicodeDecodeError):
            key = ""
        return key if key and key.isprintable() else self.source.name(number)
