"""Samples of WebDataset tars: where they lie, written down once, and how they are read by their number."""

import os
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from datamodules.reading import array_cache
from datamodules.reading.label_text import whole_number
from datamodules.reading.named_codes import Named
from datamodules.reading.remote_files import MissingFile, RemoteFiles
from datamodules.reading.shared_sequences import Ragged, Strings
from datamodules.reading.tar_parts import SampleForm, samples
from vit_lightning.data.images import BrokenImage, check_bytes
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.terminal import stderr_bar


class TarSamples:
    """Samples of tars by number.

    Args:
        files: the tars.
        file: where `index_samples` has put what lies in them.
        labels: the class of each sample; or rows of classes, where a sample may have several. IGNORE: it is not told.
        num_classes: length of label vectors, where a sample may have several.
    """

    def __init__(self, files: RemoteFiles, file: Path, labels: np.ndarray | Ragged, num_classes: int) -> None:
        self.files = files
        arrays = array_cache.load(file)
        self.keys = array_cache.MappedStrings(file, "keys")
        self.file = file
        self.num_classes = num_classes
        self.classes = labels
        if not isinstance(labels, Ragged):
            self.labels = labels
        self.places = arrays["places"]
        self.sizes = arrays["sizes"]
        self.tars = arrays["tars"]
        if files.remote:
            self.blocks = self.tars

    def __len__(self) -> int:
        return len(self.classes)

    def __getstate__(self) -> tuple:
        return self.files, self.file, self.classes, self.num_classes

    def __setstate__(self, state: tuple) -> None:
        self.__init__(*state)

    def __getitem__(self, number: int) -> tuple[bytes, int | Tensor]:
        tar, size = int(self.tars[number]), int(self.sizes[number])
        check_bytes(size, self.keys[number])
        data = self.files.read(tar, int(self.places[number]), size)
        if len(data) < size:
            raise BrokenImage(self.keys[number], f"{self.files[tar].url} ends before it")
        return data, self.label_at(number)

    def label_at(self, number: int) -> int | Tensor:
        """Return the label of a sample."""
        classes = self.classes[number]
        if not isinstance(self.classes, Ragged):
            return int(classes)
        if IGNORE in classes:
            return torch.full((self.num_classes,), float(IGNORE))
        return torch.zeros(self.num_classes).index_fill(0, torch.as_tensor(classes, dtype=torch.int64), 1)

    def announce(self, numbers: np.ndarray) -> None:
        """Begin to fetch the tars of samples that come soon."""
        self.files.announce(dict.fromkeys(self.tars[numbers].tolist()))


def index_samples(files: RemoteFiles, file: Path, form: SampleForm, report: Callable[[InputError], None]) -> None:
    """Read all tars and write down where their samples lie; a class that is not told has the place after all names.

    Args:
        files: the tars.
        file: where to put it.
        form: how their samples are made up.
        report: called with the fault of each damaged tar, of which only the samples before the damage are written
            down.
    """
    rank_zero_info(f"reading {len(files)} tars, once")
    places, sizes, labels, ends = array("q"), array("q"), array("q"), array("q", [0])
    counts, lengths = [], []
    names: dict[str, int] = {}
    named: list[Named] = []

    def keys() -> Iterator[str]:
        with stderr_bar() as bar:
            for number in bar.track(range(len(files)), description=file.name.rpartition("-")[0]):
                files.announce(range(number, min(number + 4, len(files))))
                before = len(places)
                named.append(Named(files[number].url, form.label_field, words=("sample", "field")))
                lengths.append(0)
                try:
                    lengths[number] = os.fstat(files.open(number).fileno()).st_size
                    for sample in samples(files.open(number), files[number].url, form):
                        places.append(sample.start)
                        sizes.append(sample.size)
                        said = (names.setdefault(name, len(names)) for name in sample.labels or ())
                        labels.extend([-1] if sample.labels is None else said)
                        ends.append(len(labels))
                        named[-1].labelled += sample.labels is not None
                        if sample.called and sample.labels:
                            named[-1].add(whole_number(sample.labels[0]), sample.called, len(places) - before)
                        yield sample.key
                except MissingFile:
                    raise
                except InputError as error:
                    report(error)
                counts.append(len(places) - before)

    found = Strings(keys())
    numbers = np.array(labels, dtype=np.int64)
    numbers[numbers < 0] = len(names)
    numbers = array_cache.compact(numbers)
    arrays = {
        "keys": found,
        "places": array_cache.compact(np.frombuffer(places, dtype=np.int64)),
        "sizes": array_cache.compact(np.frombuffer(sizes, dtype=np.int64)),
        "labels": Ragged(numbers, np.frombuffer(ends, dtype=np.int64)) if form.multi_label else numbers,
        "tars": np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        "lengths": np.array(lengths),
        "names": Strings(names),
        "named": Strings([one.dumped() for one in named if one.rows]),
    }
    array_cache.save(file, arrays)
