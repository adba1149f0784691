"""Facts about ImageNet: its label sets, the names and the hierarchy of its synsets, its validation labels.

They come from WordNet and from published lists: see assets/README.md.
"""

import gzip
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data.carried_names import plain

LABEL_SETS = ("1k", "google", "fall11", "miil-p", "miil-p-winter21", "a", "r")
"""Published label sets. google: 21,843 classes, those of the released weights; fall11: the 21,841 of them that have
images; miil-p and miil-p-winter21: the 11,221 and 10,450 with enough images in either release; a and r: the 200 of 1k
that ImageNet-A and ImageNet-R have."""
WNID = re.compile(r"n\d{8}")
ASSETS = files("datamodules.assets")


class Validation(NamedTuple):
    """Labels of ImageNet-1k's 50,000 validation images; number 0 is ILSVRC2012_val_00000001.JPEG."""

    labels: np.ndarray
    """The official class of each."""
    real: Ragged
    """Every class that shows in it, none for 3,163 of them (Beyer et al. 2020, "Are we done with ImageNet?")."""


def wnids(label_set: str) -> list[str]:
    """Return the WordNet ids of a published label set, in the order of its classes."""
    bit = 1 << LABEL_SETS.index(label_set)
    return [wnid for wnid, (sets, _) in _synsets().items() if sets & bit]


def words(wnid: str) -> str:
    """Return the words of a synset, or its WordNet id if it has none here."""
    return _synsets().get(wnid, (0, wnid))[1]


def names(ids: Sequence[str]) -> list[str]:
    """Return a name for each synset: its words, with the WordNet id where several have the same."""
    plain = [words(wnid) for wnid in ids]
    count = Counter(plain)
    return [name if count[name] == 1 else f"{name} ({wnid})" for name, wnid in zip(plain, ids, strict=True)]


def misplaced(called: Sequence[str], ids: Sequence[str]) -> tuple[int, int] | None:
    """Return the first place of a name or id that is another class's, and that class, which has another name too.

    Names that nobody knows, or that stand for several classes, are no fault.

    Args:
        called: what some data call each class.
        ids: WordNet id of each class.
    """
    known: dict[str, set[int]] = {}
    for number, wnid in enumerate(ids):
        for name in (wnid, *words(wnid).split(",")):
            known.setdefault(plain(name), set()).add(number)

    def meant(name: str) -> set[int]:
        said = WNID.search(name)
        parts = [said[0]] if said and said[0] in known else name.split(",")
        return set().union(*(known.get(plain(part), ()) for part in parts))

    for number, name in enumerate(called):
        found = meant(name)
        other = min(found, default=number)
        if number not in found and found and not (other < len(called) and other in meant(called[other])):
            return number, other
    return None


def fingerprint(ids: Sequence[str]) -> str:
    """Return a hash that tells label sets apart."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:12]


def wnid_in(path: str) -> str | None:
    """Return the WordNet id that a folder or tar in a path is named after."""
    found = (part.removesuffix(".tar") for part in path.split("/"))
    return next((part for part in found if WNID.fullmatch(part)), None)


def ancestry(ids: Sequence[str]) -> Ragged:
    """Return the classes that an image of each class shows too: itself and all that WordNet places above it."""
    with np.load(str(ASSETS / "wordnet_is_a.npz")) as edges:
        children, parents = edges["child"].tolist(), edges["parent"].tolist()
    above: dict[int, list[int]] = {}
    for child, parent in zip(children, parents, strict=True):
        above.setdefault(child, []).append(parent)

    @cache
    def reach(synset: int) -> frozenset[int]:
        return frozenset({synset}).union(*map(reach, above.get(synset, ())))

    numbers = {int(wnid[1:]): label for label, wnid in enumerate(ids)}
    return Ragged.of([sorted(numbers[synset] for synset in reach(own) if synset in numbers) for own in numbers])


@cache
def validation() -> Validation:
    """Return the validation labels, which follow from a file's number alone."""
    with np.load(str(ASSETS / "imagenet1k_val.npz")) as facts:
        ends = np.concatenate([[0], np.cumsum(facts["real_counts"], dtype=np.int64)])
        return Validation(facts["labels"].astype(np.int32), Ragged(facts["real"].astype(np.int32), ends))


@cache
def _synsets() -> dict[str, tuple[int, str]]:
    """Words and membership in label sets (one bit each) of every synset, sorted by WordNet id."""
    table = {}
    for line in gzip.decompress((ASSETS / "synsets.tsv.gz").read_bytes()).decode().splitlines():
        wnid, sets, text = line.split("\t")
        table[wnid] = int(sets), text
    return table
