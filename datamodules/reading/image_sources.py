"""Images that are versions of one source by their names, which a split that is drawn keeps together.

Roboflow calls the versions of `12.jpg` that it exports `12_jpg.rf.HASH.jpg`; others are called `12_aug1.jpg`, or differ
in their endings alone.
"""

import os
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from datamodules.reading.shared_sequences import Strings

ROBOFLOW = re.compile(r"(.+)[.]rf[.][0-9A-Za-z]+", re.DOTALL)
AUGMENTED = re.compile(r"(.*[^/])[-_. ]aug(?:mented)?[-_ ]?[0-9]*", re.DOTALL | re.IGNORECASE)
MARKS = re.compile(rb"[.]rf[.]|[-_. ]aug", re.IGNORECASE)
SAID = "split    images that are versions of one by their names, as 12.rf.HASH.jpg and 12_aug1.jpg, stay together"
MOST = 12
"""Versions that one source has; more images are called alike by chance, as the frames of a film."""
SEVERAL = 3
"""Sources of a folder from which on `12_aug1` is a version of one that is gone; `cat_aug_1` may just be counted."""
LOOKED_AT = 200_000
"""Names of which none has a mark that are taken apart all the same."""


def sources(files: Sequence[str]) -> list[str]:
    """Return the first file of each file's source; the file itself if it stands alone."""
    plain = [posixpath.normpath(file) for file in files]
    stems = [os.path.splitext(file)[0] for file in plain]
    augmented = {match[1] for stem in stems if (match := AUGMENTED.fullmatch(stem))}
    several = Counter(map(posixpath.dirname, augmented))
    known = augmented.intersection(stems) | {one for one in augmented if several[posixpath.dirname(one)] >= SEVERAL}
    members: dict[str, list[int]] = {}
    for place, stem in enumerate(stems):
        members.setdefault(_source(stem, known), []).append(place)
    found = list(plain)
    for places in members.values():
        if len(places) <= MOST:
            for place in places:
                found[place] = plain[places[0]]
    return found


def numbers(files: Sequence[str], known: np.ndarray | None) -> np.ndarray | None:
    """Return a number per file, equal for those of one source.

    Args:
        files: their names.
        known: a number per file, equal for those that stay together anyway; None: each stands for itself.

    Returns:
        What was known, if no source has several files.
    """
    if len(files) > LOOKED_AT and isinstance(files, Strings) and not MARKS.search(files.text):
        return known
    first: dict[str, int] = {}
    found = np.array([first.setdefault(source, place) for place, source in enumerate(sources(files))], np.int64)
    if len(first) == len(files):
        return known
    return found if known is None else known[found]


def _source(stem: str, augmented: Collection[str]) -> str:
    """Return what the versions of one source have in common."""
    if match := ROBOFLOW.fullmatch(stem):
        return match[1]
    match = AUGMENTED.fullmatch(stem)
    return match[1] if match and match[1] in augmented else stem
