"""Images whose values 8 bits or Pillow's modes do not hold: 16 bits, floats, and TIFFs of any number of bands."""

import io
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from PIL import Image

from vit_lightning.data.exif import orientation
from vit_lightning.data.png_rows import PNG, check_rows
from vit_lightning.errors import InputError

TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
JPEG = b"\xff\xd8"
SAMPLES, BITS, ORIENTATION = 277, 258, 274
"""Tags of a TIFF."""
GREY, GREY_ALPHA, COLOUR_ALPHA = 0, 4, 6
"""A PNG's kinds of colour."""
MAX_PIXELS = 89_478_485
"""Larger images are refused before their pixels are decoded: a small file can claim any size (Pillow's own limit)."""
MAX_VALUES = 4 * MAX_PIXELS
"""Values of all bands together, likewise."""


class DeepImage(NamedTuple):
    """The values of an image as its file holds them."""

    values: np.ndarray
    """`(c, y, x)`, any kind of number."""
    has_alpha: bool = False
    """Whether the last channel is transparency."""
    orientation: int = 1
    """As EXIF counts it."""


def read(data: bytes) -> DeepImage | None:
    """Return the values of an encoded image of more than 8 bits or of bands that Pillow has no mode for, else None.

    Raises:
        InputError: the optional tifffile is needed and not installed.
        Exception: of any kind, if the image is damaged or too large.
    """
    if data.startswith(PNG):
        return _png(data) if data[24:25] == b"\x10" else None
    if data.startswith(TIFF):
        return _tiff(data)
    if data.startswith(JPEG):
        return None
    return of_pillow(Image.open(io.BytesIO(data)))


def of_pillow(image: Image.Image) -> DeepImage | None:
    """Return the values of an image of 16 bits, 32 bits or floats, None for those of 8 bits."""
    if not image.mode.startswith(("I", "F")):
        return None
    check_size(image.width, image.height)
    values = np.asarray(image)
    values = rearrange(values.astype(values.dtype.newbyteorder("=")), "y x -> 1 y x")
    return DeepImage(values, orientation=orientation(image))


def check_size(width: int, height: int) -> None:
    """Raise ValueError for an image of too many pixels."""
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels are more than the {MAX_PIXELS} allowed")


def _png(data: bytes) -> DeepImage:
    image = Image.open(io.BytesIO(data))
    check_size(image.width, image.height)
    image.verify()  # compares every checksum, which decoding does not
    image = Image.open(io.BytesIO(data))
    check_rows(data)
    kind = data[25]
    if kind == GREY:
        values = rearrange(np.asarray(image).astype(np.uint16), "y x -> 1 y x")
        return DeepImage(values, orientation=orientation(image))
    from torchvision.io import ImageReadMode, decode_png  # Pillow cuts 16 bits of colours to 8

    values = decode_png(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.UNCHANGED)
    return DeepImage(values.numpy(), kind in (GREY_ALPHA, COLOUR_ALPHA), orientation(image))


def _tiff(data: bytes) -> DeepImage | None:
    try:
        image = Image.open(io.BytesIO(data))
    except Image.UnidentifiedImageError:  # bands that Pillow has no mode for
        return _by_tifffile(data)
    tags: Any = image.tag_v2  # type: ignore[attr-defined]  # of a TIFF
    samples, bits = tags.get(SAMPLES, 1), max(tags.get(BITS, (1,)))
    if samples == 1:
        return of_pillow(image)
    return None if samples == len(image.getbands()) and bits <= 8 else _by_tifffile(data)


def _by_tifffile(data: bytes) -> DeepImage:
    try:
        import tifffile
    except ImportError as error:
        raise InputError(
            'TIFFs of several bands, or of colours with 16 bits, need tifffile: pip install "vit-lightning[tiff]"'
        ) from error
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        page: Any = file.pages[0]
        check_size(page.imagewidth, page.imagelength)
        if page.size > MAX_VALUES:
            raise ValueError(f"{page.size} values are more than the {MAX_VALUES} allowed")
        parts = list(zip(page.dataoffsets, page.databytecounts, strict=True))
        lacks = any(not count or begin + count > len(data) for begin, count in parts)
        if lacks or len(parts) < prod(page.chunked):  # tifffile would show them as zeros
            raise ValueError("some of its pixels are not there")
        values, axes, tag = page.asarray(), page.axes, page.tags.get(ORIENTATION)
    patterns = {"YX": "y x -> 1 y x", "YXS": "y x c -> c y x", "SYX": "c y x -> c y x"}
    if axes not in patterns or values.dtype.kind not in "uif":
        raise ValueError(f"a TIFF of {values.dtype} with the axes {axes}, expected numbers with rows and columns")
    values = rearrange(values.astype(values.dtype.newbyteorder("=")), patterns[axes])
    return DeepImage(values, orientation=int(tag.value) if tag else 1)
