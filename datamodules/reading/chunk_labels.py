"""Labels of LitData's chunks, read without their images, and compared with the classes there are."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from datamodules.reading.label_text import check_told, has_vectors
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data.chunks import Layout
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


def read_labels(files: Iterable[Path], layout: Layout) -> Ragged | None:
    """Return the labels of each record of some chunks, None if one of the chunks is damaged.

    Args:
        files: the chunks.
        layout: what a record is made of.
    """
    values, ends, count = [], [np.zeros(1, np.int64)], 0
    for file in files:
        try:
            found = _read(np.memmap(file, np.uint8, "r"), layout)
        except (OSError, ValueError, IndexError):
            return None
        values.append(found.values)
        ends.append(found.ends[1:] + count)
        count += len(found.values)
    return Ragged(np.concatenate(values), np.concatenate(ends)) if values else None


def _read(data: np.ndarray, layout: Layout) -> Ragged:
    """Return the labels of a chunk, see `vit_lightning.data.chunks`."""

    def numbers(places: np.ndarray, kind: type[np.generic]) -> np.ndarray:
        size = np.dtype(kind).itemsize
        return data[places[:, None] + np.arange(size)].reshape(-1).view(kind)

    count = int(numbers(np.zeros(1, np.int64), np.uint32)[0])
    if count < 0 or 4 * (count + 2) > len(data):
        raise ValueError("its places do not fit")
    begins = numbers(4 + 4 * np.arange(count), np.uint32).astype(np.int64)
    starts = begins + 4 * len(layout.formats)
    for field in range(layout.label):
        starts = starts + numbers(begins + 4 * field, np.uint32)
    sizes = numbers(begins + 4 * layout.label, np.uint32).astype(np.int64)
    width = 4 if layout.several else 8
    if (sizes % width).any() or (not layout.several and (sizes != width).any()) or (starts + sizes > len(data)).any():
        raise ValueError("its sizes do not fit")
    ends = np.append(0, np.cumsum(sizes // width))
    firsts = np.repeat(starts - width * ends[:-1], sizes // width) + width * np.arange(ends[-1])
    return Ragged(numbers(firsts, np.int32 if layout.several else np.int64), ends)


def check_labels(
    labels: Ragged, several: bool, num_classes: int, source: str, name: Callable[[int], str], may_hide: bool = False
) -> None:
    """Refuse labels that are no classes.

    Args:
        labels: the labels of each record.
        several: whether a record may have several.
        num_classes: labels must be below.
        source: where they stand.
        name: gives what a record is called.
        may_hide: whether a label may be IGNORE, as those of test images.

    Raises:
        InputError: naming the first record with such a label.
    """
    wrong = (labels.values < 0) | (labels.values >= num_classes)
    if may_hide:
        wrong &= labels.values != IGNORE
    if wrong.any():
        first = int(np.argmax(wrong))
        record = int(np.searchsorted(labels.ends, first, side="right")) - 1
        raise InputError(f"{name(record)} has label {labels.values[first]}, outside the {num_classes} classes")
    if not several:
        return
    vectors = has_vectors(labels.values, labels.ends, ["0", "1"])
    if vectors.any():
        raise InputError(
            f"{name(int(np.argmax(vectors)))} has a 0 or 1 for each class, expected the numbers of those that show"
        )
    check_told(source, {str(number) for number in np.unique(labels.values)}, labels.ends, num_classes)
