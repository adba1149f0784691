"""Image files: which files count as images, and those of a folder with their labels."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from datamodules.reading.shared_sequences import Strings
from vit_lightning.data.images import is_hidden

ENDINGS = (".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
"""Endings, in any case, of the files that are taken for images; what they hold decides how they are decoded."""


class ImageFiles:
    """Image files with labels, opened one by one.

    Args:
        root: folder that the names start from.
        names: paths of the files under root.
        labels: one class per file.
    """

    def __init__(self, root: Path, names: Iterable[str], labels: Sequence[int]) -> None:
        self.root = root
        self.keys = Strings(names)
        self.labels = np.asarray(labels, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Path, int]:
        return self.root / self.keys[index], int(self.labels[index])


def is_image(path: str) -> bool:
    """Tell by its name whether a file is taken for an image."""
    return path.lower().endswith(ENDINGS) and not is_hidden(os.path.basename(path))


def files_below(root: Path, name: str) -> Iterator[str]:
    """Yield the paths under root of all files in its folder `name`, sorted, without those in hidden folders."""
    for path, folders, files in os.walk(root / name):
        folders[:] = sorted(folder for folder in folders if not is_hidden(folder))
        start = os.path.relpath(path, root)
        yield from (os.path.join(start, file) for file in sorted(files))
