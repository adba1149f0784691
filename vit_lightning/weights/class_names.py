"""Class names that weights carry, held against those of the data, since a head answers by number."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from vit_lightning.data.carried_names import plain
from vit_lightning.errors import InputError, listing

WNID = re.compile(r"n\d{8}")
"""WordNet's ids, by which folders of ImageNet are called."""
MOST_LINES = 12
"""Lines of a class map that a message spells."""


def check_equal(ours: Sequence[str], theirs: Sequence[str], owner: str) -> None:
    """Refuse data whose classes are not those of a checkpoint, or of a model; either may have no names.

    Args:
        ours: names of the data's classes.
        theirs: names of the owner's. Names that share a synonym are one class, as for `check_order`.
        owner: what has them, in words.

    Raises:
        InputError: naming the classes that only one has, or the first in another order.
    """
    if not ours or not theirs:
        return
    if len(ours) != len(theirs):
        raise InputError(
            f"the data has {len(ours)} classes, the {owner} {len(theirs)}; use the data it saw"
            f"{_after(_differences(ours, theirs, owner))}"
        )
    known, synonyms = set(theirs), _Synonyms(theirs)
    for number, (name, other) in enumerate(zip(ours, theirs, strict=True)):
        if name != other and (name in known or not synonyms.may_be(name, number)):
            if said := _differences(ours, theirs, owner):
                same = "if they are the same classes, call them so in the data, by --data.class_map or class_names"
                raise InputError(f"{said}; {_mended(ours, theirs, same)}")
            raise InputError(
                f"class {number} is {name!r} in the data but {other!r} in the {owner}; give the data that order, by "
                "--data.class_map or class_names"
            )


def check_order(ours: Sequence[str], theirs: Sequence[str]) -> str | None:
    """Refuse a head whose classes are not the data's, in their order.

    Names that share a synonym, as "tench, Tinca tinca" and "Tench", are one class, where no other class shares more.

    Args:
        ours: names of the data's classes; none: any head serves.
        theirs: names of the head's classes; none: the weights do not say.

    Returns:
        A warning if they cannot be compared.

    Raises:
        InputError: naming the classes that only one has, or the first in another order, and what to do.
    """
    if not ours or not theirs:
        return None
    if len(ours) != len(theirs):
        alone = _after(_differences(ours, theirs, "weights"))
        raise InputError(
            f"the data has {len(ours)} classes, the weights {len(theirs)}: begin a new head with "
            f"--model.weights_head reset, or take data of the same classes{alone}"
        )
    if _are_ids(ours) != _are_ids(theirs) and not {*ours} & {*theirs}:
        return (
            f"class 0 is {ours[0]!r} in the data and {theirs[0]!r} in the weights: ids and words cannot be compared, "
            "and the head's classes are taken by number"
        )
    known = set(theirs)
    synonyms = _Synonyms(theirs)
    for number, (name, other) in enumerate(zip(ours, theirs, strict=True)):
        if name == other or (name not in known and synonyms.may_be(name, number)):
            continue
        if said := _differences(ours, theirs, "weights"):
            fix = _mended(ours, theirs, "take data of the same classes")
            raise InputError(f"{said}; {fix}, or begin a new head with fit and --model.weights_head reset")
        fix = "give the data the order of the weights, with --data.class_map where it has one, or begin a new head"
        raise InputError(
            f"class {number} is {name!r:.60} in the data but {other!r:.60} in the weights, whose head answers by "
            f"number: {fix} with fit and --model.weights_head reset"
        )
    if not {*ours} <= known:
        _check_ids(ours)
    return None


def _mended(ours: Sequence[str], theirs: Sequence[str], otherwise: str) -> str:
    """Say which class map calls the data's classes as their owner does, and what to do where that is not evident.

    A pair is evident where it is one name but for case, blanks, underscores, hyphens and a plural, and no other is.
    """
    pairs = []
    alone, missing = {*ours} - {*theirs}, {*theirs} - {*ours}
    for name in dict.fromkeys(name for name in ours if name in alone):
        alike = [other for other in missing if _stem(other) == _stem(name)]
        if len(alike) == 1 and sum(_stem(other) == _stem(name) for other in alone) == 1:
            pairs.append((name, alike[0]))
    if not pairs:
        return otherwise
    lines = listing((f"'{','.join(map(_in_csv, pair))}'" for pair in pairs), most=MOST_LINES)
    said = f"give --data.class_map FILE.csv with the line{'s' * (len(pairs) > 1)} {lines}"
    return said if len(pairs) == len(alone) == len(missing) else f"{said}; of the others, {otherwise}"


def numbers_of(ours: Sequence[str], theirs: Sequence[str]) -> list[int] | None:
    """Return which of a head's classes each of the data's is; None if one is none of them, or may be several.

    Args:
        ours: names of the data's classes.
        theirs: names of the head's classes; those that share a synonym with ours stand for the same class.
    """
    numbers = {name: number for number, name in enumerate(theirs)}
    count = Counter(theirs)
    synonyms = [_synonyms(name) for name in theirs] if not {*ours} <= {*theirs} else []
    found = []
    for name in ours:
        own = _synonyms(name)
        alike = [number for number, known in enumerate(synonyms) if known & own]
        exact = [numbers[name]] if count[name] == 1 else []
        chosen = exact or alike
        if len(chosen) != 1:
            return None
        found += chosen
    return found if len({*found}) == len(found) else None


def spelt(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return the data's classes as a head spells them, where the same names differ in case and signs alone."""
    is_one = len(ours) == len(theirs) and all(
        plain(one) == plain(other) for one, other in zip(ours, theirs, strict=True)
    )
    return list(theirs if is_one else ours)


def distinct(names: Sequence[str]) -> list[str]:
    """Return class names as keys: names that several classes have also show the number of the class."""
    count = Counter(names)
    keys = [f"{name} ({index})" if count[name] > 1 else name for index, name in enumerate(names)]
    return keys if len({*keys}) == len(keys) else [f"{name} ({index})" for index, name in enumerate(names)]


def check_named(data: str, names: Sequence[str], theirs: Sequence[str]) -> None:
    """Refuse to keep a head whose classes have names for data whose classes have numbers alone.

    Args:
        data: what the data are called.
        names: the data's numbers, as text.
        theirs: names of the head's classes.

    Raises:
        InputError: saying how to name them.
    """
    if names and theirs and list(names) != list(theirs):
        raise InputError(
            f"{data} names no classes, and the weights do ({listing(theirs)}), so that its labels may be others; give "
            "it class_names in the order of its labels, or begin a new head with fit and --model.weights_head reset"
        )


def _differences(ours: Sequence[str], theirs: Sequence[str], owner: str) -> str:
    """Say which classes only the data have, and which only their owner; empty where both have the same names."""
    sides = ("the data alone have", ours, theirs), (f"the {owner} alone {_has(owner)}", theirs, ours)
    found = [(side, [name for name in dict.fromkeys(some) if name not in {*others}]) for side, some, others in sides]
    return "; ".join(f"{side} {listing(map(repr, names), longest=60)}" for side, names in found if names)


def _has(owner: str) -> str:
    return "have" if owner == "weights" else "has"


def _after(said: str) -> str:
    return said and f"; {said}"


def _stem(name: str) -> str:
    """Return a name without what two spellings of one class differ in."""
    return re.sub(r"(?<=[^s])s$", "", re.sub(r"ies$", "y", plain(name).replace(" ", "")))


def _in_csv(name: str) -> str:
    """Return a name as a cell of a .csv."""
    return '"' + name.replace('"', '""') + '"' if re.search(r'[",\n]', name) else name


class _Synonyms:
    """The synonyms of the head's classes, looked up by synonym."""

    def __init__(self, theirs: Sequence[str]) -> None:
        self.of = list(map(_synonyms, theirs))
        self.classes: dict[str, list[int]] = defaultdict(list)
        for number, synonyms in enumerate(self.of):
            for synonym in synonyms:
                self.classes[synonym].append(number)

    def may_be(self, name: str, number: int) -> bool:
        """Tell whether a name shares a synonym with a class, and with no other class more of them."""
        shared = Counter(other for synonym in _synonyms(name) for other in self.classes.get(synonym, ()))
        return 0 < shared[number] == max(shared.values(), default=0)


def _check_ids(names: Sequence[str]) -> None:
    """Refuse classes of one name whose ids, which alone tell them apart, are not in ImageNet's order.

    Raises:
        InputError: naming both classes.
    """
    last: dict[frozenset[str], tuple[int, str]] = {}
    for number, name in enumerate(names):
        if not (found := WNID.search(name)):
            continue
        before, first = last.setdefault(frozenset(_synonyms(name)), (number, found[0]))
        if first > found[0]:
            raise InputError(
                f"classes {before} and {number} are {names[before]!r:.60} and {name!r:.60} in the data, which the "
                "weights call alike, and ImageNet has them the other way round: give the data ImageNet's order"
            )


def _are_ids(names: Sequence[str]) -> bool:
    return all(map(WNID.fullmatch, names))


def _synonyms(name: str) -> set[str]:
    """Return what a name is called, without what tells two of one name apart, as in crane (n02012849)."""
    parts = (re.sub(r"\(n\d{8}\)", "", part) for part in name.split(","))
    return {plain(part) for part in parts} - {""}
