"""Class names that weights carry, held against those of the data, since a head answers by number."""

import re
from collections.abc import Sequence

from vit_lightning.errors import InputError

WNID = re.compile(r"n\d{8}")
"""WordNet's ids, by which folders of ImageNet are called."""


def check_equal(ours: Sequence[str], theirs: Sequence[str], owner: str) -> None:
    """Refuse data whose classes are not those of a checkpoint, or of a model; either may have no names.

    Args:
        ours: names of the data's classes.
        theirs: names of the owner's.
        owner: what has them, in words.

    Raises:
        InputError: naming the first class that differs.
    """
    if not ours or not theirs:
        return
    if len(ours) != len(theirs):
        raise InputError(f"the data has {len(ours)} classes, the {owner} {len(theirs)}; use the data it saw")
    for number, (name, other) in enumerate(zip(ours, theirs, strict=True)):
        if name != other:
            raise InputError(f"class {number} is {name!r} in the data but {other!r} in the {owner}")


def check_order(ours: Sequence[str], theirs: Sequence[str]) -> str | None:
    """Refuse a head whose classes are not the data's, in their order.

    Names that share a synonym, as "tench, Tinca tinca" and "Tench", are one class.

    Args:
        ours: names of the data's classes; none: any head serves.
        theirs: names of the head's classes; none: the weights do not say.

    Returns:
        A warning if they cannot be compared.

    Raises:
        InputError: naming the first class that differs, and what to do.
    """
    if not ours or not theirs:
        return None
    if len(ours) != len(theirs):
        raise InputError(
            f"the data has {len(ours)} classes, the weights {len(theirs)}: begin a new head with "
            "--model.weights_head reset, or take data of the same classes"
        )
    if _are_ids(ours) != _are_ids(theirs) and not {*ours} & {*theirs}:
        return (
            f"class 0 is {ours[0]!r} in the data and {theirs[0]!r} in the weights: ids and words cannot be compared, "
            "and the head's classes are taken by number"
        )
    known = set(theirs)
    for number, (name, other) in enumerate(zip(ours, theirs, strict=True)):
        if name == other or (name not in known and _synonyms(name) & _synonyms(other)):
            continue
        fix = "give the data the order of the weights, with --data.class_map where it has one, or begin a new head"
        if {*ours} != known:
            fix = "take data of the same classes, or begin a new head"
        raise InputError(
            f"class {number} is {name!r:.60} in the data but {other!r:.60} in the weights, whose head answers by "
            f"number: {fix} with fit and --model.weights_head reset"
        )
    return None


def _are_ids(names: Sequence[str]) -> bool:
    return all(map(WNID.fullmatch, names))


def _synonyms(name: str) -> set[str]:
    """Return what a name is called, without what tells two of one name apart, as in crane (n02012849)."""
    parts = (re.sub(r"\(n\d{8}\)", "", part) for part in name.split(","))
    return {" ".join(re.split(r"[\s_-]+", part.strip().casefold())) for part in parts} - {""}
