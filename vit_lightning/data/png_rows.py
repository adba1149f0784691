"""Whether a PNG holds all of its rows: decoders show missing ones as black, and torchvision's ends the process."""

import struct
import zlib
from collections.abc import Iterator

PNG = b"\x89PNG\r\n\x1a\n"
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Numbers of a pixel by the kind of colour."""
PASSES = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1))
"""First row and step, first column and step of the parts of an interlaced image."""
AT_ONCE = 2**20
"""Bytes that are inflated at a time."""


def check_rows(data: bytes) -> None:
    """Raise ValueError for a PNG, whose chunks are sound, that holds less pixels than it says.

    Source: PNG specification (second edition), sections 4.5 and 8.
    """
    width, height, bits, kind, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    parts = PASSES if interlaced else ((0, 1, 0, 1),)
    needed = 0
    for row, rows, column, columns in parts:
        high, wide = -(-(height - row) // rows), -(-(width - column) // columns)
        if high > 0 and wide > 0:  # a part without pixels has no rows either
            needed += high * (1 + -(-wide * SAMPLES[kind] * bits // 8))
    if (found := _inflated(data, needed)) < needed:
        raise ValueError(f"the file ends after {found} of {needed} bytes of rows")


def _inflated(data: bytes, most: int) -> int:
    """Return how many bytes the image's data inflate to, counted up to `most`."""
    stream, found = zlib.decompressobj(), 0
    for part in _parts(data):
        while part and found < most:
            found += len(stream.decompress(part, AT_ONCE))
            part = stream.unconsumed_tail
    return found


def _parts(data: bytes) -> Iterator[bytes]:
    place = len(PNG)
    while place + 8 <= len(data):
        size, name = struct.unpack(">I4s", data[place : place + 8])
        if name == b"IDAT":
            yield data[place + 8 : place + 8 + size]
        place += 12 + size
