"""PNGs of every kind and size hold their rows, and one row less is noticed."""

import io
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vit_lightning.data import png_rows
from vit_lightning.data.png_rows import PASSES, check_rows

MODES = ["1", "L", "LA", "RGB", "RGBA", "P", "I;16"]
sides = st.integers(1, 20)


def encoded(mode: str, width: int, height: int) -> bytes:
    file = io.BytesIO()
    if mode == "I;16":
        Image.fromarray(np.arange(width * height, dtype=np.uint16).reshape(height, width)).save(file, "PNG")
    else:
        Image.new(mode, (width, height)).save(file, "PNG")
    return file.getvalue()


@given(st.sampled_from(MODES), sides, sides)
def test_what_pillow_writes_is_whole_and_one_row_more_is_not(mode, width, height):
    data = encoded(mode, width, height)
    check_rows(data)
    with pytest.raises(ValueError, match=r"the file ends after \d+ of \d+ bytes of rows"):
        check_rows(data[:20] + (height + 1).to_bytes(4, "big") + data[24:])


@given(sides, sides)
def test_the_parts_of_an_interlaced_image_are_all_of_its_pixels(width, height):
    """Each pixel lies in one part, and each row of a part begins with one byte more."""
    place = np.zeros((height, width), int)
    rows = 0
    for row, step, column, stride in PASSES:
        part = place[row::step, column::stride]
        part += 1
        rows += len(part) * (part.shape[1] > 0)
    assert (place == 1).all()
    data = bytearray(encoded("RGB", width, height))
    data[28] = 1
    stored = zlib.compress(bytes(rows + 3 * width * height))
    begin, end = data.index(b"IDAT") - 4, data.index(b"IEND") - 4
    data[begin:end] = len(stored).to_bytes(4, "big") + b"IDAT" + stored + bytes(4)
    check_rows(bytes(data))
    less = zlib.compress(bytes(rows + 3 * width * height - 1))
    data[begin : begin + 12 + len(stored)] = len(less).to_bytes(4, "big") + b"IDAT" + less + bytes(4)
    with pytest.raises(ValueError, match="ends after"):
        check_rows(bytes(data))


def test_many_chunks_are_one_stream_and_no_more_is_inflated_than_is_needed(monkeypatch):
    monkeypatch.setattr(png_rows, "AT_ONCE", 7)
    data = encoded("RGB", 9, 11)
    begin, end = data.index(b"IDAT") - 4, data.index(b"IEND") - 4
    stored = data[begin + 8 : end - 4]
    pieces = b"".join(
        len(stored[at : at + 3]).to_bytes(4, "big") + b"IDAT" + stored[at : at + 3] + bytes(4)
        for at in range(0, len(stored), 3)
    )
    check_rows(data[:begin] + pieces + data[end:])
    bomb = zlib.compress(bytes(10**8))
    huge = data[:begin] + len(bomb).to_bytes(4, "big") + b"IDAT" + bomb + bytes(4) + data[end:]
    assert png_rows._inflated(huge, 300) <= 307
