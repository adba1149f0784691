"""What the markers of a JPEG say, for choosing those that a hardware decoder shows as libjpeg does."""

import re
from collections.abc import Iterator

import numpy as np
from PIL import ExifTags, Image

from vit_lightning.augment.per_image import Size
from vit_lightning.data.deep_images import MAX_PIXELS

START, END = b"\xff\xd8", b"\xff\xd9"
FRAME, SCAN, INTERVAL, APP0, APP1, APP2, ADOBE = 0xC0, 0xDA, 0xDD, 0xE0, 0xE1, 0xE2, 0xEE
OTHER_FRAMES = frozenset(range(0xC1, 0xD0)) - {0xC4}
"""Progressive, lossless, arithmetic and other ways of coding; 0xC4 defines Huffman tables."""
PICTURES = b"MPF\0"
"""Begin of a segment that lists further pictures in the file."""
LOST_SECTOR = bytes(128)
"""Zeros in a row that coded pixels hardly ever hold, but a lost sector of a disk does."""
UPRIGHT = re.compile(rb'tiff:Orientation="1"|<tiff:Orientation>1</tiff:Orientation>')
SAMPLINGS = ((0x11,), *((first, 0x11, 0x11) for first in (0x11, 0x21, 0x22, 0x12)))
"""Sampling of each component: grey, 4:4:4, 4:2:2, 4:2:0, 4:4:0, which hardware decodes."""


def plain_sides(data: bytes) -> Size | None:
    """Return height and width of a JPEG that any decoder shows alike, None for any other file or in doubt.

    It is baseline with one scan, grey or YCbCr, upright, and whole as far as its markers show: what ends early, holds
    a foreign marker or was overwritten with zeros is None. Damage that only decoding finds is not seen.

    Args:
        data: the whole file.
    """
    try:
        return _plain_sides(data)
    except (IndexError, ValueError):
        return None


def _plain_sides(data: bytes) -> Size | None:
    if data[:2] != START or data[-2:] != END:
        return None
    frame, interval, jfif, transform = b"", 0, False, None
    for kind, begin, end in _segments(data):
        body = data[begin:end]
        if kind == FRAME:
            if frame:
                return None
            frame = body
        elif kind == INTERVAL:
            interval = int.from_bytes(body)
        elif kind == APP0:
            jfif |= body.startswith(b"JFIF\0")
        elif kind == ADOBE and body.startswith(b"Adobe"):
            transform = body[11]
        elif kind in OTHER_FRAMES or (kind == APP1 and _may_turn(body)) or (kind == APP2 and body.startswith(PICTURES)):
            return None
        elif kind == SCAN:
            count = body[0]
            plain = _is_plain(frame, jfif, transform) and count == frame[5] and len(body) == 4 + 2 * count
            sides = _number(frame, 1), _number(frame, 3)
            return sides if plain and _is_whole(data, end, _intervals(frame, interval)) else None
    return None


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield marker, begin and end of each segment up to that of the first scan."""
    at = 2
    while True:
        if data[at] != 0xFF:
            raise ValueError
        kind, size = data[at + 1], _number(data, at + 2)
        at += 2 + size
        if size < 2 or at > len(data):
            raise ValueError
        yield kind, at - size + 2, at
        if kind == SCAN:
            return


def _number(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _is_plain(frame: bytes, jfif: bool, transform: int | None) -> bool:
    """Tell whether a frame has 8 bits, a size, known sampling and colours that are grey or YCbCr beyond doubt."""
    pixels = _number(frame, 1) * _number(frame, 3)
    components = [frame[at : at + 3] for at in range(6, len(frame), 3)]
    if frame[0] != 8 or not 0 < pixels <= MAX_PIXELS or len(components) != frame[5]:
        return False
    if tuple(sampling for _, sampling, _ in components) not in SAMPLINGS:
        return False
    # Without either header, libjpeg goes by the components' numbers.
    known = jfif or transform == 1 or [number for number, _, _ in components] == [1, 2, 3]
    return len(components) == 1 or (known and transform in (None, 1))


def _may_turn(body: bytes) -> bool:
    """Tell whether EXIF or XMP data may ask for a turned image."""
    if not body.startswith(b"Exif"):
        return b"Orientation" in UPRIGHT.sub(b"", body)
    exif = Image.Exif()
    try:
        exif.load(body)
        return exif.get(ExifTags.Base.Orientation, 1) != 1
    except Exception:  # damaged EXIF data raise almost anything
        return True


def _intervals(frame: bytes, interval: int) -> int:
    """Return the number of restart markers that a scan must hold, from the number of blocks between two of them."""
    if not interval:
        return 0
    across, down = (8, 8) if frame[5] == 1 else (8 * (frame[7] >> 4), 8 * (frame[7] & 15))
    blocks = -(-_number(frame, 1) // down) * -(-_number(frame, 3) // across)
    return -(-blocks // interval) - 1


def _is_whole(data: bytes, begin: int, restarts: int) -> bool:
    """Tell whether the coded pixels go on to the end of the file and hold no marker but their restarts in turn."""
    if data.find(LOST_SECTOR, begin) >= 0:
        return False
    coded = np.frombuffer(data, np.uint8, len(data) - len(END) - begin, begin)
    marks = np.flatnonzero(coded == 0xFF) + 1
    if not len(coded) or (len(marks) and marks[-1] == len(coded)):
        return False
    found = coded[marks]
    found = found[found != 0]
    return np.array_equal(found, 0xD0 + np.arange(restarts) % 8)
