"""How the files of scores are called: those of one net by their verb, those of several nets together by their own."""

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path


def stem(folder: Path, verb: str, members: Sequence[str]) -> str:
    """Return how the names of a verb's files begin: test, or test.mean, test.mean-2, ... for each group of nets.

    Args:
        folder: Where the files lie.
        verb: What scores, test or validate.
        members: Paths of the nets that answer together; empty: one answers.
    """
    if not members:
        return verb
    names = (f"{verb}.mean" if number == 1 else f"{verb}.mean-{number}" for number in count(1))
    return next(name for name in names if _is_free_for(folder / f"{name}.json", members))


def _is_free_for(file: Path, members: Sequence[str]) -> bool:
    """Whether a file of scores is not there, or holds those of the same nets."""
    if not file.exists():
        return True
    if not file.is_file():
        return False
    try:
        facts = json.loads(file.read_text())
        return [member["checkpoint"] for member in facts["members"]] == list(members)
    except (OSError, ValueError, KeyError, TypeError):
        return False
