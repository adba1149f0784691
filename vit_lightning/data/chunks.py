"""Shards of encoded images in LitData's chunk format, written whole and read record by record.

A chunk is the number n of its items, n + 1 places in the file where items begin and the last one ends (all uint32),
and the items. An item is the size of each of its fields (uint32) and the fields. `index.json` lists the chunks.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vit_lightning.errors import InputError, listing

INDEX = "index.json"
LABELS = "labels.npy"
JOURNAL = "prepared.jsonl"
"""What is done: first of which set and how, then a line per finished shard; a later line for a shard counts."""
FIELDS = ("image", "label", "key")
SINGLE_LABEL = "int"
"""LitData's name for the label of an image of one class, an int64."""
MULTI_LABEL = "no_header_numpy:2"
"""LitData's name for int32 numbers, the classes of an image that may show several."""
LARGEST = 2**32 - 1
"""Bytes that a chunk may have, since places are uint32."""


def item(image: bytes, label: int | np.ndarray, key: str) -> bytes:
    """Return a record as it is stored; the label is a class, or an array of classes."""
    numbers = np.asarray(label, dtype=np.int32 if isinstance(label, np.ndarray) else np.int64)
    fields = (image, numbers.tobytes(), os.fsencode(key))
    return np.array([len(field) for field in fields], dtype=np.uint32).tobytes() + b"".join(fields)


def write(file: Path, items: Sequence[bytes]) -> str:
    """Write a chunk, completely or not at all, and return its sha256."""
    ends = 4 * (len(items) + 2) + np.cumsum([0, *map(len, items)])
    if ends[-1] > LARGEST:
        raise InputError(
            f"{len(items)} images of {ends[-1]:,} bytes together exceed the 4 GiB of a shard; give fewer --shard_images"
        )
    return put(file, [np.array([len(items), *ends], dtype=np.uint32).tobytes(), *items])


def put(file: Path, parts: Iterable[bytes]) -> str:
    """Write a file, completely or not at all, also if the power fails, and return its sha256."""
    part = file.with_suffix(".part")
    digest = hashlib.sha256()
    with part.open("wb") as opened:
        for data in parts:
            digest.update(data)
            opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    part.replace(file)
    return digest.hexdigest()


def fields(data: bytes, count: int) -> list[bytes]:
    """Return the fields of an item that has `count` of them.

    Raises:
        ValueError: if the sizes do not add up.
    """
    sizes = np.frombuffer(data[: 4 * count].ljust(4 * count, b"\0"), dtype=np.uint32)
    ends = 4 * count + np.cumsum(sizes, dtype=np.int64)
    if ends[-1] != len(data):
        raise ValueError("its sizes do not add up")
    return [data[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]


@dataclass(frozen=True)
class Layout:
    """Where an item of a LitData set holds what a datamodule needs.

    Args:
        formats: LitData's name of each field's format.
        image: number of the field with the encoded image.
        label: number of the field with the class or classes.
        key: number of the field with the record's name, None if there is none.
    """

    formats: tuple[str, ...]
    image: int
    label: int
    key: int | None

    @property
    def several(self) -> bool:
        """Whether an image may show several classes."""
        return self.formats[self.label] != SINGLE_LABEL

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Layout":
        """Read the layout from `index.json`.

        Raises:
            ValueError: saying what of it is not understood.
        """
        if config.get("compression") or config.get("encryption") or config.get("ipc_compression"):
            raise ValueError("it is compressed or encrypted")
        formats = tuple(config["data_format"])
        images = [number for number, name in enumerate(formats) if _is_encoded(name)]
        labels = [number for number, name in enumerate(formats) if name in (SINGLE_LABEL, MULTI_LABEL)]
        if len(images) != 1 or len(labels) != 1:
            raise ValueError(f"its records are of {listing(formats)}, not one encoded image and one class")
        return cls(formats, images[0], labels[0], formats.index("str") if "str" in formats else None)


def _is_encoded(name: str) -> bool:
    """Tell whether a field, by LitData's name of its format, holds the bytes of an image file, as image:jpg does."""
    return name in ("bytes", "jpeg") or name.startswith("image:")


def index(chunks: Sequence[dict[str, Any]], several: bool) -> str:
    """Return the text of `index.json` for chunks given by filename, chunk_size, chunk_bytes and more."""
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    spec = [1, {"type": "builtins.dict", "context": json.dumps(FIELDS), "children_spec": [leaf] * len(FIELDS)}]
    config = {
        "chunk_bytes": None,
        "chunk_size": max((chunk["chunk_size"] for chunk in chunks), default=0),
        "compression": None,
        "data_format": ["bytes", MULTI_LABEL if several else SINGLE_LABEL, "str"],
        "data_spec": json.dumps(spec),
        "encryption": None,
        "item_loader": "PyTreeLoader",
    }
    return json.dumps({"chunks": [{"dim": None, **chunk} for chunk in chunks], "config": config}, indent=1) + "\n"
