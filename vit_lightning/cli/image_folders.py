"""Folders of images that stand behind a verb where a run is meant to."""

import mimetypes
import os
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from vit_lightning.errors import InputError
from vit_lightning.runs import folders

DEEPEST = 3
"""Levels of folders that are looked into: those of train/<class>/<image>."""
MOST_ENTRIES = 10_000
"""Files and folders that are looked at."""


def check_images(verb: str, word: str, needs_net: bool, as_files: bool) -> None:
    """Refuse a folder of images behind a verb.

    Args:
        verb: the verb.
        word: what stands behind it, which is no run.
        needs_net: whether it looks at a trained net.
        as_files: whether it takes images without classes as further words.

    Raises:
        InputError: naming the command that reads the images.
    """
    path = Path(word).expanduser()
    if not path.is_dir() or folders.runs_below(path):
        return
    level = min(_levels(path), default=None)
    if level is None or (level == 0 and not as_files):
        return
    said = f"{verb} {word}: a folder of images{' in folders of classes' * (level > 0)}, and no run"
    data = ["--data", "ImageFolder", "--data.root", word]
    if as_files:
        raise InputError(f"{said}; name the run before it: {shlex.join([verb, 'RUN', word])}")
    if not needs_net:
        raise InputError(f"{said}; give {shlex.join(data)}")
    raise InputError(f"{said}; name a run or checkpoint first, then the images: {shlex.join([verb, 'RUN', *data])}")


def _levels(folder: Path) -> Iterator[int]:
    """Yield how many folders deep images lie in one, of the first that are found at each level."""
    for level in range(DEEPEST):
        if any(map(_is_image, islice(folder.glob("*/" * level + "*"), MOST_ENTRIES))):
            yield level


def _is_image(path: Path) -> bool:
    kind = mimetypes.guess_type(path.name)[0] or ""
    return kind.startswith("image/") and not path.name.startswith(".") and os.path.isfile(path)
