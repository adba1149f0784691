"""A set as a checkpoint keeps it: labels, names and some content, as hashes, without loading its images."""

import os
from collections.abc import Callable
from functools import cached_property
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch

from vit_lightning.data.image_set import blocks_of, keys_of, labels_of, record_of
from vit_lightning.data.images import read
from vit_lightning.data.subsets import Subset
from vit_lightning.seeds import seeded

SAMPLE = 4096
"""Images of a set whose labels are kept one by one; of larger sets the others are in a digest."""
MOST_NAMED = 2**19
"""Images of a set up to which all names are looked at, which takes a second or two; beyond, their order stands."""
OPENED = 8
"""Images of a set whose files are looked at, so that folders that were exchanged are seen where names are the same."""


class SeenSet:
    """A set of which all labels are at hand without its images.

    Args:
        images: the set.
        label_at: gives the label of a record.
    """

    def __init__(self, images: Any, label_at: Callable[[int], Any]) -> None:
        self.images = images
        self.label_at = label_at

    @classmethod
    def of(cls, images: Any) -> "SeenSet | None":
        """Return a set as it is seen, None where there is none or its labels cannot be had without its images."""
        label_at = None if images is None or not len(images) else _label_reader(images)
        return None if label_at is None else cls(images, label_at)

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def names(self) -> np.ndarray | None:
        """A hash of each image's name `(n,)`; None: the images have none of their own, or too many to look at."""
        return None if self._named is None else self._named[0]

    @property
    def file_names(self) -> np.ndarray | None:
        """A hash of each image's name without its folders `(n,)`, None as for `names`."""
        return None if self._named is None else self._named[1]

    @cached_property
    def _named(self) -> np.ndarray | None:
        if len(self) > MOST_NAMED or self.names_lie_in_records:
            return None
        keys = _own_names(keys_of(self.images))
        if keys is None or isinstance(keys[0], int | np.integer):
            return None
        found = np.empty((2, len(self)), np.int64)
        for index in range(len(self)):
            name = _portable(str(keys[index]))
            found[:, index] = _hash(name), _hash(name.rpartition("/")[2])
        return found

    @property
    def names_lie_in_records(self) -> bool:
        """Whether names can be had from the records alone, so that looking at all would read all records."""
        return _says(keys_of(self.images), "lie_in_records")

    @property
    def is_in_any_order(self) -> bool:
        """Whether an image's number says nothing about it."""
        return _says(keys_of(self.images), "are_row_numbers")

    @property
    def is_known_by_content(self) -> bool:
        """Whether the names do not tell one image from another, and a few images do."""
        return self.names is None and (self.names_lie_in_records or self.is_in_any_order)

    @cached_property
    def sample(self) -> np.ndarray:
        """Numbers of the images that are kept one by one; any of unique names, the same ones in every order."""
        if self.names is None:
            return np.unique(np.linspace(0, len(self) - 1, SAMPLE).astype(np.int64))
        _, first, times = np.unique(self.names, return_index=True, return_counts=True)
        return first[times == 1][:SAMPLE]

    def labels(self, places: np.ndarray) -> np.ndarray:
        """Return labels as numbers; a vector's is a hash."""
        return np.array([_number(self.label_at(int(place))) for place in places], np.int64)

    def places_of(self, names: np.ndarray) -> np.ndarray:
        """Return where images of these hashes are, -1 for those that are not here or here twice."""
        assert self.names is not None
        there, first, times = np.unique(self.names, return_index=True, return_counts=True)
        found = np.searchsorted(there, names).clip(max=len(there) - 1)
        return np.where((there[found] == names) & (times[found] == 1), first[found], -1)

    @cached_property
    def contents(self) -> dict[int, int]:
        """A hash of the file of some images, by the hash of their name; of images that are files or encoded alone."""
        if self.names is None or blocks_of(self.images) is not None:  # what has blocks is slow to read, as from afar
            return {}
        found = {}
        with seeded(0):  # a foreign set may draw
            for place in self.sample[:OPENED].tolist():
                if (content := self.content(place)) is not None:
                    found[int(self.names[place])] = content
        return found

    def content_of(self, name: int) -> int | None:
        """Return the hash of the file of an image, by the hash of its name; None: it is not here."""
        place = int(self.places_of(np.array([name]))[0])
        return None if place < 0 else self.content(place)

    def content(self, place: int) -> int | None:
        """Return a hash of the file of an image, None of any other image."""
        try:
            image = record_of(self.images, place)[0]
            data = read(image, name="") if isinstance(image, str | Path) else image
        except Exception:  # whoever loads the image says why it cannot be read
            return None
        return hash_of(data) if isinstance(data, bytes) else None

    def file(self, place: int) -> Path | None:
        """Return the path of an image, None of one that is no file of its own."""
        try:
            image = record_of(self.images, place)[0]
        except Exception:  # see above
            return None
        return Path(image) if isinstance(image, str | Path) else None

    def kept(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, in plain types and tensors."""
        names, listed = self.names, labels_of(self.images)
        return {
            "images": len(self),
            "names": None if names is None else torch.from_numpy(names[self.sample]),
            "labels": torch.from_numpy(self.labels(self.sample)),
            "all_names": "" if names is None else _digest(names),
            "all_labels": "" if listed is None or listed.ndim != 1 else _digest(listed.astype(np.int64)),
            "contents": self.contents,
        }


def _label_reader(images: Any) -> Callable[[int], Any] | None:
    """Return what gives a record's label without reading its image; None: nothing does."""
    listed = labels_of(images)
    if listed is not None:
        return listed.__getitem__
    if isinstance(images, Subset):
        inner = _label_reader(images.source)
        return None if inner is None else lambda place: inner(int(images.indices[place]))
    return getattr(images, "label_at", None)


def _own_names(keys: Any) -> Any:
    """Return names that stay when the order of the images changes; None: there are none such."""
    if isinstance(keys, Subset):
        inner = _own_names(keys.source)
        return None if inner is None else Subset(inner, keys.indices)
    return keys.own_names() if hasattr(keys, "own_names") else keys


def _says(keys: Any, what: str) -> bool:
    """Tell what names say of themselves."""
    return _says(keys.source, what) if isinstance(keys, Subset) else getattr(keys, what, False)


def _portable(name: str) -> str:
    """Return a name that stays when the data move; of a whole path, the file and its folder."""
    return "/".join(PurePath(name).parts[-2:]) if os.path.isabs(name) else name


def hash_of(data: bytes) -> int:
    """Return a hash of 64 bits."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)


def _hash(text: str) -> int:
    return hash_of(text.encode(errors="surrogatepass"))


def _digest(numbers: np.ndarray) -> str:
    return blake2b(np.ascontiguousarray(numbers), digest_size=16).hexdigest()


def _number(label: Any) -> int:
    values = np.asarray(label)
    return int(values) if values.ndim == 0 else _hash(",".join(f"{value:.6g}" for value in values.tolist()))
