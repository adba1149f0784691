"""Files that were cut short or changed: whatever their reader stumbles over becomes one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vit_lightning.errors import InputError
from vit_lightning.files import open_regular

MAX_BYTES = 2**30
"""Larger files are refused before they are read whole: no list of images or labels needs more."""


@contextmanager
def reading(file: Path | str) -> Iterator[None]:
    """Name the file in what goes wrong inside.

    Over damaged bytes the parsers of foreign formats raise anything, so nothing narrower will do.

    Args:
        file: what is read.

    Raises:
        InputError: in place of any other exception than a missing package.
    """
    try:
        yield
    except (InputError, ImportError):
        raise
    except Exception as error:
        raise InputError(f"{file} cannot be read ({reason(error)}); it is damaged or cut short") from error


def read_whole(file: Path) -> bytes:
    """Return the content of a list of images or labels.

    Raises:
        OSError: the file is missing or no regular one.
        ValueError: it is far too large to be such a list.
    """
    with open_regular(file) as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{file} has more than the {MAX_BYTES:,} bytes that a list of images may have")
    return data


def reason(error: Exception) -> str:
    """Say in one line what an exception says, with its type where that would be a bare word."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    return text if " " in text else f"{type(error).__name__} {text}".rstrip()
