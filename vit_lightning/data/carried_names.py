"""Names of classes that sets carry, as those of torchvision and Hugging Face do, held against each other.

A label is a number, and each set may number its classes by itself: a split without ants calls bees 0.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch.utils.data

from vit_lightning.data.image_set import label_of
from vit_lightning.data.subsets import Subset

NO_SETS = (str, bytes, list, tuple, dict, np.ndarray, torch.Tensor, range, type)
"""What has items by number and is no set that names its classes."""
LOOKED_AT = 4
"""Records by which a set is compared with the one that it wraps."""
Names = Mapping[int, frozenset[str]]
"""What each class is called; one may have several names."""


class NamedSet(NamedTuple):
    """A set that names its classes."""

    called: str
    names: Names


def named_sets(images: Any, split: str, around: tuple[Any, ...] = ()) -> Iterator[NamedSet]:
    """Yield a set, or those that it is made of, as far as they name their classes.

    Args:
        images: the set.
        split: what it is for, in messages.
        around: the sets that it is a part of.
    """
    names = _names_of(images)
    if names:
        yield NamedSet(f"the {split} set ({_described(images)})", names)
        return
    around = (*around, images)
    for part in _parts(images, around):
        yield from named_sets(part, split, around)


def _parts(images: Any, around: tuple[Any, ...]) -> Sequence[Any]:
    """Return the sets that a set without names of its own is made of, whose labels it yields as they are."""
    if isinstance(images, torch.utils.data.Subset):
        return [images.dataset]
    if isinstance(images, Subset):
        return [images.source]
    if isinstance(images, torch.utils.data.ConcatDataset):
        return images.datasets
    inner = [part for part in getattr(images, "__dict__", {}).values() if _may_be_wrapped(part, images)]
    inner = [part for part in inner if not any(part is one for one in around)]
    return [part for part in inner if next(named_sets(part, "", around), None) and _hands_on(images, part)]


def _may_be_wrapped(part: Any, images: Any) -> bool:
    """Tell whether an attribute of a set may be the set that it takes its records from."""
    if isinstance(part, NO_SETS) or not (hasattr(part, "__len__") and hasattr(part, "__getitem__")):
        return False
    try:
        return len(part) == len(images)
    except (TypeError, NotImplementedError):  # what has no length of its own, in spite of the method
        return False


def _hands_on(images: Any, part: Any) -> bool:
    """Tell by some records whether a set of another library's or the user's yields the labels of the one inside it."""
    some = np.unique(np.linspace(0, len(part) - 1, LOOKED_AT).astype(int)).tolist()
    try:
        return all(np.array_equal(label_of(images, index), label_of(part, index)) for index in some)
    except Exception:  # whatever a foreign set raises, its loader will raise too and say where
        return False


def contradiction(owner: str, stated: Sequence[str], sets: Iterable[NamedSet]) -> str | None:
    """Return a sentence about the first class whose number and name do not belong together everywhere; None: all do.

    Args:
        owner: whose sets these are.
        stated: the owner's own names of the classes; empty: it has none. They may be of another kind than the sets',
            as words are to ids.
        sets: the sets, those that others are held against first.
    """
    numbers: dict[str, tuple[int, str]] = {}
    names: dict[int, tuple[frozenset[str], str]] = {}
    for called, found in sets:
        if said := _against_stated(owner, stated, called, found):
            return said
        twice = _ambiguous(found)
        for number, some in found.items():
            for name in some - twice:
                first, there = numbers.setdefault(name, (number, called))
                if first != number:
                    return (
                        f"class {name!r:.60} has the label {number} in {called} of {owner} and {first} in {there}: "
                        "each numbers its own classes; give all sets one class_to_idx, as by the argument "
                        "target_transform=lambda label: train.class_to_idx[val.classes[label]]"
                    )
            others, there = names.setdefault(number, (some, called))
            if not _may_be_one(number, some, others):
                return (
                    f"label {number} is {_shown(some)} in {called} of {owner} and {_shown(others)} in {there}: each "
                    "numbers its own classes; give all sets the same classes, in the order of the labels"
                )
    return None


class NamesClasses(Protocol):
    """What a datamodule says about its classes."""

    @property
    def class_names(self) -> Sequence[str]: ...

    @property
    def stated_names(self) -> list[str]: ...

    @property
    def train_set(self) -> Any: ...

    @property
    def val_set(self) -> Any: ...

    @property
    def test_set(self) -> Any: ...


def carried_names(sets: Iterable[Any], classes: int) -> list[str]:
    """Return a name per class from the first set that names each of them; none if no set does.

    Args:
        sets: the sets; None: there is none.
        classes: number of classes.
    """
    for images in sets:
        for one in named_sets(images, ""):
            if sorted(one.names) == list(range(classes)):
                return [", ".join(sorted(one.names[number])) for number in range(classes)]
    return []


def names_for_head(data: NamesClasses) -> tuple[list[str], str]:
    """Return the classes to hold against those of a head, and what to call data that name none.

    They are those that a datamodule states, else those that one of its sets carries, else its numbers as text.
    """
    names = list(data.class_names)
    if data.stated_names or not names:
        return names, ""
    carried = carried_names((data.train_set, data.val_set, data.test_set), len(names))
    return carried or names, "" if carried else type(data).__name__


def _against_stated(owner: str, stated: Sequence[str], called: str, found: Names) -> str | None:
    """Say where a set has one of the stated names under another number."""
    place = {plain(name): number for number, name in enumerate(stated)}
    for number, some in found.items():
        if number >= len(stated) or plain(stated[number]) in map(plain, some):
            continue
        for name in some:
            other = place.get(plain(name), number)
            if other != number and plain(stated[other]) not in map(plain, found.get(other, ())):
                return (
                    f"label {number} is {stated[number]!r:.60} in class_names of {owner} and {name!r:.60} in {called}; "
                    "give class_names in the order of the labels"
                )
    return None


def plain(name: str) -> str:
    """Return a name without what spellings differ in: case, and the signs between words."""
    return " ".join(re.split(r"[\s_-]+", name.strip().casefold()))


def _may_be_one(number: int, some: frozenset[str], others: frozenset[str]) -> bool:
    """Tell whether two sets may mean the same class; a number as its own name says nothing beside a word."""
    one, other = ({plain(name) for name in names} for names in (some, others))
    says_nothing = {str(number)}
    if says_nothing in (one, other):
        return True
    return bool(one & other)


def _ambiguous(names: Names) -> set[str]:
    """Return the names that stand for several classes, as crane does in ImageNet."""
    seen: set[str] = set()
    twice: set[str] = set()
    for some in names.values():
        twice |= some & seen
        seen |= some
    return twice


def _names_of(images: Any) -> Names | None:
    """Return the names that a set carries: class_to_idx, classes, class_names, or features of Hugging Face's kind."""
    numbers = getattr(images, "class_to_idx", None)
    pairs: Iterable[tuple[str, Any]] = ()
    if isinstance(numbers, Mapping) and all(_is_whole(number) for number in numbers.values()):
        pairs = ((name, int(number)) for name, number in numbers.items() if isinstance(name, str))
    elif (classes := _class_list(getattr(images, "classes", getattr(images, "class_names", None)))) is not None:
        pairs = ((name, number) for number, some in enumerate(classes) for name in some)
    elif (features := _features(images)) is not None:
        pairs = ((name, number) for number, name in enumerate(features))
    return _as_yielded(images, pairs)


def _as_yielded(images: Any, pairs: Iterable[tuple[str, int]]) -> Names | None:
    """Return names by the labels that a set yields, after its own target_transform; None if that makes no classes."""
    transform = getattr(images, "target_transform", None)
    found: dict[int, set[str]] = {}
    for name, number in pairs:
        label = number if transform is None else _transformed(transform, number)
        if label is None:
            return None
        found.setdefault(label, set()).add(name)
    return {number: frozenset(names) for number, names in found.items()} or None


def _transformed(transform: Any, number: int) -> int | None:
    """Return the label that a transform makes of a number, None if it is neither a number nor a one-hot vector."""
    try:
        label = np.asarray(transform(number))
    except Exception:  # it may expect what the set yields beside, and is the set's own matter
        return None
    if label.ndim == 0 and _is_whole(label[()]):
        return int(label)
    if label.ndim == 1 and label.dtype.kind in "biuf" and np.count_nonzero(label) == 1:
        return int(label.argmax())
    return None


def _class_list(classes: Any) -> list[Sequence[str]] | None:
    """Return the names of each class in a list of names, or of tuples of synonyms as torchvision's ImageNet has."""
    if not isinstance(classes, list | tuple | np.ndarray) or not len(classes):
        return None
    if not isinstance(classes[0], str | tuple | list):  # a class per record, as like as not
        return None
    several = [(name,) if isinstance(name, str) else name for name in classes]
    if not all(isinstance(some, tuple | list) and some and all(isinstance(n, str) for n in some) for some in several):
        return None
    return several if len({tuple(some) for some in several}) == len(several) else None


def _features(images: Any) -> list[str] | None:
    """Return the names in the features of a set of Hugging Face's datasets."""
    features = getattr(images, "features", None)
    label = features.get("label") if isinstance(features, Mapping) else None
    names = getattr(getattr(label, "feature", label), "names", None)
    return list(names) if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names) else None


def _is_whole(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _described(images: Any) -> str:
    root = getattr(images, "root", None)
    return f"{type(images).__name__} {root}" if root else type(images).__name__


def _shown(names: frozenset[str]) -> str:
    return f"{min(names)!r:.60}"
