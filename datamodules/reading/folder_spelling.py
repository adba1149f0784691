"""Names of classes that may be one name: written with and without a sign, in signs that look alike, or with zeros."""

import re
import unicodedata
from collections.abc import Collection, Set

from datamodules.reading.label_text import difference

SIGNS = re.compile(r"(?<=[^\W\d_])[-_. ]+(?=[^\W_])|(?<=\d)[-_. ]+(?=[^\W\d_])")
"""Signs between two words or a word and a number; between numbers they tell 1-2 from 12."""
LOOK_ALIKE = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u30fb", "-"),
        **dict.fromkeys("\u2018\u2019\u201b\u02bc\u2032`\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201f\u2033", '"'),
        # of the Cyrillic and the Greek alphabet
        **dict(zip("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u03bf", "aeopcyxijso", strict=True)),
        **dict(zip("\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420", "ABEKMHOP", strict=True)),
        **dict(zip("\u0421\u0422\u0423\u0425\u0406\u0408\u0405", "CTYXIJS", strict=True)),
        **dict(zip("\u0391\u0392\u0395\u0396\u0397\u0399\u039a", "ABEZHIK", strict=True)),
        **dict(zip("\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7", "MNOPTYX", strict=True)),
    }
)
"""Dashes, quotation marks and letters, and the plain ones that they are read as."""
PADDED = re.compile("0+[0-9]+")


def alike_but_for_signs(names: Collection[str]) -> tuple[str, str] | None:
    """Return the first two names that differ in signs alone, or in such that look alike, as TCGA-01 and TCGA01.

    Letters' sizes may differ besides. Names of one sign are letters of alphabets.
    """
    seen: dict[str, str] = {}
    for name in names:
        if len(name) > 1:
            other = seen.setdefault(_plain(name), name)
            if other.casefold() != name.casefold():
                return other, name
    return None


def _plain(name: str) -> str:
    plain = unicodedata.normalize("NFKC", name.translate(LOOK_ALIKE)).translate(LOOK_ALIKE)
    return SIGNS.sub("", plain).casefold()


def said_of_signs(names: Collection[str], fix: str) -> str | None:
    """Say which two classes may be one, and what to do if they are."""
    pair = alike_but_for_signs(names)
    if pair is None:
        return None
    signs = SIGNS.sub("", pair[0]).casefold() == SIGNS.sub("", pair[1]).casefold()
    what = f"the classes {pair[0]!r:.60} and {pair[1]!r:.60} differ in signs alone" if signs else difference(*pair)
    return f"{what}, and are read as two; if they are one, {fix}; if they are two, list all classes in --data.class_map"


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
