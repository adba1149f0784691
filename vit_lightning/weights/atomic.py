"""Writing files and folders completely or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vit_lightning.errors import InputError
from vit_lightning.text_files import unwritable


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yields a path of the same name in a new folder beside it; what is there at the end takes the place of `path`.

    Args:
        path: file or folder to make; nothing may be there yet.

    Raises:
        InputError: something is there already, or the system does not let it be written.
    """
    if path.exists():
        raise InputError(f"{path} exists already: choose another name, or remove it first.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            yield Path(folder) / path.name
            for made in Path(folder).iterdir():
                os.replace(made, path.parent / made.name)
    except Exception as error:
        if fault := unwritable(path, error):
            raise fault from error
        raise
