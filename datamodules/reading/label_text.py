"""Labels as text: what is a name, what is a number, and which of them are one label written in two ways."""

import ast
import io
import json
import math
import re
import tokenize
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from vit_lightning.errors import InputError

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
"""What looks like a number, in any script."""
WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0*)?")
"""Whole numbers in their usual form, which other tools also write as 3.0."""
CONSTRUCTED = re.compile(r"(array|frozenset|set|tuple|list)\(.*\)", re.DOTALL)
TUPLE = re.compile(r"\([^()]*[,;|][^()]*\)|\(\s*\d+(\s+\d+)+\s*\)")
"""What may be a tuple without quotation marks, which (none) is not."""
NUMBERS = re.compile(r"[(\[]\s*-?[0-9.]+(\s*,\s*-?[0-9.]+)*\s*,?\s*[)\]]")
"""Lists of numbers, as Adience calls ages."""
IF_A_NAME = "if it is the name of a class, list all names in --data.class_map"
MISSING = ("nan", "<na>", "na", "n/a", "#n/a", "null", "none", "nat")
"""How pandas, NumPy, R, spreadsheets and databases write what is missing, in small letters."""
BETWEEN_LABELS = (",", ";", "|", "\uff0c", "\uff1b", "\uff5c", "\u3001")
"""Signs that stand between labels in text, full-width ones too."""
BARS = (";", "|", "\uff1b", "\uff5c")
"""Those of them that hardly any name has."""
BETWEEN_NAMES = ("/", "+", "&", ":", "\uff0f", "\uff0b", "\uff06", "\uff1a")
"""Signs that stand in the name of one class as well."""
CONTROL = ("Cc", "Zl", "Zp")
SELECTORS = re.compile("[\ufe00-\ufe0f]")
"""Signs that choose a form of the one before."""
FEWEST_LETTERS = 10
"""Letters that an alphabet has in both sizes; fewer are answers or grades typed in either size."""
MOST_POINTS = 6
"""Code points that an error shows of a label."""


def whole_number(label: str) -> str:
    """Return a whole number that is written as a float without its point, and any other label as it is."""
    found = WHOLE.fullmatch(label)
    return label if found is None else "0" if found[1] == "-0" else found[1]


def is_whole(label: str) -> bool:
    """Tell whether a label is a whole number, which 01, +1 and 1e3 are not: they are names."""
    return WHOLE.fullmatch(label) is not None


@lru_cache(maxsize=65536)
def check_name(text: str) -> str:
    """Return the name of a class without the spaces around it.

    Raises:
        ValueError: it holds what no name does; the text begins with "which".
    """
    name = text.strip()
    if not name.isprintable() and any(unicodedata.category(sign) in CONTROL for sign in name):
        raise ValueError("which holds a line break or another control character; is there a lone quotation mark?")
    if name and not _visible(name):
        raise ValueError("which shows nothing but holds invisible signs; write a name")
    return name


def text_lines(text: str) -> list[str]:
    """Return the lines of a text, which end at line feeds alone, with or without a carriage return before them."""
    return text.replace("\r\n", "\n").split("\n")


def plain_text(value: Any) -> str:
    """Return a label of any type as text, empty where it stands for a missing one.

    Raises:
        ValueError: it is no label; the text is "the label X, which ...".
    """
    if value is None or value != value:
        return ""
    value = float(value) if isinstance(value, Decimal) else value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float) or value in (math.inf, -math.inf):
        raise ValueError(f"the label {value!r:.60}, expected a name or a number,")
    try:
        return check_name(str(value))
    except ValueError as error:
        raise ValueError(f"the label {value!r:.60}, {error},") from error


class LabelKinds:
    """The kinds of labels that were seen in one table: truth values, numbers and names do not mix."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def check(self, value: Any) -> None:
        """Refuse a label of another kind than those before; numbers as text are of any kind.

        Raises:
            ValueError: naming it and the other one.
        """
        if isinstance(value, str):
            if "names" in self.seen:
                return
            kind = "" if NUMBER.fullmatch(value.strip()) or not value.strip() else "names"
        elif isinstance(value, bool):
            kind = "truth values"
        else:
            kind = "numbers" if isinstance(value, int | float | Decimal) and value == value else ""
        if not kind or (kind in self.seen and len(self.seen) == 1):
            return
        self.seen.setdefault(kind, value)
        if len(self.seen) > 1:
            other = next(name for name in self.seen if name != kind)
            raise ValueError(
                f"the label {value!r:.60} beside {self.seen[other]!r:.60}, expected {kind} or {other} alone,"
            )


def nested(text: str) -> list[Any] | dict[Any, Any] | None:
    """Return the list or object that a label holds as JSON or as Python prints it, None if it is plain text.

    Raises:
        ValueError: it is a list or an object in another form, such as NumPy's; the text begins with "the label".
    """
    around = text[:1] + text[-1:]
    if around not in ("[]", "{}", "()") and not CONSTRUCTED.fullmatch(text):
        return None
    for parse in (json.loads, _literal):
        try:
            found = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
            continue
        if isinstance(found, list | dict):
            return found
        if isinstance(found, tuple | set):
            return sorted(found, key=repr) if isinstance(found, set) else list(found)
    if around == "()" and not TUPLE.fullmatch(text):
        return None
    raise ValueError(
        f'the label {text!r:.60}, a list or an object in a form that is not read; write ["cat", "dog"], '
        "or a name without the brackets,"
    )


def names_a_list(text: str) -> bool:
    """Tell whether a text is a list of numbers, which is the name of a class if a class map has it: (0, 2) of ages."""
    return NUMBERS.fullmatch(text) is not None


def _literal(text: str) -> Any:
    """Return what Python prints as a text; strings side by side, which NumPy prints, would be joined."""
    kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.string.strip()]
    if (tokenize.STRING, tokenize.STRING) in pairwise(kinds):
        raise ValueError
    return ast.literal_eval(text)


def refuse_vector(labels: Sequence[str]) -> None:
    """Refuse a list that says of each class whether it shows, in place of the classes that do.

    Raises:
        ValueError: naming it.
    """
    if len(set(labels)) < len(labels) and set(labels) <= {"0", "1"}:
        raise ValueError(
            f"the list {', '.join(labels):.60}, which has a 0 or 1 for each class, expected the classes that show; "
            "write their names or numbers, or a column for each class,"
        )


def has_vectors(
    places: np.ndarray, ends: np.ndarray, names: Sequence[str], zero_and_one: Sequence[str] = ("0", "1")
) -> np.ndarray:
    """Return which rows `refuse_vector` refuses, bool `(rows,)`.

    Args:
        places: the place in names of each label, row after row.
        ends: 0, and where each row ends.
        names: the different labels.
        zero_and_one: what 0 and 1 are called in names.
    """
    counts = []
    for name in zero_and_one:
        is_name = places == names.index(name) if name in names else np.zeros(len(places), bool)
        counts.append(np.diff(np.append(0, np.cumsum(is_name))[ends]))
    zeros, ones = counts
    return (zeros + ones == np.diff(ends)) & ((zeros > 1) | (ones > 1))


def check_told(source: str, names: Collection[str], ends: np.ndarray, num_classes: int) -> None:
    """Refuse training labels that are all [0, 1] or [1, 0]: both classes of each image, or a 0 or 1 for each class.

    Args:
        source: where they stand.
        names: the different labels.
        ends: 0, and where the labels of each row end.
        num_classes: number of classes; vectors are as long.

    Raises:
        InputError: naming the source.
    """
    if num_classes == 2 and set(names) == {"0", "1"} and (np.diff(ends) == 2).all():
        raise InputError(
            f"{source} has the list 0, 1 or 1, 0 for every image, which may name both classes or be a 0 or 1 for each "
            "class; write the classes' names, or a column for each class"
        )


def twins(labels: Iterable[str], numbers: bool = True) -> tuple[str, str] | None:
    """Return the first two different labels that are one number or one text in two spellings, as 1 and 01 are.

    Args:
        labels: those.
        numbers: whether numbers are compared as such; else 1 and 01 are two.
    """
    seen: dict[str | Decimal, str] = {}
    for label in labels:
        other = seen.setdefault(_same(label) if numbers else _visible(label), label)
        if other != label:
            return other, label
    return None


def spelled_twice(names: Collection[str]) -> tuple[str, str] | None:
    """Return the first two names of classes that may be one in two spellings; a and A of an alphabet are two letters.

    Args:
        names: all classes of a set.
    """
    single = {name for name in names if len(name) == 1}
    pairs = {name for name in single if name.swapcase() != name and name.swapcase() in single}
    letters = pairs if len(pairs) >= 2 * FEWEST_LETTERS else set()
    return twins(names) or alike(name for name in names if name not in letters)


def joined(names: Collection[str], separators: Iterable[str]) -> tuple[str, str] | None:
    """Return the first name that is made of others, and what stands between them, as "cat,dog" beside cat and Dog."""
    known = {name.casefold() for name in names}
    for separator in separators:
        for name in sorted(name for name in names if separator in name):
            parts = {part.strip().casefold() for part in name.split(separator)} - {""}
            if len(parts) > 1 and parts <= known:
                return name, separator
    return None


def partly_joined(names: Collection[str], is_never_divided: bool = False) -> tuple[str, str] | None:
    """Return the first name with a part that is another name, as "cat|dog" beside cat, and the sign between.

    A blank after the sign makes a name of it, as of "cat, tabby".

    Args:
        names: all classes of a set.
        is_never_divided: whether images may have several labels and none has; then a part that two names share, as of
            "cat|dog" and "cat|owl", is such a part too, and so is one beside a comma.
    """
    known = {name.casefold() for name in names}
    for sign in (*BARS, *BETWEEN_LABELS) if is_never_divided else BARS:
        divided = (name for name in names if sign in name and f"{sign} " not in name)
        parts = {name: set(name.casefold().split(sign)) - {""} for name in divided}
        parts = {name: some for name, some in sorted(parts.items()) if len(some) > 1}
        counts = Counter(part for some in parts.values() for part in some)
        for name, some in parts.items():
            if some & known or (is_never_divided and any(counts[part] > 1 for part in some)):
                return name, sign
    return None


def alike(values: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two different values that are one number or one text in two spellings, as p1 and P1 are.

    Letters of either size differ by chance in aB3x and Ab3X, so that one of two must be all in one size, or begin with
    a large letter.
    """
    seen: dict[str | Decimal, list[str]] = {}
    for value in sorted(set(values)):
        others = seen.setdefault(_same(value.casefold()), [])
        for other in others:
            if _same(other) == _same(value) or other in _sizes(value) or value in _sizes(other):
                return other, value
        others.append(value)
    return None


def _sizes(value: str) -> tuple[str, ...]:
    """Return a text in small letters, in large ones, and with a large one at its beginning."""
    return value.casefold(), value.lower(), value.upper(), value.capitalize()


def look_alike(label: str, names: Iterable[str]) -> str:
    """Say which name a label that is none of them resembles; nothing if there is no such name."""
    same = _same(label.casefold())
    other = next((name for name in names if _same(name.casefold()) == same), None)
    return "" if other is None else f"; {difference(label, other)}"


def likeness(label: str) -> str | Decimal:
    """Return what equals for two labels that differ in letters' sizes, blanks, underscores or hyphens alone."""
    return _same(re.sub("[_-]", " ", label.casefold()))


def difference(label: str, other: str) -> str:
    """Say how two labels differ that are one in two spellings."""
    if NUMBER.fullmatch(label.strip()) and NUMBER.fullmatch(other.strip()):
        return f"{label!r:.60} and {other!r:.60} are one number in two spellings"
    if label.casefold() == other.casefold():
        return f"{label!r:.60} and {other!r:.60} differ in small and large letters alone"
    if _visible(label) != _visible(other) and likeness(label) == likeness(other):
        return f"{label!r:.60} and {other!r:.60} differ in letters' sizes, blanks, underscores or hyphens alone"
    points = f"{_points(label, other)} and {_points(other, label)}"
    return f"{label!r:.60} and {other!r:.60} look alike, but their code points {points} differ"


def _same(label: str) -> str | Decimal:
    """Return what equals for two labels that a reader takes for one."""
    label = _visible(label)
    if NUMBER.fullmatch(label):
        try:
            return Decimal(label)
        except ArithmeticError:
            return label
    return label


def _visible(label: str) -> str:
    """Return a label in one form of Unicode, with plain blanks and without signs that show nothing."""
    if not label.isascii():
        shown = (sign for sign in SELECTORS.sub("", label) if unicodedata.category(sign) != "Cf")
        label = unicodedata.normalize("NFC", "".join(shown))
    return " ".join(label.split())


def _points(label: str, other: str) -> str:
    """Name the code points of a label from the first that differs."""
    first = next((place for place, pair in enumerate(zip(label, other, strict=False)) if pair[0] != pair[1]), None)
    rest = label[min(len(label), len(other)) if first is None else first :]
    return " ".join(f"U+{ord(sign):04X}" for sign in rest[:MOST_POINTS]) or "(none)"
