"""Images of more than 8 bits and of many bands, written with Pillow, tifffile and zlib, and computed anew by numpy."""

import io
import struct
import sys
import zlib

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from vit_lightning.data import deep_images
from vit_lightning.data.images import BrokenImage, decode, deep_values, load
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.errors import InputError

CHANCE = np.random.default_rng(0)
DEEP = CHANCE.integers(0, 65536, (5, 7), dtype=np.uint16)
BANDS = CHANCE.integers(0, 256, (6, 4, 5), dtype=np.uint8)


def saved(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def tiff(values: np.ndarray, **options) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, values, **options)
    return buffer.getvalue()


def png(values: np.ndarray, kind: int) -> bytes:
    """A PNG of 16 bits `(y, x, c)`, which Pillow does not write."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 16, kind, 0, 0, 0)
    return deep_images.PNG + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


FIVE = tiff(BANDS[:5], photometric="minisblack", planarconfig="separate")


def shown(data: bytes, channels: int | None = None, window=None) -> np.ndarray:
    return decode(data, name="picture", form=PixelForm(channels, window)).numpy()


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_a_window_keeps_what_eight_bits_would_lose(kind):
    data = saved(Image.fromarray(DEEP), kind)
    expected = np.clip((DEEP.astype(float) - 1000) / (41000 - 1000), 0, 1)
    found = shown(data, 1, (1000, 41000))
    assert found.dtype == np.float32
    assert found.shape == (1, 5, 7)
    np.testing.assert_allclose(found[0], expected, atol=1e-7)
    steps = np.array([[2000, 2001]], np.uint16)  # which 8 bits do not tell apart
    low, high = shown(saved(Image.fromarray(steps), kind), 1, (0, 4095))[0, 0]
    assert high - low == pytest.approx(1 / 4095, rel=1e-3)


def test_without_a_window_sixteen_bits_are_scaled_as_ever():
    data = saved(Image.fromarray(DEEP))
    expected = np.round(DEEP / 257)
    assert (shown(data, 1)[0] == expected).all()
    assert (shown(data) == expected).all()
    assert shown(data).shape == (3, 5, 7)


def test_grey_becomes_three_channels_in_a_window():
    found = shown(saved(Image.fromarray(DEEP)), None, (0, 65535))
    assert found.shape == (3, 5, 7)
    np.testing.assert_allclose(found, np.broadcast_to(DEEP / 65535, (3, 5, 7)), atol=1e-7)


def test_a_float_tiff_needs_a_window():
    values = CHANCE.normal(100, 300, (4, 6)).astype(np.float32)
    data = saved(Image.fromarray(values), "TIFF")
    with pytest.raises(BrokenImage, match=r"picture: floating-point pixels .* give --data.window '\[low,high\]'"):
        shown(data)
    expected = np.clip((values + 200) / 600, 0, 1)
    np.testing.assert_allclose(shown(data, 1, (-200, 400))[0], expected, atol=1e-6)
    np.testing.assert_allclose(shown(tiff(values), 1, (-200, 400))[0], expected, atol=1e-6)


def test_pixels_that_are_no_numbers_are_refused():
    with pytest.raises(BrokenImage, match="no finite numbers"):
        shown(saved(Image.fromarray(np.array([[np.nan, 1]], np.float32)), "TIFF"), 1, (0, 1))


def test_sixteen_bits_of_colours_are_not_cut_to_eight():
    values = CHANCE.integers(0, 65536, (3, 4, 3), dtype=np.uint16)
    for data in (png(values, 2), tiff(values, photometric="rgb")):
        found = shown(data, 3, (500, 60000))
        expected = np.clip((values.astype(float) - 500) / 59500, 0, 1).transpose(2, 0, 1)
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_transparency_of_sixteen_bits():
    values = CHANCE.integers(0, 65536, (3, 4, 4), dtype=np.uint16)
    data = png(values, 6)
    unit = np.clip(values / np.array([4095.0, 4095, 4095, 65535]), 0, 1).transpose(2, 0, 1)
    np.testing.assert_allclose(shown(data, 4, (0, 4095)), unit, atol=1e-7)
    white = unit[:3] * unit[3] + 1 - unit[3]
    np.testing.assert_allclose(shown(data, 3, (0, 4095)), white, atol=1e-6)
    grey = np.tensordot(np.array([0.299, 0.587, 0.114]), white, 1)
    np.testing.assert_allclose(shown(data, 1, (0, 4095))[0], grey, atol=1e-4)


@pytest.mark.parametrize("bands", [2, 4, 5, 6])
@pytest.mark.parametrize("planes", ["contig", "separate"])
def test_bands_of_a_tiff(bands, planes):
    values = BANDS[:bands]
    stored = values if planes == "separate" else values.transpose(1, 2, 0)
    data = tiff(stored, photometric="minisblack", planarconfig=planes)
    assert (shown(data, bands) == values).all()
    np.testing.assert_allclose(shown(data, bands, (0, 9)), values / 255, atol=1e-7)  # 8 bits are never windowed


def test_bands_of_sixteen_bits_and_floats():
    values = CHANCE.integers(0, 65536, (5, 4, 3), dtype=np.uint16)
    data = tiff(values, photometric="minisblack", planarconfig="separate")
    assert (shown(data, 5) == np.round(values / 257)).all()
    np.testing.assert_allclose(shown(data, 5, (0, 10000)), np.clip(values / 10000, 0, 1), atol=1e-7)
    floats = CHANCE.normal(size=(5, 4, 3))
    data = tiff(floats, photometric="minisblack", planarconfig="separate")
    np.testing.assert_allclose(shown(data, 5, (-1, 1)), np.clip((floats + 1) / 2, 0, 1), atol=1e-6)
    with pytest.raises(BrokenImage, match=r"give --data.window"):
        shown(data, 5)


def test_other_numbers_of_bands_name_file_and_flag():
    data = tiff(BANDS[:5], photometric="minisblack", planarconfig="separate")
    with pytest.raises(BrokenImage, match=r"^picture: has 5 channels, but --data.channels asks for 4$"):
        shown(data, 4)
    with pytest.raises(BrokenImage, match=r"has 5 channels, but --data.channels asks for 1"):
        shown(data, 1)
    with pytest.raises(BrokenImage, match=r"give their number: --data.channels"):
        shown(data)


def test_a_tiff_that_lies_on_its_side_is_turned():
    values = DEEP[:3, :5]
    data = tiff(values, extratags=[(274, 3, 1, 6, True)])
    assert (shown(data, 1, (0, 65535))[0] == np.float32(np.rot90(values, -1) / 65535)).all()


def test_tifffile_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "tifffile", None)
    with pytest.raises(InputError, match=r"vit-lightning\[tiff\]") as raised:
        shown(FIVE, 5)
    assert not isinstance(raised.value, BrokenImage)  # which may be skipped, a whole set of them
    assert shown(saved(Image.fromarray(DEEP), "TIFF"), 1, (0, 65535)).shape == (1, 5, 7)


def test_more_values_than_an_image_may_have_are_refused_before_they_are_decoded(monkeypatch):
    monkeypatch.setattr(deep_images, "MAX_VALUES", 99)
    with pytest.raises(BrokenImage, match="100 values are more than the 99 allowed"):
        shown(FIVE, 5)
    monkeypatch.setattr(deep_images, "MAX_PIXELS", 19)
    with pytest.raises(BrokenImage, match="5 x 4 pixels are more than"):
        shown(FIVE, 5)


@pytest.mark.parametrize("cut", [0.2, 0.6, 0.95])
def test_a_file_that_is_cut_off_is_broken(cut):
    values = CHANCE.integers(0, 65536, (40, 40, 3), dtype=np.uint16)
    wide = tiff(CHANCE.integers(0, 256, (5, 40, 40), dtype=np.uint8), photometric="minisblack", planarconfig="separate")
    for data, channels in ((png(values, 2), 3), (wide, 5), (saved(Image.fromarray(values[..., 0])), 1)):
        with pytest.raises(BrokenImage):
            shown(data[: int(len(data) * cut)], channels, (0, 4095))


def test_pixels_that_are_not_there_are_not_shown_as_black():
    values = CHANCE.integers(0, 256, (5, 64, 64), dtype=np.uint8)
    data = bytearray(tiff(values, photometric="minisblack", planarconfig="separate", rowsperstrip=16))
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        counts = file.pages[0].tags[279]
    data[counts.valueoffset : counts.valueoffset + 2] = bytes(2)  # of the first strip
    with pytest.raises(BrokenImage, match="some of its pixels are not there"):
        shown(bytes(data), 5)


def test_the_values_that_a_window_maps():
    assert (deep_values(saved(Image.fromarray(DEEP)), name="x") == DEEP).all()
    assert (deep_values(Image.fromarray(DEEP), name="x") == DEEP).all()
    assert (deep_values(DEEP[..., None], name="x")[..., 0] == DEEP).all()
    assert deep_values(FIVE, name="x") is None
    assert deep_values(saved(Image.new("RGB", (3, 2))), name="x") is None
    assert deep_values(png(CHANCE.integers(0, 65536, (3, 4, 4), dtype=np.uint16), 6), name="x").shape == (3, 3, 4)


def test_arrays_of_other_numbers_need_a_window():
    array = DEEP[..., None]
    with pytest.raises(InputError, match="must be uint8 or float"):
        load(array, name="x")
    found = load(array, name="x", form=PixelForm(None, (0, 4095)))
    np.testing.assert_allclose(found[0], np.clip(DEEP / 4095, 0, 1), atol=1e-7)
    floats = torch.tensor([[[-1.0, 3.0]]])
    assert load(floats, name="x", form=PixelForm(3, (-1, 3))).tolist() == [[[0.0, 1.0]]] * 3


def test_grey_with_transparency_of_sixteen_bits():
    values = CHANCE.integers(0, 65536, (3, 4, 2), dtype=np.uint16)
    unit = np.clip(values / np.array([4095.0, 65535]), 0, 1).transpose(2, 0, 1)
    np.testing.assert_allclose(shown(png(values, 4), 2, (0, 4095)), unit, atol=1e-7)
    white = unit[:1] * unit[1] + 1 - unit[1]
    np.testing.assert_allclose(shown(png(values, 4), 1, (0, 4095)), white, atol=1e-6)
    assert (deep_values(png(values, 4), name="x") == values[None, ..., 0]).all()


@pytest.mark.parametrize(("mode", "bands"), [("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4)])
def test_eight_bits_of_a_png_are_never_windowed(mode, bands):
    values = BANDS[:bands]
    image = Image.fromarray(values[0] if bands == 1 else values.transpose(1, 2, 0).copy(), mode)
    np.testing.assert_allclose(shown(saved(image), bands, (0, 9)), values / 255, atol=1e-7)
    assert deep_values(saved(image), name="x") is None


@pytest.mark.parametrize(("orientation", "turned"), [(3, 2), (6, -1), (8, 1)])
def test_bands_that_lie_on_their_side_are_turned(orientation, turned):
    data = tiff(
        BANDS[:5], photometric="minisblack", planarconfig="separate", extratags=[(274, 3, 1, orientation, True)]
    )
    assert (shown(data, 5) == np.rot90(BANDS[:5], turned, axes=(1, 2))).all()


def test_a_strip_that_the_file_does_not_list_is_not_shown_as_black():
    values = CHANCE.integers(0, 256, (5, 64, 64), dtype=np.uint8)
    data = bytearray(tiff(values, photometric="minisblack", planarconfig="separate", rowsperstrip=16))
    assert (shown(bytes(data), 5) == values).all()
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        tags = [file.pages[0].tags[number] for number in (273, 279)]
    for tag in tags:
        struct.pack_into("<I", data, tag.offset + 4, tag.count - 1)
    with pytest.raises(BrokenImage, match="some of its pixels are not there"):
        shown(bytes(data), 5)


@pytest.mark.parametrize(("kind", "bands"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_a_png_whose_last_rows_are_missing_is_broken(kind, bands):
    """Its checksums are right, and torchvision would end the process."""
    values = CHANCE.integers(0, 65536, (40, 40, bands), dtype=np.uint16)
    whole, part = png(values, kind), png(values[:39], kind)
    header = slice(len(deep_images.PNG), len(deep_images.PNG) + 25)
    rows = 40 * (1 + 40 * bands * 2)
    with pytest.raises(BrokenImage, match=f"ends after {rows * 39 // 40} of {rows} bytes of rows"):
        shown(part[: header.start] + whole[header] + part[header.stop :], bands, (0, 4095))


def test_a_tiff_of_other_numbers_is_refused():
    with pytest.raises(BrokenImage, match=r"a TIFF of complex64 with the axes \w+, expected numbers"):
        shown(tiff(np.ones((5, 3, 4), np.complex64), photometric="minisblack", planarconfig="separate"), 5)


@pytest.mark.parametrize(("value", "said"), [(-1, "from -1 to 7"), (65536, "from 7 to 65536")])
def test_whole_numbers_beyond_sixteen_bits_need_a_window(value, said):
    values = np.array([[[7, value]]], np.int32)
    with pytest.raises(ValueError, match=f"integer pixels {said} exceed 16 bits; give --data.window"):
        PixelForm(1).of_values(values)
    assert PixelForm(1, (-1, 65536)).of_values(np.array([[[-1, 65536]]], np.int32)).tolist() == [[[0, 1]]]
    assert PixelForm(1).of_values(np.array([[[0, 65535]]], np.int32)).tolist() == [[[0, 255]]]


@pytest.mark.parametrize("data", [FIVE, saved(Image.fromarray(DEEP)), png(DEEP[..., None].repeat(3, 2), 2)], ids=len)
def test_an_image_may_have_as_many_pixels_and_values_as_the_limits_say(data, monkeypatch):
    expected = deep_images.read(data).values
    pixels = expected[0].size
    monkeypatch.setattr(deep_images, "MAX_PIXELS", pixels)
    monkeypatch.setattr(deep_images, "MAX_VALUES", expected.size)
    assert (deep_images.read(data).values == expected).all()
    monkeypatch.setattr(deep_images, "MAX_PIXELS", pixels - 1)
    with pytest.raises(ValueError, match=f" pixels are more than the {pixels - 1} allowed"):
        deep_images.read(data)
