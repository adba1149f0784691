"""How the files of scores are called: those of a run's own data by their verb, those of other data by a number too."""

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path


def stem(folder: Path, verb: str, source: Mapping[str, str], is_own: bool) -> str:
    """Return how the names of a verb's files begin: test, or test-2, test-3, ... for each set of other data.

    Args:
        folder: Where the files lie.
        verb: What scores, test or validate.
        source: What the data are known by.
        is_own: Whether they are the run's own.
    """
    if is_own:
        return verb
    return next(name for number in count(2) if _is_for(folder / f"{(name := f'{verb}-{number}')}.json", source))


def _is_for(file: Path, source: Mapping[str, str]) -> bool:
    """Tell whether a file of scores is not there, or holds those of the same data."""
    if not file.exists():
        return True
    try:
        return file.is_file() and json.loads(file.read_text())["source"] == dict(source)
    except (OSError, ValueError, KeyError, TypeError):
        return False
