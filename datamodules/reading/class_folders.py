"""The images in the folders of classes, and what is odd about the files there."""

import os
from array import array
from collections.abc import Collection, Iterable
from pathlib import Path

from datamodules.reading import folder_marks, folder_sides, unread_images
from datamodules.reading.image_files import is_image, numbered_files_below
from vit_lightning.terminal import counted

SAID = 5
"""Folders of which the files that may be no images of the class are told."""


class ClassImages:
    """The images in the folders of some classes.

    Args:
        folder: what holds the folders.
        known: names of folders that the user gave, which may hold images of any names.
    """

    def __init__(self, folder: Path, known: Collection[str] = ()) -> None:
        self.folder = folder
        self.known = known
        self.names: list[str] = []
        self.labels: list[int] = []
        self.numbers = array("Q")
        """That of each image's file in its file system."""
        self.by_folder: dict[str, list[str]] = {}
        self.others: list[str] = []
        """Files that are no pictures."""
        self._said: list[str] = []

    def add(self, label: int, names: Iterable[str]) -> int:
        """Add the images in the folders of a class, and return how many there are.

        Raises:
            InputError: a folder holds what may be no images of the class.
        """
        return sum(self._add_folder(label, name) for name in names)

    def _add_folder(self, label: int, name: str) -> int:
        files = dict(numbered_files_below(self.folder, name))
        images = list(filter(is_image, files))
        self._said += folder_sides.check_inside(self.folder, name, images, self.known)
        self._said += unread_images.check(self.folder, name, list(files))
        self._said += folder_marks.check(self.folder, name, images, self.known)
        self.by_folder[name] = images
        self.names += images
        self.labels += [label] * len(images)
        self.numbers.extend(files[image] for image in images)
        self.others += [file for file in files if not is_image(file) and not unread_images.refused(file)]
        return len(images)

    def said(self) -> list[str]:
        """Say what is odd about the files of a few folders."""
        more = len(self._said) - SAID
        rest = [f"{self.folder}: {more} more such notices, of other classes, are not shown"] if more > 0 else []
        return [*self._said[:SAID], *rest]


def said_of_strays(folder: Path) -> str | None:
    """Say which images lie beside the folders of classes."""
    with os.scandir(folder) as entries:
        strays = sorted(entry.name for entry in entries if is_image(entry.name) and entry.is_file())
    if not strays:
        return None
    return f"{folder} has {counted(len(strays), 'image')} in no folder of a class, such as {strays[0]}, left out"
