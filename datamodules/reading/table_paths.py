"""Paths of images as a table lists them, and where their files lie."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from datamodules.reading.array_cache import MappedStrings
from datamodules.reading.image_files import find_image, prefix_advice
from vit_lightning.data.images import BrokenImage

LOOKED_FOR = 8
"""Images of each table whose files are looked for before the first step."""


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
        return find_image(self[number], self.folders, f"row {number + 1} of its table")

    def fault(self, table: Path) -> str:
        """Say that none of some paths leads to a file, or one to two; nothing if all is well.

        Args:
            table: what to call their table.
        """
        some = np.unique(np.linspace(0, len(self) - 1, LOOKED_FOR).astype(int)).tolist()
        faults = []
        for number in some:
            try:
                self.image(number)
            except BrokenImage as error:
                faults.append(error.reason)
        if doubtful := [reason for reason in faults if not reason.startswith("No such file")]:
            return f"{table}: {doubtful[0]}; or give --data.image_folder"
        if len(faults) < len(some):
            return ""
        return (
            f"{table}: no path leads to a file. {faults[0]}; give --data.image_folder, --data.image_prefix or "
            f"--data.image_ending{prefix_advice(self[some[0]], self.folders)}"
        )
