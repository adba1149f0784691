"""Data sets in the form in which their authors publish them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datamodules.reading.damaged_files import reason
from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import ImageSet, keys_of
from vit_lightning.data.records import OnError
from vit_lightning.data.subsets import hold_out
from vit_lightning.errors import InputError


class Labelled:
    """Images, labels and keys that lie beside each other.

    Args:
        images: one image per record, in any form that a set may hold.
        labels: one class per record.
        keys: one key per record, as TensorFlow Datasets has it.
    """

    def __init__(self, images: Sequence[Any], labels: Sequence[int] | np.ndarray, keys: Sequence[str | int]) -> None:
        self.images = images
        self.labels = np.asarray(labels, dtype=np.int64)
        self.keys = keys

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.images[index], int(self.labels[index])


@dataclass(frozen=True)
class PublishedSet:
    """A published data set: where its files lie, how many images they hold, and how they are read.

    Args:
        name: what to call it in messages.
        layout: where its files lie under root.
        sizes: number of images of each split; the splits are those of TensorFlow Datasets.
        read: makes the set of one split under root, with keys as TensorFlow Datasets has them.
        fetch: downloads it into root; None if it must be fetched by hand.
    """

    name: str
    layout: str
    sizes: Mapping[str, int]
    read: Callable[[Path, str], ImageSet]
    fetch: Callable[[Path], object] | None = None

    def open(self, root: Path, split: str, allow_incomplete: bool = False) -> ImageSet:
        """Read a split.

        Args:
            root: folder that the layout starts from.
            split: one of those in `sizes`.
            allow_incomplete: accept another number of images than the published one, though not zero.

        Raises:
            InputError: if files or a package are missing, or files are damaged.
        """
        try:
            found = self.read(root, split)
        except ImportError as error:
            raise InputError(f"{self.name} needs {error.name}: pip install 'vit-lightning[vtab]'") from error
        except Exception as error:  # see damaged_files.reading
            raise InputError(
                f"{self.name} is missing or damaged ({reason(error)}): expected {self.layout} under {root}; "
                "give --data.root"
            ) from error
        if len(found) == 0 or not (allow_incomplete or len(found) == self.sizes[split]):
            raise InputError(
                f"{self.name} has {len(found)} {split} images where {self.sizes[split]} were published: expected "
                f"{self.layout} under {root}; complete it, or give --data.allow_incomplete true for another split"
            )
        return found

    def download(self, root: Path) -> None:
        """Download the set into root, which takes no time if it is there.

        Raises:
            InputError: if that fails or nobody offers it.
        """
        by_hand = f"put {self.layout} under {root} by hand"
        if self.fetch is None:
            raise InputError(f"{self.name} cannot be downloaded from here; leave --data.download out and {by_hand}")
        try:
            self.fetch(root)
        except (OSError, RuntimeError, ImportError) as error:
            raise InputError(f"{self.name} could not be downloaded ({reason(error)}); {by_hand}") from error


class PublishedData(ImageDataModule):
    """A published data set under root.

    Args:
        root: folder that holds the set's own files or folder.
        download: fetch the set if root lacks it, where its publisher lets programs do so.
        allow_incomplete: accept another number of images than was published; the splits are then other ones.
        on_error: as everywhere, but by default damage inside a JPEG passes: published sets hold such files, which
            count in everyone's figures.
    """

    published: PublishedSet
    has_published_splits = True

    def __init__(
        self,
        root: Path = Path("data"),
        download: bool = False,
        allow_incomplete: bool = False,
        on_error: OnError = "fix",
        **kwargs,
    ) -> None:
        super().__init__(root=root, on_error=on_error, **kwargs)
        self.download = download
        self.allow_incomplete = allow_incomplete

    def prepare_data(self) -> None:
        if self.download:
            self.published.download(self.root)

    def read(self, split: str) -> ImageSet:
        """Read a split of the set, named as in TensorFlow Datasets."""
        return self.published.open(self.root, split, self.allow_incomplete)


class HeldOutData(PublishedData):
    """A published data set with train and test splits, of which the last training images validate (paper, table 4).

    Args:
        val_fraction: share of the training images, in the order of TensorFlow Datasets, held out for validation; 0
            trains on all of them.
    """

    def __init__(self, val_fraction: float = 0.1, **kwargs) -> None:
        super().__init__(**kwargs)
        self.val_fraction = val_fraction

    def setup(self, stage: str) -> None:
        whole = self.read("train")
        self.train_set, self.val_set = hold_out(whole, self.val_fraction, tfds_order("train", keys_of(whole)))
        self.test_set = self.read("test")


def own_folder(root: Path, folder: str) -> Path:
    """Return the set's own folder in root, or root itself where the files lie loose in it."""
    return root / folder if (root / folder).is_dir() else root


def tfds_order(split: str, keys: Sequence[str | int]) -> np.ndarray:
    """Return the record numbers in the order of TensorFlow Datasets, in which the paper's splits are slices.

    Args:
        split: the set's own name of the split, such as "train".
        keys: the records' keys in that split; which they are is a fact of each set (CIFAR: the row number).
    """
    digests = [hashlib.md5(f"{split}{key}".encode(), usedforsecurity=False).digest() for key in keys]
    return np.array(sorted(range(len(keys)), key=digests.__getitem__), dtype=np.int64)
