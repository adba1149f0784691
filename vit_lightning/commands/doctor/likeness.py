"""Which pictures look the same although their pixels differ: encoded again, or of another size."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from einops import reduce
from torch import Tensor
from torch.nn import functional as F

SIDE = 32
"""Pixels per side of the thumbnail that is compared; of smaller images too little is left to tell them apart."""
HASHED, SEEN = 8, 10
"""Frequencies per axis that the hash tells, and that a pattern holds."""
FLATTEST = 2.0
"""Levels by which a thumbnail must deviate from its mean, without which a picture has no pattern."""
FEW_BITS = 4
"""Most of the 64 bits by which hashes of like pictures differ."""
BANDS = (11, 11, 11, 11, 10, 10)
"""Bits of each part of a hash. Where `FEW_BITS` differ, two parts at least are equal."""
WINDOW = 64
"""Neighbours in a bucket with which a picture is compared, those of the nearest hashes; most buckets have fewer."""
AT_ONCE = 2**15
"""Pairs whose patterns are compared at once."""
ALIKE = 0.97
"""Least correlation of two patterns."""
COLOUR, SHAPE = 12, 0.06
"""Most levels by which the colours of quarters of like pictures differ, and most by which their ratios of sides do."""


def _cosines() -> np.ndarray:
    """The first `SEEN` rows of the discrete cosine transform of `SIDE` pixels."""
    angles = np.pi * (2 * np.arange(SIDE) + 1) * np.arange(SEEN)[:, None] / (2 * SIDE)
    return np.cos(angles) * np.sqrt(np.where(np.arange(SEEN) == 0, 1, 2) / SIDE)[:, None]


COSINES = _cosines()
HIGHER = np.add.outer(np.arange(SEEN), np.arange(SEEN)) > 0
"""Frequencies but the mean."""


class Print(NamedTuple):
    """What is kept of a picture, 119 bytes."""

    hash: int
    """Perceptual hash: whether each of the low frequencies is above their median (pHash)."""
    pattern: np.ndarray
    """Low frequencies without the mean, of length 127, int8 `(99,)`."""
    colour: np.ndarray
    """Mean of the first three channels in each quarter, uint8 `(12,)`."""


class Twins(NamedTuple):
    """For each record of several sets in turn, an earlier one that looks the same, or -1."""

    by_set: np.ndarray
    """The first one of each set `(sets, n)`."""
    contrary: np.ndarray
    """The first one of other classes `(n,)`."""


def fingerprint(pixels: Tensor) -> Print | None:
    """Return what to keep of a picture, uint8 `(c, y, x)`; None where it is too small or too flat to be compared."""
    if pixels.dtype != torch.uint8 or min(pixels.shape[1:]) < SIDE:
        return None
    small = F.interpolate(pixels[None, :3], (SIDE, SIDE), mode="bilinear", antialias=True)[0].double().numpy()
    frequencies = COSINES @ small.mean(0) @ COSINES.T
    pattern = frequencies[HIGHER]
    length = np.linalg.norm(pattern)
    if length < FLATTEST * SIDE:
        return None
    low = frequencies[:HASHED, :HASHED].ravel()
    bits = np.packbits(low > np.median(low[1:]))
    quarters = reduce(small, "c (y h) (x w) -> c (y x)", "mean", y=2, x=2)
    colour = np.resize(quarters.round().astype(np.uint8), 12)
    return Print(int.from_bytes(bits.tobytes()), (127 * pattern / length).round().astype(np.int8), colour)


class Prints:
    """The prints of a set's pictures, an entry per record.

    Args:
        size: number of records.
    """

    def __init__(self, size: int) -> None:
        self.known = np.zeros(size, dtype=bool)
        self.hashes = np.zeros(size, np.uint64)
        self.patterns = np.zeros((size, int(HIGHER.sum())), np.int8)
        self.colours = np.zeros((size, 12), np.uint8)

    def __setitem__(self, index: int, found: Print) -> None:
        self.known[index] = True
        self.hashes[index], self.patterns[index], self.colours[index] = found


def twins(prints: Sequence[Prints], sides: np.ndarray, digests: np.ndarray, classes: np.ndarray) -> Twins:
    """Find like pictures of several sets without comparing every two.

    Hashes are sorted by each two of their parts, and compared with their neighbours of equal parts.

    Args:
        prints: those of each set.
        sides: height and width of all records `(n, 2)`.
        digests: hash of their pixels `(n,)`; equal ones are passed over.
        classes: hash of their classes `(n,)`.
    """
    sizes = [len(each.known) for each in prints]
    size, of_set = sum(sizes), np.repeat(np.arange(len(prints)), sizes)
    ratios = np.log(sides.clip(min=1)).astype(np.float32) @ np.float32([1, -1])
    known, hashes, patterns, colours = (
        np.concatenate([getattr(each, name) for each in prints]) for name in ("known", "hashes", "patterns", "colours")
    )
    by_set, contrary = np.full((len(prints), size), size), np.full(size, size)
    for one, other in _near(hashes, np.flatnonzero(known)):
        a, b = np.minimum(one, other), np.maximum(one, other)
        alike = (digests[a] != digests[b]) & (np.abs(ratios[a] - ratios[b]) <= SHAPE)
        alike &= (np.abs(colours[a].astype(np.int16) - colours[b]) <= COLOUR).all(1)
        a, b = a[alike], b[alike]
        alike = (patterns[a].astype(np.float32) * patterns[b]).sum(1) >= ALIKE * 127**2
        a, b = a[alike], b[alike]
        np.minimum.at(by_set, (of_set[a], b), a)
        differs = classes[a] != classes[b]
        np.minimum.at(contrary, b[differs], a[differs])
    return Twins(np.where(by_set < size, by_set, -1), np.where(contrary < size, contrary, -1))


def _near(hashes: np.ndarray, records: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield records `(m,)` and `(m,)` whose hashes differ in `FEW_BITS` at most; a pair may come again.

    Equal hashes are neighbours in the first of the orders, and need no other.
    """
    ends = np.cumsum(BANDS)
    masks = [((1 << width) - 1) << (int(end) - width) for width, end in zip(BANDS, ends, strict=True)]
    for first, second in combinations(masks, 2):
        keys = hashes[records] & np.uint64(first | second)
        order = np.lexsort((hashes[records], keys))
        keys, sorted_records = keys[order], records[order]
        here = np.arange(len(keys))
        for offset in range(1, WINDOW + 1):
            here = here[here + offset < len(keys)]
            here = here[keys[here] == keys[here + offset]]
            if not len(here):
                break
            one, other = sorted_records[here], sorted_records[here + offset]
            bits = np.bitwise_count(hashes[one] ^ hashes[other])
            near = np.flatnonzero((bits <= FEW_BITS) & ((bits > 0) | (first == masks[0]) & (second == masks[1])))
            for start in range(0, len(near), AT_ONCE):
                some = near[start : start + AT_ONCE]
                yield one[some], other[some]
