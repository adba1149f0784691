"""Which images belong to others by their names, as cat0_mask.png and cat0_128x128.png do to cat0.png."""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import combinations

from datamodules.reading import folder_names

ADDED = 3
"""Numbers that one of two such names may have beside those of the other: a size, a year, a version."""
MOST = 8
"""Numbers in a name of which some may be left out; names with more, as hashes, are compared by their beginnings."""
SHARED = 10
"""One image of so many may be called as one of another class by chance."""


def are_apart(images: Collection[str], sides: Collection[str]) -> bool:
    """Tell whether hardly any of some images is called as one of the others is, but for a few numbers.

    Args:
        images: names without their endings.
        sides: those of what may belong to these images.
    """
    wholes = {key: name for name in images for key in _wholes(name)}
    parts = {key: name for name in images for key in _parts(name)}
    owners = [set(_owners(side, wholes, parts)) for side in sides]
    found = sum(map(bool, owners))
    owning = len(set().union(*owners))
    return SHARED * found < len(sides) or SHARED * owning < min(len(sides), len(images))


def _owners(side: str, wholes: dict[str, str], parts: dict[str, str]) -> Iterator[str]:
    """Yield images of whose name another is a part, or has a part that is all of it."""
    for key in _wholes(side):
        yield from (found[key] for found in (wholes, parts) if key in found)
    yield from (wholes[key] for key in _parts(side) if key in wholes)


def _wholes(name: str) -> Iterator[str]:
    """Yield what stands for a name: all of its text, and its numbers or else its words."""
    yield "_".join(_pieces(name))
    if key := _text(_numbers(name)) or _words(name):
        yield key


def _parts(name: str) -> Iterator[str]:
    """Yield what stands for a part of a name: its beginnings, its words, and its numbers without a few."""
    pieces, numbers = _pieces(name), _numbers(name)
    yield from ("_".join(pieces[:end]) for end in range(1, len(pieces)))
    if numbers and (words := _words(name)):
        yield words
    if len(numbers) <= MOST:
        for count in range(max(1, len(numbers) - ADDED), len(numbers)):
            yield from map(_text, combinations(numbers, count))


def _pieces(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.lower())


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall("[0-9]+", name)]


def _text(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def _words(name: str) -> str:
    """Return the words of a name that say which image it is."""
    words = folder_names.words_of(name)
    return " ".join(word for word in words if not word.isdigit() and len(word) > 1 and not folder_names.is_side(word))
