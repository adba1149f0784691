"""Rows of tables: CSV, TSV, JSON lines, Parquet, and COCO's JSON of classes."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from gzip import GzipFile
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from datamodules.reading.class_map import not_utf8
from datamodules.reading.damaged_files import check_regular, reading
from datamodules.reading.parquet_labels import listed_classes
from datamodules.reading.parquet_rows import open_table
from vit_lightning.errors import InputError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
ENDINGS = ".csv, .tsv or .parquet, or in .jsonl, .json, .csv.gz, .tsv.gz or .jsonl.gz"


def header(table: Path) -> list[str]:
    """Return the names of a table's columns."""
    kind = _kind(table)
    if kind == ".parquet":
        return list(open_table(table).schema_arrow.names)
    with reading(table):
        if kind in DELIMITERS:
            with _open(table) as file:
                return [name.strip() for name in next(csv.reader(file, delimiter=DELIMITERS[kind]), [])]
        return list(dict.fromkeys(name for row in islice(_objects(table, kind), 1) for name in row))


def values(table: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield what each row has in some columns, None where it has nothing."""
    kind = _kind(table)
    with reading(table):
        if kind == ".parquet":
            yield from _parquet(table, columns)
        elif kind in DELIMITERS:
            places = [header(table).index(name) for name in columns]
            with _open(table) as file:
                for row in islice(csv.reader(file, delimiter=DELIMITERS[kind]), 1, None):
                    if row:
                        yield tuple(row[place] if place < len(row) else None for place in places)
        else:
            for found in _objects(table, kind):
                yield tuple(found.get(name) for name in columns)


def _kind(table: Path) -> str:
    suffixes = table.suffixes[-2:] if table.suffix == ".gz" else table.suffixes[-1:]
    kind = suffixes[0].lower() if suffixes else ""
    if kind in (*DELIMITERS, ".jsonl") or (kind in (".json", ".parquet") and table.suffix != ".gz"):
        return kind
    raise InputError(f"{table} must end in {ENDINGS}")


def _open(table: Path) -> TextIO:
    with _bytes(table) as file:
        if not_utf8(file.read(2)).endswith("as UTF-8"):
            raise InputError(f"{table} is UTF-16 text; save it as UTF-8")
    return io.TextIOWrapper(_bytes(table), encoding="utf-8-sig", newline="")


def _bytes(table: Path) -> BinaryIO:
    check_regular(table)
    return cast(BinaryIO, GzipFile(table)) if table.suffix == ".gz" else table.open("rb")


def _parquet(table: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    listed = [listed_classes(table, name) for name in columns]
    for batch in open_table(table).iter_batches(columns=list(columns)):
        cells = (batch.column(name).to_pylist() for name in columns)
        named = (
            found if names is None else [_named(value, names, table) for value in found]
            for found, names in zip(cells, listed, strict=True)
        )
        yield from zip(*named, strict=True)


def _named(value: Any, names: Sequence[str], table: Path) -> Any:
    """Return the names of the classes that numbers stand for."""
    if isinstance(value, list):
        return [_named(item, names, table) for item in value]
    if not isinstance(value, int) or value == -1:
        return None
    if not 0 <= value < len(names):
        raise InputError(f"{table} has the label {value}, outside its {len(names)} classes")
    return names[value]


def _objects(table: Path, kind: str) -> Iterator[dict[str, Any]]:
    with _open(table) as file:
        rows = (
            (json.loads(line) for line in file if line.strip()) if kind == ".jsonl" else _json(json.load(file), table)
        )
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict):
                raise InputError(f"{table} has no object in row {number}, expected one with a path and a label")
            yield row


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
    choices = given[0] if given else []
    return {**task["data"], "label": choices[0] if len(choices) == 1 else choices or None}


def _json(content: Any, table: Path) -> Iterator[Any]:
    """Yield the rows of a list of objects, of Label Studio's tasks, or of COCO's images and annotations."""
    if isinstance(content, list):
        for row, item in enumerate(content, start=1):
            yield _task(item, f"{table} has in row {row}") if _is_task(item) else item
        return
    if not isinstance(content, dict) or not {"images", "annotations", "categories"} <= content.keys():
        raise InputError(f"{table} is no list of objects and has no images, annotations and categories, as COCO's has")
    names = {category["id"]: category["name"] for category in content["categories"]}
    classes: dict[Any, dict[str, None]] = {image["id"]: {} for image in content["images"]}
    for annotation in content["annotations"]:
        classes[annotation["image_id"]][names[annotation["category_id"]]] = None
    for image in content["images"]:
        found = list(classes[image["id"]])
        yield {"file_name": image["file_name"], "label": found[0] if len(found) == 1 else found}
