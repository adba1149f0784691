"""COCO's JSON as a table: a row per image, with the classes of its annotations."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from datamodules.reading.column_names import LABEL_COLUMNS, PATH_COLUMNS
from datamodules.reading.label_text import plain_text, whole_number
from vit_lightning.errors import InputError

PARTS = {"images", "annotations", "categories"}


def is_one(content: Mapping[str, Any]) -> bool:
    """Tell whether an object has the parts of COCO's; that of test images may lack annotations."""
    return content.keys() >= PARTS or PARTS & content.keys() == PARTS - {"annotations"}


class Annotated(list[str]):
    """The classes of an image's annotations."""


def rows(content: Mapping[str, Any], table: Path) -> Iterator[dict[str, Any]]:
    """Yield the path, the classes and the further fields of each image; no classes where there are no annotations.

    Args:
        content: the lists of images, categories and perhaps annotations.
        table: the file, for messages.

    Raises:
        InputError: naming the first entry that lacks something, stands twice, or belongs to nothing.
    """
    categories = _by_id(content["categories"], "category", "name", table)
    images = _by_id(content["images"], "image", "file_name", table)
    fields = _fields(content["images"])
    if "annotations" not in content:
        yield from ({"file_name": path, **fields[image]} for image, path in images.items())
        return
    classes: dict[str, dict[str, None]] = {image: {} for image in images}
    used: dict[str, str] = {}
    for place, annotation in enumerate(content["annotations"]):
        what = f"annotation {annotation.get('id', place) if isinstance(annotation, dict) else place}"
        image = _known(annotation, "image_id", images, f"{table}: {what}")
        category = _known(annotation, "category_id", categories, f"{table}: {what}")
        name = categories[category]
        if used.setdefault(name, category) != category:
            raise InputError(f"{table} has two categories {name!r}, id {used[name]} and id {category}; rename one")
        classes[image][name] = None
    for image, path in images.items():
        yield {"file_name": path, "label": Annotated(classes[image]), **fields[image]}


def _fields(images: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what may be columns of each image beside its path and label, as its place or sequence, by id."""
    known = {"id", *PATH_COLUMNS, *LABEL_COLUMNS}
    names = {name: None for image in images for name in image if name not in known}
    return {_id(image["id"]): {name: image.get(name) for name in names} for image in images}


def _by_id(entries: Sequence[Any], what: str, field: str, table: Path) -> dict[str, str]:
    """Return a field of each entry by the entry's id as text."""
    found: dict[str, str] = {}
    ids: dict[str, Any] = {}
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or entry.get("id") is None or entry.get(field) in (None, ""):
            raise InputError(f"{table} has no id or no {field} in {what} {place}, counted from 0")
        number = _id(entry["id"])
        if number in found:
            both = json.dumps(ids[number]), json.dumps(entry["id"])
            alike = f" ({both[0]} and {both[1]} are taken for one)" if both[0] != both[1] else ""
            raise InputError(f"{table} has two of {what} id {number}; give each an id of its own{alike}")
        ids[number] = entry["id"]
        try:
            found[number] = plain_text(entry[field])
        except ValueError as error:
            raise InputError(f"{table} has {error} as {field} of {what} id {number}") from error
    return found


def _known(annotation: Any, field: str, known: Mapping[str, str], what: str) -> str:
    number = _id(annotation.get(field)) if isinstance(annotation, dict) else "None"
    if number not in known:
        raise InputError(f"{what} has the {field} {number}, which none of its {field.removesuffix('_id')} entries has")
    return number


def _id(value: Any) -> str:
    """Return an id as text, so that 7 is "7"."""
    return whole_number(str(value).strip())
