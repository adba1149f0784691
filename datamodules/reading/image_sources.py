"""Images that are versions of one source by their names, which a split that is drawn keeps together.

Roboflow calls the versions of `12.jpg` that it exports `12_jpg.rf.HASH.jpg`; others are called `12_aug1.jpg` or
`aug_1_12.jpg`, or differ in their endings alone.
"""

import os
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import numpy as np

from datamodules.reading.shared_sequences import Strings

ROBOFLOW = re.compile(r"(.+)[.]rf[.][0-9A-Za-z]+", re.DOTALL)
AUGMENTED = re.compile(r"(.*[^/])[-_. ]aug(?:mented)?[-_ ]?[0-9]*", re.DOTALL | re.IGNORECASE)
AUGMENTED_FIRST = re.compile(r"((?:.*/)?)aug(?:mented)?[0-9]*[-_ ]([^/]+)", re.DOTALL | re.IGNORECASE)
COUNTED = re.compile(r"[0-9]+[-_ ](.+)", re.DOTALL)
"""The rest of a name after aug_, in which a number may count versions or be that of the source."""
MARKS = re.compile(rb"[.]rf[.]|[-_. /]aug", re.IGNORECASE)
SIDES = re.compile(r"([^/]*[^/_. -])[-_. ](left|right|od|os|l|r)((?:[-_. ][^/]*)?)", re.DOTALL | re.IGNORECASE)
"""Names of images that show one of two sides of something, as 10_left shows one eye of patient 10."""
SAID = "split    images that are versions of one by their names, as 12.rf.HASH.jpg and 12_aug1.jpg, stay together"
MOST = 12
"""Versions that one source has; more images are called alike by chance, as the frames of a film."""
SEVERAL = 3
"""Sources of a folder from which on `12_aug1` is a version of one that is gone; `cat_aug_1` may just be counted."""
LOOKED_AT = 200_000
"""Names of which none has a mark that are taken apart all the same."""
MANY = 0.5
"""Share of images that are called as sides, from which on others are not called so by chance."""
SPLIT = "and a split that is drawn may part them; to keep them together"


def sources(files: Sequence[str]) -> list[str]:
    """Return the first file of each file's source; the file itself if it stands alone."""
    plain = [posixpath.normpath(file) for file in files]
    stems = [os.path.splitext(file)[0] for file in plain]
    known = _known(stems)
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


def said_of(files: Sequence[str]) -> list[str]:
    """Say which images may be of one source in a way that their names do not tell.

    Args:
        files: the names of images that are divided.
    """
    stems = [os.path.splitext(file)[0] for file in islice(files, LOOKED_AT)]
    return [said for said in (_said_of_sides(stems), _said_of_augmented(stems)) if said]


def _said_of_sides(stems: Sequence[str]) -> str | None:
    """Say that images show two sides of one patient or thing, as 10_left and 10_right."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for stem in stems:
        if match := SIDES.fullmatch(posixpath.basename(stem)):
            found.setdefault((match[1], match[3]), {}).setdefault(match[2].lower(), stem)
    pairs = [list(sides.values())[:2] for sides in found.values() if len(sides) > 1]
    if len(pairs) < SEVERAL or 2 * len(pairs) < MANY * len(stems):
        return None
    return (
        f"images such as {' and '.join(pairs[0])} are called as two sides of one are ({len(pairs)} such), {SPLIT}, "
        "give --data Manifest with a table and its column of patients or things as --data.group_column, or a split of "
        "your own as --data.split_file"
    )


def _said_of_augmented(stems: Sequence[str]) -> str | None:
    """Say that images are called as augmented ones of which the names do not tell the source, as aug_0_1234."""
    known = _known(stems)
    found = [stem for stem in stems if _is_of_some(stem) and _source(stem, known) == stem]
    if len(found) < SEVERAL:
        return None
    return (
        f"images such as {found[0]} may be augmented copies of which the names do not tell the source ({len(found)} "
        f"such), {SPLIT}, divide the images before they are augmented, or give the split as --data.split_file"
    )


def _is_of_some(stem: str) -> bool:
    """Tell whether a name has a number and more after that of an augmented image, of which either may be the source."""
    match = AUGMENTED_FIRST.fullmatch(stem)
    return match is not None and COUNTED.fullmatch(match[2]) is not None


def _known(stems: Sequence[str]) -> Collection[str]:
    """Return the sources that names of augmented images have, as far as these are there or there are several."""
    after = {match[1] for stem in stems if (match := AUGMENTED.fullmatch(stem))}
    before = Counter(one for stem in stems for one in _sources_at_end(stem))
    often = [one for one, count in before.items() if count > 1]
    several, several_often = Counter(map(posixpath.dirname, after)), Counter(map(posixpath.dirname, often))
    known = {one for one in after if several[posixpath.dirname(one)] >= SEVERAL}
    known |= {one for one in often if several_often[posixpath.dirname(one)] >= SEVERAL}
    return known | {*after, *before}.intersection(stems)


def _source(stem: str, known: Collection[str]) -> str:
    """Return what the versions of one source have in common."""
    if match := ROBOFLOW.fullmatch(stem):
        return match[1]
    match = AUGMENTED.fullmatch(stem)
    found = (*([match[1]] if match else ()), *_sources_at_end(stem))
    return next((one for one in found if one in known), stem)


def _sources_at_end(stem: str) -> Iterator[str]:
    """Yield what may be the source in a name such as aug_0_12: 0_12 or 12."""
    if match := AUGMENTED_FIRST.fullmatch(stem):
        yield match[1] + match[2]
        if counted := COUNTED.fullmatch(match[2]):
            yield match[1] + counted[1]
