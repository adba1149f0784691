"""Tables of a run as its report reads them: of one that was cut, what is whole, and how many rows are not."""

import csv
import hashlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vit_lightning.commands.report.damage import DamagedError
from vit_lightning.files import typed_cell

Point = tuple[int, float]
Read = TypeVar("Read")
LARGEST = 1e100
"""Of a metric; what is larger, and what is no number, is no point of a curve that could be drawn."""


class ClassRow(NamedTuple):
    """Scores of a class; a share of no image is None."""

    name: str
    support: int
    shares: dict[str, float | None]


class Mistake(NamedTuple):
    """An image that is predicted wrongly."""

    image: str
    label: str
    predicted: str
    probability: float


class Matrix(NamedTuple):
    """Which classes are taken for which."""

    names: list[str]
    entries: list[tuple[int, int, int]]
    """Number of the true class, of the predicted one, and how many images; those of none are left out."""


class Validated(NamedTuple):
    """What validation images are known by."""

    images: int
    sha256: str
    """Of their names and classes, in whichever order."""


def text_of(path: Path) -> str:
    """Return a file's text; the names of a folder's files, which a table holds, need not be UTF-8."""
    csv.field_size_limit(2**27)
    return path.read_text(encoding="utf-8", errors="surrogateescape").replace("\0", "")


def curves(path: Path) -> tuple[dict[str, list[Point]], int]:
    """Return the values of each metric by step, and how many rows are none."""
    found: dict[str, list[Point]] = {}
    rows, damaged = _rows(path, ("step",)) if text_of(path) else ([], 0)
    values, unread = _parsed(rows, _values)
    for step, row in values:
        for name, value in row.items():
            if abs(value) < LARGEST:
                found.setdefault(name, []).append((step, value))
    for points in found.values():
        points.sort(key=lambda point: point[0])
    return found, damaged + unread


def _values(row: dict[str, str]) -> tuple[int, dict[str, float]]:
    return int(row["step"]), {name: float(text) for name, text in row.items() if text and name not in ("step", "epoch")}


def classes(path: Path) -> tuple[list[ClassRow], int]:
    """Return the scores of each class, and how many rows are damaged."""
    rows, damaged = _rows(path, ("class", "support"))
    found, unread = _parsed(rows, _class)
    return found, damaged + unread


def _class(row: dict[str, str]) -> ClassRow:
    shares = {name: float(text) if text else None for name, text in row.items() if name not in ("class", "support")}
    return ClassRow(typed_cell(row["class"]), int(row["support"]), shares)


def validated(path: Path) -> Validated | None:
    """Return what the validation images of a table of a split are known by; None: it has none.

    Raises:
        DamagedError: rows of the table are damaged.
    """
    rows, damaged = _rows(path, ("file", "split"))
    if damaged:
        raise DamagedError(f"{damaged} of its rows cannot be read")
    names = sorted(f"{row['file']}\n{row.get('class', '')}\n" for row in rows if row["split"] == "val")
    digest = hashlib.sha256("".join(names).encode(errors="surrogateescape")).hexdigest()
    return Validated(len(names), digest) if names else None


def mistakes(path: Path) -> tuple[list[Mistake], int]:
    """Return the images that are predicted wrongly, and how many rows are damaged."""
    names = ("image", "label", "predicted")
    rows, damaged = _rows(path, (*names, "probability"))
    found, unread = _parsed(
        rows, lambda row: Mistake(*(typed_cell(row[name]) for name in names), float(row["probability"]))
    )
    return found, damaged + unread


def matrix(path: Path) -> tuple[Matrix, int]:
    """Return a confusion matrix from its square, or from a row per entry that is not 0, and how many of these are cut.

    Raises:
        DamagedError: the square is not whole, which leaves no matrix.
    """
    (header, *rows), is_cut = _cells(path)
    if header == ["true", "predicted", "images"] and [row[0] for row in rows] != header[1:]:
        entries, damaged = _rows(path, header)
        found, unread = _parsed(
            entries, lambda row: (typed_cell(row["true"]), typed_cell(row["predicted"]), int(row["images"]))
        )
        numbers = {
            name: number for number, name in enumerate(dict.fromkeys(name for *pair, _ in found for name in pair))
        }
        return Matrix(list(numbers), [(numbers[true], numbers[taken], n) for true, taken, n in found]), damaged + unread
    names = [typed_cell(name) for name in header[1:]]  # by place: two classes may have one name
    if is_cut or [len(row) for row in rows] != [len(header)] * len(names):
        raise DamagedError(f"it is no square of {len(names)} classes")
    try:
        counts = [[int(cell) for cell in row[1:]] for row in rows]
    except ValueError as error:
        raise DamagedError("a cell holds no number of images") from error
    places = ((true, predicted) for true in range(len(names)) for predicted in range(len(names)))
    return Matrix(names, [(true, predicted, n) for true, predicted in places if (n := counts[true][predicted])]), 0


def _cells(path: Path) -> tuple[list[list[str]], bool]:
    """Return the cells of a table's rows, its header first, and whether its last row may lack some of its end."""
    text = text_of(path)
    if not text.strip():
        raise DamagedError("it is empty")
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row], not text.endswith("\n")


def _rows(path: Path, needed: Sequence[str]) -> tuple[list[dict[str, str]], int]:
    """Return the whole rows of a table by column, and how many others it has.

    Raises:
        DamagedError: it lacks a column.
    """
    (header, *rows), is_cut = _cells(path)
    if lacking := [name for name in needed if name not in header]:
        raise DamagedError(f"it has no column {' and '.join(lacking)}")
    whole = [row for row in (rows[:-1] if is_cut else rows) if len(row) == len(header)]
    return [dict(zip(header, row, strict=True)) for row in whole], len(rows) - len(whole)


def _parsed(rows: Sequence[dict[str, str]], parse: Callable[[dict[str, str]], Read]) -> tuple[list[Read], int]:
    """Return what rows hold, and how many hold something else."""
    found: list[Any] = []
    for row in rows:
        try:
            found.append(parse(row))
        except ValueError:
            continue
    return found, len(rows) - len(found)
