"""Names of class folders that may be one name: written with and without a sign, or as a number with zeros before it."""

import re
from collections.abc import Collection, Set

SIGNS = re.compile(r"(?<=[^\W\d_])[-_. ]+(?=[^\W_])|(?<=\d)[-_. ]+(?=[^\W\d_])")
"""Signs between two words or a word and a number; between numbers they tell 1-2 from 12."""
PADDED = re.compile("0+[0-9]+")


def alike_but_for_signs(names: Collection[str]) -> tuple[str, str] | None:
    """Return the first two names that differ in signs and letters' sizes alone, as TCGA-01 and TCGA01."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(SIGNS.sub("", name).casefold(), name)
        if other != name:
            return other, name
    return None


def said_of_signs(names: Collection[str]) -> str | None:
    """Say which two classes may be one."""
    pair = alike_but_for_signs(names)
    if pair is None:
        return None
    return (
        f"the classes {pair[0]!r:.60} and {pair[1]!r:.60} differ in signs alone, and are read as two; if they are one, "
        "rename one folder; if they are two, list all classes in --data.class_map"
    )


def padded_numbers(names: Collection[str], numbers: Set[str]) -> dict[str, str]:
    """Return the number that each folder called with zeros before it stands for, as 00014 for 14.

    Args:
        names: all folders' names.
        numbers: those of classes, as a table of these has them.

    Returns:
        Nothing, if two folders stand for one number, or none for one of those.
    """
    found = {name: str(int(name)) for name in names if PADDED.fullmatch(name) and name not in numbers}
    are_two = len({*found.values()}) < len(found) or not {*found.values()}.isdisjoint(names)
    return {} if are_two or numbers.isdisjoint(found.values()) else found
