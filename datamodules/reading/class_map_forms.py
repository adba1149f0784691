"""Forms of class lists: text with a name a line, tables of names and numbers, JSON."""

import csv
import re
from collections.abc import Callable, Collection, Sequence

from lightning.pytorch.utilities import rank_zero_info

from datamodules.reading import strict_json
from datamodules.reading.label_text import is_whole, text_lines, whole_number

DELIMITERS = {".csv": ",", ".tsv": "\t"}
TAKEN = (";", "\t", ",")
"""Delimiters of a table whose first line lacks that of its ending: some spreadsheets write semicolons."""
NUMBER_FIRST = re.compile(r"([0-9]+)[\s,:;|=]+(\S.*)")
NUMBER_LAST = re.compile(r"(.*[^\s,:;|=])[\s,:;|=]+([0-9]+)")
SEPARATED = re.compile(r"[,;:|=\t]")
LISTED = re.compile(r"(\(?)([0-9]+)([.):-]+\s*)(\S.*)")
"""Lines of a list, as 2. cat, 2) cat, (2) cat and 2-cat."""
HEADERS = frozenset(
    {
        *("name", "names", "class", "classes", "classname", "classnames", "label", "labels", "category", "categories"),
        *("breed", "breeds", "species", "text", "target", "targets", "tag", "tags", "title", "id", "index", "number"),
    }
)
"""Words of headers."""
FOLDERS = HEADERS | {"folder", "folders", "directory", "wnid"}
"""Words of headers of a column of folders."""
COLUMNS = FOLDERS | {"idx", "no", "nr", "num", "code", "key", "value", "synset", "description", "desc", "type", "kind"}
"""Words of headers of a column beside one of numbers."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W_a-zA-Z]+")
COMMENTS = ("#", "//", "/*", ";", "%", "--", "<!--")


def names_in_lines(
    text: str, known: Callable[[], Collection[str] | None] = lambda: None, keeps_header: bool = False
) -> list[str]:
    """Return the names of a text, one a line, without a header.

    Args:
        text: what the file holds.
        known: returns all names that the data have; None: they are not known, and a header may be a name.
        keeps_header: whether a header is a name in any case.

    Raises:
        ValueError: a line may be meant otherwise.
    """
    lines = text_lines(text.rstrip())
    if blank := next((number for number, line in enumerate(lines, start=1) if len(lines) > 1 and not line.strip()), 0):
        raise ValueError(f"its line {blank} is blank, which leaves it open whether a class lacks its name; remove it")
    lines = [line.strip() for line in lines if line]
    found = _numbered_lines(lines)
    if lines and SEPARATED.search(lines[0]):  # it may be a header
        found = found or _numbered_lines(lines[1:])
    if found or _listed_lines(lines):
        raise ValueError(
            f"its line {found or lines[0]!r:.60} holds a number and a name; write the names alone in the order of "
            "their numbers, or both as .csv or .json"
        )
    if lines and not keeps_header and _is_header(lines[0], HEADERS):
        lines = _below_header(lines, known())
    _check_lines(lines)
    return lines


def _below_header(lines: Sequence[str], known: Collection[str] | None) -> Sequence[str]:
    """Return the lines of which the first may be a header without it, unless it is a name that the data have."""
    if known is None:
        _check_lines(lines)
        raise ValueError(f"its first line {lines[0]!r} may be a header; remove it, or save a list of names as .json")
    if lines[0] in known:
        return lines
    rank_zero_info(f"the first line {lines[0]!r} of the class map is taken for a header: no label is called so")
    return lines[1:]


def _check_lines(lines: Sequence[str]) -> None:
    """Refuse what is no line with a name: a comment, an item of a list."""
    if comment := next((line for line in lines if line.startswith(COMMENTS)), None):
        raise ValueError(f"its line {comment!r:.60} may be a comment; remove it, or save a list of names as .json")
    is_item = all(line.startswith(("- ", "* ")) for line in lines)
    is_quoted = all(re.fullmatch(r"""(["']).*\1,?""", line) for line in lines)
    if lines and (is_item or is_quoted or (len(lines) > 1 and all(line.endswith(",") for line in lines[:-1]))):
        raise ValueError(f"its line {lines[0]!r:.60} is an item of a list; write the name alone, or the list as .json")


def _is_header(text: str, words: frozenset[str]) -> bool:
    """Tell whether a text is made of words of headers alone."""
    found = WORD.findall(text)
    return bool(found) and words.issuperset(map(str.lower, found))


def _listed_lines(lines: Sequence[str]) -> bool:
    """Tell whether all lines are items with consecutive numbers, which are no part of the names.

    Names such as 001.Albatross, in the order of their numbers, mean the same either way.
    """
    found = [match for line in lines if (match := LISTED.fullmatch(line))]
    numbers = [int(match[2]) for match in found]
    if len(found) < len(lines) or sorted(numbers) != list(range(min(numbers, default=0), max(numbers, default=-1) + 1)):
        return False
    return numbers != sorted(numbers) or any(match[1] or match[3][-1].isspace() or ")" in match[3] for match in found)


def _numbered_lines(lines: Sequence[str]) -> str:
    """Return the first line if all of them hold a name and its number."""
    for form, name, number in ((NUMBER_FIRST, 2, 1), (NUMBER_LAST, 1, 2)):
        found = [match for line in lines if (match := form.fullmatch(line))]
        numbers = sorted(int(match[number]) for match in found)
        if not len(found) == len(lines) == len({match[name] for match in found}) == len(set(numbers)) > 0:
            continue
        in_turn = numbers[-1] - numbers[0] == len(numbers) - 1
        if form is NUMBER_FIRST or in_turn or all(map(SEPARATED.search, lines)):
            return lines[0]
    return ""


def names_in_table(text: str, delimiter: str) -> list[str]:
    """Return the names of a table with a column of names and one of numbers, in the order of the numbers.

    A first line of words of headers is none of them.

    Raises:
        ValueError: it has other columns.
    """
    rows = _rows(text, delimiter)
    widths = {len(row) for row in rows}
    if widths == {1}:
        raise ValueError(
            f"its first line {rows[0][0]!r:.60} may be a header; save the names alone as .txt without one, or add a "
            "column of numbers"
        )
    if widths != {2}:
        raise ValueError(
            f"expected a column of names and one of numbers, without others, but it has {max(widths, default=0)} "
            "columns"
        )
    rows = rows[_has_header(rows) :]
    numbered = [place for place in range(2) if rows and all(_is_number(row[place]) for row in rows)]
    if len(numbered) != 1:
        raise ValueError("expected a column of names and one of whole numbers from 0")
    return _in_order([(_number(row[numbered[0]]), row[1 - numbered[0]]) for row in rows])


def delimiter_in(first: str, own: str) -> str:
    """Return what divides a table: the delimiter of its ending, or another one where its first line lacks that."""
    return next((sign for sign in (own, *TAKEN) if sign in first), own)


def _rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the cells of lines that are not empty; semicolons or tabs divide a table without its own delimiter."""
    lines = [f"{line}\n" for line in text_lines(text)]
    first = next((line for line in lines if line.strip()), "")
    taken = delimiter_in(first, delimiter)
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=taken, strict=True)]
    return [row for row in rows if any(row)]


def renaming_in(text: str, kind: str, labels: Callable[[], Collection[str]] = tuple) -> list[tuple[str, str]]:
    """Return the folders and their classes in a table of two columns, or in an object.

    Numbers of names that are not 0, 1, 2, ... without a gap are called otherwise as folders are.

    Args:
        text: what the file holds.
        kind: its ending.
        labels: returns the labels of the data: a first line of words of headers is none if one of them is called so.

    Returns:
        No pairs of a list of names and their places, or of anything else.

    Raises:
        ValueError: the first line has a name where all others have a number, and may be a header.
    """
    if kind == ".json":
        found = strict_json.loads(text)
        is_renaming = isinstance(found, dict) and {*map(type, found.values())} in ({str}, {int})
        pairs = [(label, str(name)) for label, name in found.items()] if is_renaming else []
    else:
        rows = _rows(text, DELIMITERS[kind])
        pairs = [(row[0], row[1]) for row in rows] if {len(row) for row in rows} == {2} else []
    if not pairs:
        return []
    body = pairs[kind != ".json" and _has_header(pairs) :] or pairs
    numbered = [column for column in range(2) if all(_is_number(pair[column]) for pair in body)]
    if len(body) < len(pairs) and numbered != [1] and pairs[0][0] in labels():
        body, numbered = pairs, []  # the first line is one of the labels
    if numbered:
        return _renamed_numbers(body, numbered)
    if kind != ".json" and len(body) > 1 and all(_is_number(name) for _, name in body[1:]):
        first, names = ",".join(body[0]), [label for label, _ in body]
        if not any(map(_is_number, names)):
            raise ValueError(
                f"its line {first!r:.60} has no number where all others have one; if it is a header, call the "
                "columns name and number"
            )
    return body


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first of some lines with two cells is made of words of headers."""
    first, others = rows[0], rows[1:]
    if _is_header(first[0], FOLDERS) and _is_header(first[1], HEADERS):
        return True
    is_numbered = bool(others) and any(all(_is_number(row[column]) for row in others) for column in range(2))
    return is_numbered and all(_is_header(cell, COLUMNS) or _names_a_column(cell) for cell in first)


def _names_a_column(text: str) -> bool:
    """Tell whether a text of several words ends in one of a header, as GTSRB's SignName."""
    found = WORD.findall(text)
    return len(found) > 1 and found[-1].lower() in COLUMNS


def _renamed_numbers(pairs: Sequence[tuple[str, str]], numbered: Sequence[int]) -> list[tuple[str, str]]:
    """Return numbers and their names; none where they are places, stand twice, or both columns are other numbers.

    Numbers such as 01 are names of folders, as they stand.
    """
    found = [(pair[numbered[0]], pair[1 - numbered[0]]) for pair in pairs]
    if len(numbered) > 1:  # 01,1: one number in two spellings
        is_spelling = all(_number(number) == _number(name) for number, name in found)
        return found if is_spelling and any(number != name for number, name in found) else []
    if not all(_is_number(number) for number, _ in found):
        return []
    if numbered == [0] and not all(is_whole(number) for number, _ in found):
        return found
    numbers = {_number(number) for number, _ in found}
    are_places = len(numbers) < len(found) or max(numbers) < len(numbers)
    return [] if are_places else [(str(_number(number)), name) for number, name in found]


def names_in_json(text: str) -> list[str]:
    """Return the names of a list, or of an object of names and numbers.

    Raises:
        ValueError: it is something else.
    """
    found = strict_json.loads(text)
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        return found
    if not isinstance(found, dict):
        raise ValueError("expected a list of names, or an object of names and numbers")
    if all(map(_is_number, found)) and all(isinstance(name, str) for name in found.values()):
        return _in_order([(_number(number), name) for number, name in found.items()])
    if all(type(number) is int for number in found.values()):
        return _in_order([(number, name) for name, number in found.items()])
    raise ValueError("expected an object of names and numbers")


def says_numbers(text: str, kind: str) -> bool:
    """Tell whether a class list gives each name its number, as a table or an object does and a list does not.

    Args:
        text: what the file holds.
        kind: its ending.
    """
    return kind in DELIMITERS or (kind == ".json" and isinstance(strict_json.loads(text), dict))


def _is_number(text: str) -> bool:
    """Tell whether a text is the number of a class, which pandas writes as 2.0 too."""
    return whole_number(text).isdecimal()


def _number(text: str) -> int:
    return int(whole_number(text))


def _in_order(pairs: Sequence[tuple[int, str]]) -> list[str]:
    """Return names in the order of their numbers."""
    if sorted(number for number, _ in pairs) != list(range(len(pairs))):
        raise ValueError(f"expected the numbers 0 to {len(pairs) - 1}, each once")
    return [name for _, name in sorted(pairs)]
