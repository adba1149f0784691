"""Files that were cut short or changed: whatever their reader stumbles over becomes one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vit_lightning.errors import InputError


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


def reason(error: Exception) -> str:
    """Say in one line what an exception says, with its type where that would be a bare word."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    return text if " " in text else f"{type(error).__name__} {text}".rstrip()
