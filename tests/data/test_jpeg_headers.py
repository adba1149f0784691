"""Which JPEGs any decoder shows alike, by their markers."""

import io
import random

import pytest
from PIL import Image

from tests.data.test_images_damaged import (
    changed_byte,
    cut,
    cut_and_ended,
    damaged,
    other_file_to_the_end,
    photo,
    zeroed_sector,
    zeros_to_the_end,
)
from vit_lightning.data.images import BrokenImage, decode
from vit_lightning.data.jpeg_headers import plain_sides

SIDES = 120, 160


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return photo(exif=exif)


def with_segment(kind: int, body: bytes) -> bytes:
    data = photo()
    return data[:2] + bytes([0xFF, kind]) + (len(body) + 2).to_bytes(2) + body + data[2:]


def replaced(old: bytes, new: bytes) -> bytes:
    data = photo()
    assert data.count(old) == 1
    return data.replace(old, new)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "L"},
        {"optimize": True},
        {"restart_marker_rows": 1},
        *({"restart_marker_blocks": 3, "subsampling": kind} for kind in range(3)),
        {"restart_marker_blocks": 3, "mode": "L"},
        *({"subsampling": kind} for kind in range(3)),
        {"exif": turned(1)[24:24]},
        {"icc_profile": bytes(300)},
        {"xmp": b'<x tiff:Orientation="1"/>'},
    ],
    ids=str,
)
def test_plain_jpegs(options):
    assert plain_sides(photo(**options)) == SIDES


def test_an_upright_orientation_is_plain():
    assert plain_sides(turned(1)) == SIDES


@pytest.mark.parametrize(
    "data",
    [
        photo(progressive=True),
        photo("CMYK"),
        *map(turned, (2, 3, 6, 8)),
        photo(xmp=b'<x tiff:Orientation="6"/>'),
        photo(xmp=b"<tiff:Orientation>6</tiff:Orientation>"),
        photo(exif=b"Exif\0\0garbage"),
        photo(keep_rgb=True),
        with_segment(0xE2, b"MPF\0MM"),
        with_segment(0xEE, b"Adobe\0\x64\0\0\0\0\0"),  # says that the colours are RGB
        replaced(b"\xff\xc0\0\x11\x08", b"\xff\xc9\0\x11\x08"),  # arithmetic coding
        replaced(b"\xff\xc0\0\x11\x08", b"\xff\xc0\0\x11\x0c"),  # 12 bits
        replaced(b"\x08\0\x78\0\xa0\3", b"\x08\0\0\0\xa0\3"),  # no height yet
        replaced(b"\1\x22\0\2\x11", b"\1\x41\0\2\x11"),  # 4:1:0 and the like
        photo() + b"\0",
        photo()[:-2] + b"\xff\xff\xd9",
        photo()[:30],
        b"",
        b"\xff\xd8\xff\xd9",
        b"GIF89a" + photo()[6:],
    ],
    ids=range(22),
)
def test_what_is_left_to_libjpeg(data):
    assert plain_sides(data) is None


def test_other_formats_and_odd_files_of_the_kit(kit):
    for file in (kit / "odd-made").iterdir():
        assert plain_sides(file.read_bytes()) is None, file


def test_photographs_of_the_kit_have_the_sides_that_decoding_gives(kit):
    files = [file.read_bytes() for file in sorted((kit / "imagenet-sample/images").iterdir())]
    found = [plain_sides(data) for data in files]
    assert sum(sides is None for sides in found) <= 5
    for data, sides in list(zip(files, found, strict=True))[::10]:
        assert sides in (None, tuple(decode(data, name="photo").shape[1:]))


@pytest.mark.parametrize("options", [{}, {"mode": "L"}, {"restart_marker_rows": 1}, {"optimize": True}], ids=str)
@pytest.mark.parametrize("damage", [cut, zeros_to_the_end, other_file_to_the_end, zeroed_sector])
def test_damage_that_markers_show(damage, options):
    chance = random.Random(0)
    assert not any(plain_sides(damaged(photo(**options), damage, chance)) for _ in range(40))


def test_restart_markers_that_are_lost():
    data = photo(restart_marker_rows=1)
    for number in range(7):
        assert data.count(bytes([0xFF, 0xD0 + number])) == 1
        assert plain_sides(data.replace(bytes([0xFF, 0xD0 + number]), b"")) is None


def test_as_many_restarts_where_rows_and_columns_change_places():
    """A coded block of 4:2:2 has 16 x 8 pixels, one of 4:4:0 has 8 x 16 (ITU T.81, A.2)."""
    data, frame = photo(restart_marker_blocks=3, subsampling=1), b"\x08\0\x78\0\xa0\3\1\x21"
    assert data.count(frame) == 1
    assert plain_sides(data.replace(frame, b"\x08\0\xa0\0\x78\3\1\x12")) == (160, 120)
    assert plain_sides(data.replace(frame, b"\x08\0\x78\0\xa0\3\1\x12")) is None


def test_damage_that_only_decoding_finds_is_not_seen():
    """The limit of what is promised: libjpeg refuses these, the markers are in order."""
    chance = random.Random(0)
    unseen = [damaged(photo(), damage, chance) for damage in (cut_and_ended, changed_byte) for _ in range(20)]
    refused = 0
    for data in filter(plain_sides, unseen):
        try:
            decode(data, name="x")
        except BrokenImage:
            refused += 1
    assert refused


def test_any_bytes_have_an_answer():
    chance = random.Random(0)
    for _ in range(300):
        data = bytearray(photo(icc_profile=b"abc"))
        for _ in range(4):
            data[chance.randrange(700)] = chance.randrange(256)
        plain_sides(bytes(data))
    assert plain_sides(io.BytesIO().getvalue()) is None
