"""Images that got another label with another name or number: files moved to another class's folder, records rewritten.

A file is known again by its own name, its size and its end, which differs from image to image in every format; a record
by its bytes.
"""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vit_lightning.data.image_set import blocks_of, labels_of
from vit_lightning.seeds import seeded
from vit_lightning.training.seen_set import SeenSet, hash_of

FILES = 4096
"""Files of a set that are kept; those of one file name are all kept, or none is."""
COLUMNS = 4
"""What is kept of a file: hashes of its own name and its whole one, its label and its mark."""
TAIL = 4096
"""Bytes of a file that are looked at."""
THREADS = 16
PER_CLASS, RECORDS = 2, 256
"""Records of a class, and of a set, that are kept."""
UNREADABLE = 0


class Changes(NamedTuple):
    """Images whose label changed."""

    places: list[int]
    before: list[int]
    compared: int


def kept_files(one: SeenSet) -> Tensor | None:
    """Return what a checkpoint keeps of some files of a set `(columns, files)`, None of what has no files."""
    if not _are_files(one):
        return None
    assert one.names is not None and one.file_names is not None
    order = np.argsort(one.file_names, kind="stable")
    if len(order) > FILES:
        order = order[one.file_names[order] < one.file_names[order[FILES]]]
    rows = one.file_names[order], one.names[order], one.labels(order), _marks(one, order)
    return torch.from_numpy(np.stack(rows))


def relabelled_files(then: Tensor, now: SeenSet) -> Changes:
    """Find files that lie elsewhere and have another label.

    Args:
        then: from `kept_files`.
        now: the set as it is.
    """
    file_names, names, labels, marks = then.numpy()
    if not _are_files(now) or not len(names):
        return Changes([], [], 0)
    assert now.names is not None and now.file_names is not None
    places = now.places_of(names)
    stays = places >= 0
    stays[stays] = _marks(now, places[stays]) == marks[stays]
    gone = ~stays & (marks != UNREADABLE)
    had = _unambiguous(zip(marks[gone].tolist(), labels[gone].tolist(), strict=True))
    known = set(zip(names.tolist(), marks.tolist(), strict=True))  # a copy under another label, as it was
    found = np.flatnonzero(np.isin(now.file_names, file_names[gone]))[:FILES]
    changes = Changes([], [], len(names))
    for place, mark, label in zip(found.tolist(), _marks(now, found).tolist(), now.labels(found).tolist(), strict=True):
        if had.get(mark, label) != label and (int(now.names[place]), mark) not in known:
            changes.places.append(place)
            changes.before.append(had[mark])
    return changes


def kept_records(one: SeenSet) -> dict[int, int]:
    """Return the labels of some records by a hash of their image, of sets whose names do not tell one from another."""
    return _unambiguous((content, label) for _, content, label in _records(one))


def relabelled_records(then: dict[int, int], now: SeenSet) -> Changes:
    """Find records with the same image and another label.

    Args:
        then: from `kept_records`.
        now: the set as it is.
    """
    records = _records(now) if then else []
    once = _unambiguous((content, label) for _, content, label in records)
    changes = Changes([], [], sum(content in then for content in once))
    for place, content, label in records:
        if content in once and then.get(content, label) != label:
            changes.places.append(place)
            changes.before.append(then[content])
    return changes


def places_of_trained(then: Mapping[str, Any], now: SeenSet) -> list[int]:
    """Return where a set has images, as far as they are kept, that a run was trained on, wherever they lie.

    Args:
        then: what a checkpoint keeps of the run's training set, or of those before it: see `seen_before`.
        now: the set that is scored.
    """
    known = then.get("records", {})
    found = [place for place, content, _ in (_records(now) if known else []) if content in known]
    files = then.get("files")
    if files is None or not _are_files(now):
        return found
    assert now.file_names is not None
    file_names, marks = files[0].numpy(), files[-1].numpy()
    places = np.flatnonzero(np.isin(now.file_names, file_names))[:FILES]
    is_trained = np.isin(_marks(now, places), marks[marks != UNREADABLE])
    return found + places[is_trained].tolist()


def _are_files(one: SeenSet) -> bool:
    """Tell by its first record whether a set's images are files of their own."""
    if one.names is None or blocks_of(one.images) is not None:
        return False
    with seeded(0):  # a foreign set may draw
        return one.file(0) is not None


def _marks(one: SeenSet, places: np.ndarray) -> np.ndarray:
    with seeded(0):
        files = [one.file(place) for place in places.tolist()]
    with ThreadPoolExecutor(THREADS) as pool:
        return np.fromiter(pool.map(_mark, files), np.int64, len(files))


def _mark(file: Path | None) -> int:
    """Return a hash by which a file is known again wherever it lies."""
    try:
        if file is None or not file.is_file():
            return UNREADABLE
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - TAIL))
            return hash_of(os.fsencode(f"{file.name}\n{size}\n") + opened.read(TAIL))
    except OSError:  # whoever loads the image says why it cannot be read
        return UNREADABLE


def _records(one: SeenSet) -> list[tuple[int, int, int]]:
    """Return place, hash and label of some records that are at hand."""
    if not one.is_known_by_content or blocks_of(one.images) is not None:
        return []
    labels = labels_of(one.images)
    places = np.arange(min(len(one), RECORDS))  # those that lie together, since reading one may read its neighbours
    if one.names_lie_in_records and labels is not None:
        firsts = [np.flatnonzero(labels == label)[:PER_CLASS] for label in np.unique(labels)[: RECORDS // PER_CLASS]]
        places = np.concatenate(firsts)
    found = [(place, one.content(place)) for place in places.tolist()]
    there = [(place, content) for place, content in found if content is not None]
    numbers = one.labels(np.array([place for place, _ in there], np.int64)).tolist()
    return [(place, content, label) for (place, content), label in zip(there, numbers, strict=True)]


def _unambiguous(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the label of each hash that has one."""
    found: dict[int, int | None] = {}
    for content, label in pairs:
        found[content] = label if found.get(content, label) == label else None
    return {content: label for content, label in found.items() if label is not None}
