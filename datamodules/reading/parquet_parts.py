"""What splits of Parquet files share: patients or the like, and pictures that were encoded again."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, pairwise
from math import gcd
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from datamodules.reading.beside_columns import may_group
from datamodules.reading.column_names import PATH_COLUMNS
from datamodules.reading.label_text import whole_number
from datamodules.reading.multihot import MultiHot
from datamodules.reading.parquet_rows import Rows, given_paths, open_table
from datamodules.reading.parquet_splits import rows_of
from vit_lightning.data import images as pictures
from vit_lightning.data.image_set import ImageSet
from vit_lightning.data.subsets import Subset
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted

CALLED = {"train": "training", "val": "validation", "test": "test"}
LOOKED_AT = 16
"""Pairs of pictures of one name that are compared."""
SIDE = 16
"""Pixels per side of the thumbnails that are compared."""
FLATTEST = 2.0
"""Levels by which a thumbnail must deviate from its mean, without which there is nothing to compare."""
NOISE, SHARE = 1.0, 0.1
"""Levels, and share of a thumbnail's own deviation, by which one picture in two encodings may differ on average."""
MANY = 0.1
"""Share of a split's images that are copies by mistake; fewer stand in published sets."""
LAST_NUMBER = re.compile(r"[0-9]+(?=[^0-9]*$)")
DENSE = 0.5
"""Share of the numbers up to the greatest that names have which count their images."""


class Part(NamedTuple):
    """The images of a split, as rows of files."""

    rows: Rows
    numbers: np.ndarray
    """Their numbers among these, from 0."""


def parts_of(sets: Mapping[str, ImageSet | None]) -> dict[str, Part]:
    """Return which rows each split has, without splits of no images."""
    return {split: _part(images) for split, images in sets.items() if images is not None}


def _part(images: Any) -> Part:
    numbers = np.arange(len(images))
    while not isinstance(images, Rows):
        if isinstance(images, Subset):
            numbers = images.indices[numbers]
        assert isinstance(images, Subset | MultiHot)
        images = images.source
    return Part(images, numbers)


def said_of_groups(parts: Mapping[str, Part], known: Collection[str | None]) -> list[str]:
    """Say which patients or the like have images that train and images that are scored.

    Args:
        parts: the images of each split.
        known: columns that hold something else.
    """
    if "train" not in parts:
        return []
    files = parts["train"].rows.files
    names = [name for name in open_table(files[0]).schema_arrow.names if name not in known]
    names = [name for name in names if all(name in open_table(file).schema_arrow.names for file in files)]
    column = may_group(names, lambda some: rows_of(files, some))
    if column is None:
        return []
    training = _values(parts["train"], column)
    said = []
    for split, part in parts.items():
        both = sorted(training & _values(part, column)) if split != "train" else []
        if both:
            have = f"{counted(len(both), 'value')} of which {'has' if len(both) == 1 else 'have'}"
            said.append(
                f"{files[0]} has the column {column}, {have} training and {CALLED[split]} images, such as "
                f"{both[0]!r:.60}; write all rows of one to the files of one split"
            )
    return said


def _values(part: Part, column: str) -> set[str]:
    """Return what stands in a column of the images of a split."""
    if any(column not in open_table(file).schema_arrow.names for file in part.rows.files):
        return set()
    cells = [cell for (cell,) in rows_of(part.rows.files, [column])]
    told = (cells[number] for number in part.numbers.tolist())
    return {whole_number(str(cell).strip()) for cell in told if cell is not None and cell == cell} - {""}


def said_of_copies(parts: Mapping[str, Part]) -> list[str]:
    """Say which images of other splits are training images by their names and the look of them.

    Many sets count their images anew in each split, and a camera that stands still takes pictures that look alike: of
    such names this is said alone.

    Raises:
        InputError: many are, by names that do not count the images; naming two rows.
    """
    said = []
    others = {split: part for split, part in parts.items() if split != "train"} if "train" in parts else {}
    training = _names(parts["train"]) if others else {}
    counted_names = _counted_names(training)
    for split, part in others.items() if training else ():
        found = _names(part)
        both = found.keys() & training.keys()
        anew = both & counted_names & _counted_names(found)
        own = [(training[name], row) for name, row in found.items() if name in both - anew]
        if what := _said_of_pairs(split, parts["train"].rows, part, own):
            if len(own) >= MANY * len(part.numbers):
                raise InputError(
                    f"{what}; leave the rows out of one of the files, or give --data.root files of {split} alone to "
                    "score what trained; if they are other pictures, give them other names in one of the files"
                )
            said.append(f"{what}; leave the rows out of one of the files")
        some = [(training[name], row) for name, row in found.items() if name in anew]
        if what := _said_of_pairs(split, parts["train"].rows, part, some):
            said.append(f"{what}; leave the rows out of one of the files, unless each counts its own images")
    return said


def _said_of_pairs(split: str, training: Rows, part: Part, pairs: Sequence[tuple[int, int]]) -> str:
    """Say that most of some pairs of a training row and another one look alike; nothing if they do not."""
    looked_at = pairs[:: -(-len(pairs) // LOOKED_AT) or 1]
    alike = [pair for pair in looked_at if _are_alike(training, pair[0], part.rows, pair[1])]
    if 2 * len(alike) < len(looked_at) or not alike:
        return ""
    first, second = alike[0]
    return (
        f"{part.rows.keys[second]} is a {CALLED[split]} image and {training.keys[first]} one that trains: they have "
        f"one name and look alike, as may {counted(len(pairs), 'pair')} among "
        f"{counted(len(part.numbers), f'{CALLED[split]} image')}"
    )


def _counted_names(names: Collection[str]) -> set[str]:
    """Return the names that count images from 0 or 1 on, perhaps in steps and with gaps, as 000.png and cat/1.jpg."""
    series: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for name in names:
        path = PurePosixPath(name.replace("\\", "/"))
        if number := LAST_NUMBER.search(path.stem):
            around = f"{path.parent}/{path.stem[: number.start()]}", path.stem[number.end() :]
            series[around][name] = int(number[0])
    found: set[str] = set()
    for some in series.values():
        numbers = sorted({*some.values()})
        step = gcd(*(after - before for before, after in pairwise(numbers))) or 1
        if numbers[0] <= step and DENSE * (numbers[-1] // step) <= len(numbers):
            found |= some.keys()
    return found


def _names(part: Part) -> dict[str, int]:
    """Return the row of each image that has a name of its own in a split, beside its bytes."""
    paths = list(chain.from_iterable(_paths(part.rows)))
    if len(paths) < len(part.rows):
        return {}
    told = [(paths[number], number) for number in part.numbers.tolist() if paths[number]]
    often = Counter(name for name, _ in told)
    return {name: number for name, number in told if often[name] == 1}


def _paths(rows: Rows) -> Sequence[Sequence[str | None]]:
    """Return what the rows of each file call their images; nothing of files that hold no bytes, or no names."""
    import pyarrow as pa

    found = []
    for file in rows.files:
        schema = open_table(file).schema_arrow
        kind = schema.field(rows.image).type
        if not pa.types.is_struct(kind) and not pa.types.is_binary(kind) and not pa.types.is_large_binary(kind):
            return []
        paths = given_paths(file, rows.image)
        column = next((name for name in PATH_COLUMNS if name in schema.names and name != rows.image), None)
        if not any(paths) and column is not None:
            paths = [cell if isinstance(cell, str) else None for (cell,) in rows_of([file], [column])]
        found.append(paths)
    return found


def _are_alike(one: Rows, first: int, other: Rows, second: int) -> bool:
    """Tell whether two images are one picture, perhaps of two sizes or encodings."""
    try:
        a, b = (
            _thumbnail(pictures.load(rows[row][0], name=rows.keys[row]))
            for rows, row in ((one, first), (other, second))
        )
    except InputError:  # whoever reads the images says what is wrong
        return False
    spread = float(a.std())
    return spread >= FLATTEST and float((a - b).abs().mean()) <= NOISE + SHARE * spread


def _thumbnail(image: Tensor) -> Tensor:
    return adaptive_avg_pool2d(image.float().mean(0, keepdim=True), SIDE)
