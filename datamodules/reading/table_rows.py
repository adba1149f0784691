"""Rows of tables: CSV, TSV, JSON lines, Parquet, and COCO's JSON of classes."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from gzip import GzipFile
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from datamodules.reading import coco, strict_json
from datamodules.reading.class_map_file import not_utf8
from datamodules.reading.class_map_forms import DELIMITERS, delimiter_in
from datamodules.reading.damaged_files import reading
from datamodules.reading.label_text import refuse_vector, whole_number
from datamodules.reading.parquet_labels import holds_numbers, holds_text, listed_classes
from datamodules.reading.parquet_rows import open_table
from vit_lightning.errors import InputError
from vit_lightning.files import check_regular

OTHER_DELIMITERS = {";": "semicolons", "|": "bars", "\t": "tabs", ",": "commas"}
ENDINGS = ".csv, .tsv or .parquet, or in .jsonl, .json, .csv.gz, .tsv.gz or .jsonl.gz"


def header(table: Path) -> list[str]:
    """Return the names of a table's columns."""
    kind = _kind(table)
    if kind == ".parquet":
        return list(open_table(table).schema_arrow.names)
    with _reading(table):
        if kind in DELIMITERS:
            names = [name.strip() for name in next(_cells(table, kind), [])]
            _check_delimiter(table, names, kind)
            return names
        return list(dict.fromkeys(name for row in islice(_objects(table, kind), 1) for name in row))


def values(table: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield what each row has in some columns, None where it has nothing."""
    kind = _kind(table)
    with _reading(table):
        if kind == ".parquet":
            yield from _parquet(table, columns)
        elif kind in DELIMITERS:
            names = header(table)
            places = [names.index(name) for name in columns]
            for number, row in enumerate(filter(None, islice(_cells(table, kind), 1, None)), start=1):
                if len(row) > len(names):
                    raise InputError(
                        f"{table} has {len(row)} cells in row {number} ({row[places[0]]:.80}), but {len(names)} "
                        "columns; put a cell that holds the delimiter in quotation marks"
                    )
                yield tuple(row[place] if place < len(row) else None for place in places)
        else:
            for found in _objects(table, kind):
                yield tuple(found.get(name) for name in columns)


def text_columns(table: Path) -> list[str]:
    """Return the names of the columns whose cells may be text, each once."""
    if _kind(table) != ".parquet":
        return list(dict.fromkeys(header(table)))
    return [field.name for field in open_table(table).schema_arrow if holds_text(field.type)]


def listed_names(table: Path, columns: Sequence[str]) -> list[str]:
    """Return the class names that a Parquet table lists for its only column of labels; none for any other."""
    is_listed = _kind(table) == ".parquet" and len(columns) == 1
    return (listed_classes(table, columns[0]) or []) if is_listed else []


def may_be_numbers(table: Path, columns: Sequence[str]) -> bool:
    """Tell whether digits in the only column of labels may be numbers: they are text, or have names, in Parquet."""
    if len(columns) != 1 or listed_names(table, columns):
        return False
    return _kind(table) != ".parquet" or holds_numbers(table, columns[0])


@contextmanager
def _reading(table: Path) -> Iterator[None]:
    """Name the table in what goes wrong inside, and what to do where its text has another encoding."""
    with reading(table):
        try:
            yield
        except UnicodeDecodeError as error:
            byte = f"the byte 0x{error.object[error.start]:02X}"
            raise InputError(f"{table} is not UTF-8 text, but has {byte}; save it as UTF-8") from error


def _kind(table: Path) -> str:
    suffixes = table.suffixes[-2:] if table.suffix == ".gz" else table.suffixes[-1:]
    kind = suffixes[0].lower() if suffixes else ""
    if kind in (*DELIMITERS, ".jsonl") or (kind in (".json", ".parquet") and table.suffix != ".gz"):
        return kind
    raise InputError(f"{table} must end in {ENDINGS}")


def _cells(table: Path, kind: str) -> Iterator[list[str]]:
    """Yield the cells of all lines, the header's first."""
    with _open(table) as file:
        try:
            first = file.readline()
            taken = delimiter_in(first, DELIMITERS[kind])
            yield from csv.reader(chain([first], file) if first else (), delimiter=taken, strict=True)
        except csv.Error as error:
            raise InputError(f"{table} cannot be read ({error}); is there a lone quotation mark?") from error


def _check_delimiter(table: Path, names: Sequence[str], kind: str) -> None:
    """Refuse a header that other delimiters divide."""
    if len(names) != 1:
        return
    if other := next((sign for sign in OTHER_DELIMITERS if sign in names[0]), None):
        raise InputError(
            f"{table} has one column {names[0]!r}, which {OTHER_DELIMITERS[other]} divide, expected "
            f"{OTHER_DELIMITERS[DELIMITERS[kind]]}; save it with commas as .csv, or with tabs as .tsv"
        )


def _open(table: Path) -> TextIO:
    with _bytes(table) as file:
        start = file.read(2)
    if "UTF-16" in not_utf8(start):
        raise InputError(f"{table} is UTF-16 text; save it as UTF-8")
    return io.TextIOWrapper(_bytes(table), encoding="utf-8-sig", newline="")


def _bytes(table: Path) -> BinaryIO:
    check_regular(table)
    return cast(BinaryIO, GzipFile(table)) if table.suffix == ".gz" else table.open("rb")


def _parquet(table: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    listed = [listed_classes(table, name) for name in columns]
    row = 0
    for batch in open_table(table).iter_batches(columns=list(columns)):
        for cells in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
            row += 1
            yield tuple(
                cell if names is None else _named(cell, names, f"{table} has in row {row}")
                for cell, names in zip(cells, listed, strict=True)
            )


def _named(value: Any, names: Sequence[str], place: str) -> Any:
    """Return the names of the classes that numbers stand for."""
    if isinstance(value, list):
        try:
            refuse_vector([whole_number(str(item)) for item in value])
        except ValueError as error:
            raise InputError(f"{place} {str(error).rstrip(',')}") from error
        return [_named(item, names, place) for item in value]
    if value is None or value != value or value == -1 or isinstance(value, str):
        return None if value == -1 else value
    if not 0 <= value < len(names) or value != int(value):
        raise InputError(f"{place} the label {value}, outside its {len(names)} classes")
    return names[int(value)]


def _objects(table: Path, kind: str) -> Iterator[dict[str, Any]]:
    with _open(table) as file:
        rows = _lines(file, table) if kind == ".jsonl" else _json(strict_json.loads(file.read()), table)
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict):
                raise InputError(f"{table} has no object in row {number}, expected one with a path and a label")
            yield row


def _lines(file: Iterable[str], table: Path) -> Iterator[Any]:
    for number, line in enumerate(filter(str.strip, file), start=1):
        try:
            yield strict_json.loads(line)
        except ValueError as error:
            raise InputError(f"{table} has in row {number} no JSON that can be read ({error})") from error


def _is_task(item: Any) -> bool:
    """Tell whether an object is a task as Label Studio exports it."""
    return isinstance(item, dict) and isinstance(item.get("data"), dict) and isinstance(item.get("annotations"), list)


def _task(task: dict[str, Any], where: str) -> dict[str, Any]:
    """Return image and chosen labels of a task.

    Raises:
        InputError: its annotators disagree; the sentence begins with `where`.
    """
    given = [
        [choice for result in annotation.get("result", ()) for choice in result.get("value", {}).get("choices", ())]
        for annotation in task["annotations"]
        if not annotation.get("was_cancelled")
    ]
    if any(sorted(choices) != sorted(given[0]) for choices in given):
        raise InputError(f"{where} annotations that disagree: {given!r:.100}; keep one of them")
    choices = given[0] if given else None
    return {**task["data"], "label": choices[0] if choices and len(choices) == 1 else choices}


def _json(content: Any, table: Path) -> Iterator[Any]:
    """Yield the rows of a list of objects, of Label Studio's tasks, or of COCO's images and annotations."""
    if isinstance(content, list):
        for row, item in enumerate(content, start=1):
            yield _task(item, f"{table} has in row {row}") if _is_task(item) else item
        return
    if not isinstance(content, dict) or not coco.is_one(content):
        raise InputError(f"{table} is no list of objects and has no images, annotations and categories, as COCO's has")
    yield from coco.rows(content, table)
