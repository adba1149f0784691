"""How the files of scores are called: by their verb, and by a number where other nets or other data are scored."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path

from vit_lightning.files import replace
from vit_lightning.terminal import near


def stem(folder: Path, verb: str, members: Sequence[str], source: Mapping[str, str], is_own: bool) -> str:
    """Return how the names of a verb's files begin.

    Args:
        folder: Where the files lie.
        verb: What scores, test or validate.
        members: Paths of the nets that answer together, whose files begin with test.mean; empty: one answers.
        source: What the data are known by.
        is_own: Whether they are the run's own; others have test-2, test-3, ... each.
    """
    if is_own and not members:
        return verb
    begins = f"{verb}.mean" if members else verb
    names = (begins if number == 1 else f"{begins}-{number}" for number in count(1 if is_own else 2))
    return next(name for name in names if _is_free_for(folder / f"{name}.json", members, source))


def _is_free_for(file: Path, members: Sequence[str], source: Mapping[str, str]) -> bool:
    """Tell whether a file of scores is not there, or holds those of the same nets on the same data."""
    if not file.exists():
        return True
    if not file.is_file():
        return False
    try:
        facts = json.loads(file.read_text())
        same_nets = [member["checkpoint"] for member in facts.get("members", ())] == list(members)
        return same_nets and facts.get("source", {}) == dict(source)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def put_aside(paths: Iterable[Path]) -> list[str]:
    """Give files of an earlier call names of their own, and return what is to be said of each that was there."""
    said = []
    for path in paths:
        if path.is_file():
            names = (path.with_name(f"{path.stem}.earlier-{number}{path.suffix}") for number in count(1))
            kept = next(name for name in names if not name.exists())
            replace(path, kept)
            said.append(f"kept     {path.name} of an earlier call as {near(kept)}")
    return said
