"""Paths of images as a table lists them, and where their files lie."""

from collections.abc import Sequence
from pathlib import Path

from datamodules.reading.array_cache import MappedStrings
from datamodules.reading.image_files import find_image


class Paths(MappedStrings):
    """Paths of image files that start from one of some folders.

    Args:
        file: where they are kept.
        folders: the folders; a path that leads to different files from two of them is an error.
    """

    def __init__(self, file: Path, folders: Sequence[Path]) -> None:
        super().__init__(file, "paths")
        self.folders = folders

    def __reduce__(self) -> tuple:
        return Paths, (self.file, self.folders)

    def image(self, number: int) -> Path:
        """Return an image's path, which starts from where the program runs."""
        return find_image(self[number], self.folders, self[number])
