"""Folders of classes that hold the images of the others again: `all`, `good - Copy`, `annotated`."""

import filecmp
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from datamodules.reading.folder_names import FORM_WORDS, words_of
from datamodules.reading.splits import COPY
from vit_lightning.errors import InputError

AGAIN = FORM_WORDS | frozenset(
    {"all", "everything", "combined", "merged", "total", "backup", "bak", "copy", "annotated", "marked", "unsorted"}
    | {"visualization", "visualizations", "visualisation", "visualisations", "vis", "viz", "output", "outputs"}
    | {"result", "results", "raw", "processed", "preprocessed", "crops", "gray", "grey", "grayscale"}
)
"""Words in the names of folders that may hold images again."""
LATER = re.compile("(old|new)$", re.IGNORECASE)
"""Ends of names that say so where the files are the same alone: a class phone may stand beside phone_old."""
NEARLY = 0.9
"""Share of a folder's images of which each is called as another's is, if the folder holds these again."""
LOOKED_AT = 4
"""Pairs of files of one name whose contents are compared."""
SPARE = 2
"""Numbers for each image, up to which images are counted from 0 or 1, and not called by numbers of their own."""


def check(folder: Path, classes: Mapping[str, Sequence[str]], known: Collection[str] = ()) -> list[str]:
    """Refuse a folder of a class that holds images of other classes again, as far as names say so.

    These names differ among the other classes, and the folder is called as a copy is or holds those of several classes;
    or it is called as a copy of one class is, and its files are the same as those. Where names are plain counts, which
    several folders have by chance, files that differ are said alone.

    Args:
        folder: what holds the classes.
        classes: paths under the folder of each one's images.
        known: names of classes that the user gave.

    Returns:
        What to say of folders that may be such.

    Raises:
        InputError: naming the folder, and an image that another class has too.
    """
    if len(classes) < 2 or set(classes) <= set(known):
        return []
    originals = {name: original for name, original in _originals(classes).items() if name not in known}
    for name, original in originals.items():
        pairs = list(islice(_pairs(classes[original], classes[name]), LOOKED_AT))
        if pairs and all(_are_same(folder / one, folder / other) for one, other in pairs):
            raise InputError(_again(folder, name, classes, original))
    stems = {name: np.unique([hash(_stem(file)) for file in files]) for name, files in classes.items() if files}
    called = [name for name in stems if {*words_of(name)} <= AGAIN or (name in originals and not LATER.search(name))]
    plain = [found for name, found in stems.items() if name not in called]
    if called and _are_apart(plain):
        held = np.unique(np.concatenate(plain))
        found = [name for name in called if np.isin(stems[name], held).mean() >= NEARLY]
    else:
        found = _of_several(stems) if len(stems) > 2 else []
    found = [name for name in found if name not in known]
    if again := [name for name in found if name in called or not _is_chance(folder, name, classes)]:
        raise InputError(_again(folder, again[0], classes))
    doubtful = dict.fromkeys(found + _older(originals, stems))
    return [_again(folder, name, classes, originals.get(name)) for name in doubtful]


def _older(originals: Mapping[str, str], stems: Mapping[str, np.ndarray]) -> list[str]:
    """Return the folders whose name ends as that of a copy, and whose images are called as those of the original."""
    return [
        name
        for name, original in originals.items()
        if COPY.search(name)
        and {name, original} <= stems.keys()
        and np.isin(stems[name], stems[original]).mean() >= NEARLY
    ]


def _is_chance(folder: Path, name: str, classes: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether the images of a folder are counted in one form, and those of one name differ."""
    forms = {re.sub("[0-9]+", "#", _stem(file)) for file in classes[name]}
    numbers = [int("".join(re.findall("[0-9]", _stem(file))) or 0) for file in classes[name]]
    if len(forms) > 1 or max(numbers) > SPARE * len(numbers):
        return False
    others = [file for other, files in classes.items() if other != name for file in files]
    pairs = islice(_pairs(others, classes[name]), LOOKED_AT)
    return not all(_are_same(folder / one, folder / other) for one, other in pairs)


def _again(folder: Path, name: str, classes: Mapping[str, Sequence[str]], original: str | None = None) -> str:
    """Say which folder may hold images of others again, or of one, and name an image that another has too."""
    others = [original] if original else [other for other in classes if other != name]
    one, other = next(pair for each in others for pair in _pairs(classes[each], classes[name]))
    return (
        f"{folder} holds {name}, whose images are called as those of other classes are, such as {other} and {one}; "
        f"move it out of {folder} if it holds them again; if it is a class, list all classes in --data.class_map"
    )


def _stem(file: str) -> str:
    return os.path.splitext(os.path.basename(file))[0]


def _originals(classes: Collection[str]) -> dict[str, str]:
    """Return the class whose name each is but for words for copies, as good is that of "good - Copy"."""
    known = {" ".join(words_of(name)): name for name in classes} | {name: name for name in classes}
    found = {}
    for name in classes:
        words = words_of(name)
        rest = [word for word in words if word not in AGAIN]
        original = known.get(COPY.sub("", name), name)
        if original == name and rest != words:
            original = known.get(" ".join(rest), name)
        if original != name:
            found[name] = original
    return found


def _pairs(some: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield files of one name."""
    known = {_stem(file): file for file in some}
    return ((known[stem], file) for file in others if (stem := _stem(file)) in known)


def _are_same(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:  # one may not be read
        return False


def _are_apart(some: Sequence[np.ndarray]) -> bool:
    """Tell whether several sets have hardly a name in common."""
    return len(some) > 1 and len(np.unique(np.concatenate(some))) >= NEARLY * sum(map(len, some))


def _of_several(stems: Mapping[str, np.ndarray]) -> list[str]:
    """Return the folders of which nearly all names are those of several others, and nearly all of these."""
    names = list(stems)
    whose = np.repeat(np.arange(len(names)), [len(stems[name]) for name in names])
    every = np.concatenate(list(stems.values()))
    order = np.argsort(every, kind="stable")
    _, first, counts = np.unique(every[order], return_index=True, return_counts=True)
    twice = first[counts == 2]
    pairs, shared = np.unique(np.stack([whose[order[twice]], whose[order[twice + 1]]]), axis=1, return_counts=True)
    covered: dict[int, list[int]] = {}
    for one, other, count in zip(*pairs.tolist(), shared.tolist(), strict=True):
        for holder, held in ((one, other), (other, one)):
            if count >= NEARLY * len(stems[names[held]]):
                covered.setdefault(holder, []).append(count)
    return [
        names[holder]
        for holder, found in covered.items()
        if len(found) > 1 and sum(found) >= NEARLY * len(stems[names[holder]])
    ]
