"""Findings about images that are there twice: with equal pixels, or looking the same."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import numpy as np

from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.likeness import twins
from vit_lightning.commands.doctor.survey import Survey


def duplicates(found: Sequence[Survey], names: Sequence[str] = ()) -> list[Finding]:
    """Images with equal pixels in one split, and in two."""
    findings = []
    for one in found:
        if pairs := _equal(one, one, names):
            text = f"{_images(pairs, one)} equal to an earlier one"
            findings.append(Finding("note", "duplicates", text, "remove them", pairs))
    for one, other in combinations(found, 2):
        if pairs := _equal(one, other, names):
            text = f"{_images(pairs, other)} equal to a {one.split} image"
            fix = f"remove them from either split: {other.split} figures that count them are too good"
            findings.append(Finding("warning", "leak", text, fix, pairs))
    return findings


def contradictions(found: Sequence[Survey], names: Sequence[str] = ()) -> list[Finding]:
    """Images with equal pixels and different labels, wherever they are."""
    digests, classes = (
        np.concatenate([getattr(one, name)[one.readable] for one in found]) for name in ("digests", "classes")
    )
    order = np.argsort(digests, kind="stable")
    digests, classes = digests[order], classes[order]
    pairs = np.flatnonzero((digests[1:] == digests[:-1]) & (classes[1:] != classes[:-1]))
    if not len(pairs):
        return []
    splits = np.repeat(np.arange(len(found)), [one.readable.sum() for one in found])[order]
    records = np.concatenate([np.flatnonzero(one.readable) for one in found])[order]

    def name(place: int) -> str:
        one = found[splits[place]]
        return f"{one.split} {_named(one, int(records[place]), names)}"

    items = tuple(f"{name(pair)} = {name(pair + 1)}" for pair in pairs)
    text = f"equal images with different labels: {len(items):,} pair{'s' * (len(items) > 1)}"
    return [Finding("warning", "contradictions", text, "decide which label is right", items)]


def likenesses(found: Sequence[Survey], names: Sequence[str] = ()) -> list[Finding]:
    """Images that look the same, in one split and in two, and those among them whose labels differ.

    Each is named with the first image that looks like it. Smaller ones than 32 pixels a side are not compared.
    """
    prints = [one.prints for one in found if one.prints is not None]
    if len(prints) < len(found):
        return []
    sides, digests, classes = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("sides", "digests", "classes")
    )
    alike = twins(prints, sides, digests, classes)
    firsts = np.cumsum([0, *map(len, found)])

    def named(record: int, in_split: bool = False) -> str:
        place = int(np.searchsorted(firsts, record, side="right")) - 1
        one = found[place]
        return f"{one.split} " * in_split + _named(one, int(record - firsts[place]), names)

    findings = []
    for place, other in enumerate(found):
        here = slice(firsts[place], firsts[place + 1])
        for one, first in zip(found[: place + 1], alike.by_set[: place + 1, here], strict=True):
            records = np.flatnonzero(first >= 0)
            if len(records):
                findings.append(_alike(one, other, _pairs(records + here.start, first[records], named)))
    contrary = np.flatnonzero(alike.contrary >= 0)
    if len(contrary):
        items = _pairs(contrary, alike.contrary[contrary], lambda record: named(record, in_split=True))
        text = f"{len(items):,} image{'s' * (len(items) != 1)} nearly equal to one with another label"
        findings.append(Finding("warning", "near contradictions", text, "decide which label is right", items))
    return findings


def _alike(one: Survey, other: Survey, pairs: tuple[str, ...]) -> Finding:
    if one is other:
        text = f"{_images(pairs, one)} nearly equal to an earlier one"
        return Finding("note", "near duplicates", text, "look at them, and remove those that show nothing new", pairs)
    text = f"{_images(pairs, other)} nearly equal to a {one.split} image"
    fix = f"look at them, and remove them from either split: {other.split} figures that count them are too good"
    return Finding("warning", "near leak", text, fix, pairs)


def _pairs(records: Iterable[int], firsts: Iterable[int], named: Callable[[int], str]) -> tuple[str, ...]:
    return tuple(f"{named(record)} ~ {named(first)}" for record, first in zip(records, firsts, strict=True))


def _equal(one: Survey, other: Survey, names: Sequence[str]) -> tuple[str, ...]:
    """Pairs `b = a` of an image b of the second survey and the first equal one of the first, unless that is itself."""
    there, here = np.flatnonzero(one.readable), np.flatnonzero(other.readable)
    if not len(there):
        return ()
    digests, first = np.unique(one.digests[there], return_index=True)
    place = np.searchsorted(digests, other.digests[here]).clip(max=len(digests) - 1)
    twin = there[first[place]]
    same = one.digests[twin] == other.digests[here]
    if one is other:
        same &= twin != here
    pairs = zip(here[same], twin[same], strict=True)
    return tuple(f"{_named(other, int(b), names)} = {_named(one, int(a), names)}" for b, a in pairs)


def _named(found: Survey, record: int, names: Sequence[str]) -> str:
    """A record's name, and its classes where they are known."""
    classes = found.class_sets.get(int(found.classes[record]))
    if not names or classes is None:
        return str(found.keys[record])
    label = ", ".join(names[each] if each < len(names) else str(each) for each in classes) or "no label"
    return f"{found.keys[record]} ({label})"


def _images(some: Sequence[str], found: Survey) -> str:
    return f"{len(some):,} {found.split} image{'s' * (len(some) != 1)}"
