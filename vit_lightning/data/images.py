"""One path from bytes to uint8 RGB, the same in training, evaluation and prediction."""

import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from einops import rearrange
from PIL import ExifTags, Image
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.files import open_regular

BACKGROUND = (255, 255, 255)
"""Colour (red, green, blue) behind transparent pixels."""

MAX_PIXELS = 89_478_485
"""Larger images are refused before their pixels are decoded: a small file can claim any size (Pillow's own limit)."""

MAX_BYTES = 2**30
"""Larger files are refused before they are read: an image of `MAX_PIXELS` needs less in every format."""

PIXMAP = re.compile(rb"P6\n([1-9]\d{0,8}) ([1-9]\d{0,8})\n255\n")
"""How a binary PPM of 8 bits begins where nobody has put a comment: width, height, and then the pixels."""

HARMLESS = re.compile("subsampling|JFIF revision|Adobe|ICC|SOS parameters|progression")
"""Complaints of libjpeg-turbo that concern variants and headers, not the pixels."""

FORMS = (
    "encoded bytes, a path, a Pillow image, a tensor (channels, y, x) or a numpy array (y, x, channels), "
    "either of uint8 or of floats in [0, 1]"
)
"""What an image of a set may be, in words."""
ASKED = "an image tensor must be uint8 or float (channels, y, x)"
DECODED = (Tensor, Image.Image, np.ndarray)
"""Images that need no decoder."""

TURNS = {
    2: (False, (2,)),
    3: (False, (1, 2)),
    4: (False, (1,)),
    5: (True, ()),
    6: (True, (2,)),
    7: (True, (1, 2)),
    8: (True, (1,)),
}
"""What each EXIF orientation asks for: rows and columns swapped or not, then these axes of `(c, y, x)` reversed."""


class BrokenImage(InputError):  # noqa: N818
    """An image that cannot be shown as it was meant; holds its `name` and the `reason`."""

    def __init__(self, name: str, reason: str = "") -> None:
        # Pickling and a loader's worker pass the finished message alone.
        super().__init__(f"{name}: {reason}" if reason else name)
        self.name = name
        self.reason = reason


def load(image: bytes | str | Path | Image.Image | Tensor | np.ndarray, *, name: str, strict: bool = True) -> Tensor:
    """Return any form of image that a set may hold as uint8 `(c, y, x)`; encoded ones always have 3 channels.

    Args:
        image: encoded bytes, a file's path, a Pillow image, a tensor `(c, y, x)` or an array `(y, x, c)`. The last two
            hold uint8, or floats in [0, 1], which are rounded to 8 bits.
        name: what to call the image in an error.
        strict: see `decode`.
    """
    match image:
        case Tensor():
            return _eight_bit_tensor(image, name, image.shape, ASKED)
        case np.ndarray():
            asked = "an image array must be uint8 or float (y, x, channels)"
            if image.ndim != 3 or image.dtype.kind not in "uif":
                raise InputError(f"{name}: {asked}, not {image.dtype} {image.shape}; convert it in the set")
            pixels = torch.from_numpy(np.ascontiguousarray(rearrange(image, "y x c -> c y x")))
            return _eight_bit_tensor(pixels, name, image.shape, asked)
        case Image.Image():
            return _guarded(lambda: _pixels(image), name)
        case bytes():
            return decode(image, name=name, strict=strict)
        case str() | Path():
            return decode(read(image, name=name), name=name, strict=strict)
        case _:
            raise InputError(f"{name}: an image of the type {type(image).__name__}; expected {FORMS}")


def _eight_bit_tensor(image: Tensor, name: str, shape: Sequence[int], asked: str) -> Tensor:
    """Return uint8 `(c, y, x)` of such a tensor, or of floats in [0, 1].

    Args:
        image: the tensor.
        name: what to call the image in an error.
        shape: what to call its shape there.
        asked: what was expected.
    """
    if image.ndim != 3 or not (image.dtype == torch.uint8 or image.is_floating_point()):
        kind = str(image.dtype).removeprefix("torch.")
        raise InputError(f"{name}: {asked}, not {kind} {tuple(shape)}; convert it in the set")
    if image.layout != torch.strided or image.is_meta:
        raise InputError(f"{name}: {asked}, not one that is sparse or has no values; convert it in the set")
    if not image.numel():
        raise BrokenImage(name, f"{tuple(shape)} holds no pixels")
    if image.dtype == torch.uint8:
        return image
    if not ((image >= 0) & (image <= 1)).all():
        raise InputError(
            f"{name}: float images must lie in [0, 1], and this one has values from {image.min():g} to "
            f"{image.max():g}; the model normalises, so leave that out of the set"
        )
    return (image * 255).round().to(torch.uint8)


def read(path: str | Path, *, name: str) -> bytes:
    """Return the content of an image file, or raise BrokenImage."""
    try:
        with open_regular(path) as file:
            check_bytes(os.fstat(file.fileno()).st_size, name)
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: no path may hold a zero byte
        if isinstance(error, BrokenImage):
            raise
        raise BrokenImage(name, getattr(error, "strerror", None) or str(error)) from error
    check_bytes(len(data), name)
    return data


def check_bytes(size: int, name: str) -> None:
    """Raise BrokenImage for a file that is too large to be one image."""
    if size > MAX_BYTES:
        raise BrokenImage(name, f"{size:,} bytes are more than the {MAX_BYTES:,} that an image may have")


def is_hidden(name: str) -> bool:
    """Tell whether a file or folder of that name was not put among the images by their owner."""
    return name.startswith(".") or name in ("__MACOSX", "Thumbs.db", "desktop.ini")


def decode(data: bytes, *, name: str, strict: bool = True) -> Tensor:
    """Decode an encoded image of any format that Pillow reads, by its content and not by its name's ending.

    The EXIF orientation is applied, 16 bits are scaled to 8, gray, palette and CMYK become RGB, transparency is put on
    `BACKGROUND`, and of several frames the first is taken.

    Args:
        data: the whole file.
        name: what to call the image in an error.
        strict: refuse a JPEG that is whole but damaged inside; False: show it with the wrong or grey parts that a
            decoder makes up for it, as most libraries silently do.

    Returns:
        uint8 `(3, y, x)`.

    Raises:
        BrokenImage: if the bytes are no image, are incomplete or damaged, or claim more than `MAX_PIXELS` pixels.
    """
    if not data:
        raise BrokenImage(name, "the file is empty")
    return _guarded(lambda: _decode(data, strict), name)


def pixmap(pixels: Tensor) -> bytes:
    """Return uint8 `(3, y, x)` as a PPM: not compressed, so that a decoder only copies it."""
    header = b"P6\n%d %d\n255\n" % (pixels.shape[2], pixels.shape[1])
    return header + np.ascontiguousarray(rearrange(pixels, "c y x -> y x c").numpy()).tobytes()


def _guarded(work: Callable[[], Tensor], name: str) -> Tensor:
    try:
        return work()
    except Image.UnidentifiedImageError as error:
        raise BrokenImage(name, "not an image of a known format") from error
    except ImportError:  # a missing decoder says nothing about the image
        raise
    except Exception as error:  # decoders meet damaged bytes with almost any exception
        said = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise BrokenImage(name, " ".join(said.split()) or type(error).__name__) from error


def _decode(data: bytes, strict: bool) -> Tensor:
    if header := PIXMAP.match(data):
        width, height = map(int, header.groups())
        return _decode_pixmap(data, width, height, header.end())
    image = Image.open(io.BytesIO(data))
    _check_size(image.width, image.height)
    if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
        pixels = _decode_jpeg(data, strict)
        if pixels is not None:
            return _upright(pixels, image)
    if image.format == "PNG":
        image.verify()  # compares every checksum, which decoding does not
        image = Image.open(io.BytesIO(data))
    return _pixels(image)


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels are more than the {MAX_PIXELS} allowed")


def _decode_pixmap(data: bytes, width: int, height: int, begin: int) -> Tensor:
    _check_size(width, height)
    pixels = np.frombuffer(data, np.uint8)[begin : begin + 3 * width * height]
    if len(pixels) < 3 * width * height:
        raise ValueError(f"the file ends after {len(pixels)} of {3 * width * height} bytes of pixels")
    return rearrange(torch.from_numpy(pixels.copy()), "(y x c) -> c y x", x=width, c=3)


def _decode_jpeg(data: bytes, strict: bool) -> Tensor | None:
    """Decode with libjpeg-turbo itself, which is faster than through Pillow and does not hide its warnings.

    Returns:
        What Pillow would, or None if Pillow should try: it knows more variants, and keeps its warnings to itself.

    Raises:
        ValueError: if `strict` and pixels are missing, or may be read from the wrong place.
    """
    from simplejpeg import decode_jpeg  # here, since sets of tensors do without

    try:
        return rearrange(torch.from_numpy(decode_jpeg(data)), "y x c -> c y x")
    except ValueError as error:
        if strict and not HARMLESS.search(str(error)):
            raise
        return None


def orientation(image: Image.Image) -> int:
    """Return the EXIF orientation of an image, 1 (upright) if it has none."""
    try:
        found = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # damaged EXIF data do not matter to the picture
        return 1
    return found if found in TURNS else 1


def _upright(pixels: Tensor, image: Image.Image) -> Tensor:
    turn = TURNS.get(orientation(image))
    if turn is None:
        return pixels
    swapped, reversed_axes = turn
    return (pixels.mT if swapped else pixels).flip(reversed_axes)


def _pixels(image: Image.Image) -> Tensor:
    if image.mode == "F":
        raise ValueError("floating-point pixels have no defined white; save them with 8 or 16 bits")
    shown = _eight_bits(image) if image.mode.startswith("I") else image
    if shown.has_transparency_data:
        shown = shown.convert("RGBA")
        shown = Image.alpha_composite(Image.new("RGBA", shown.size, (*BACKGROUND, 255)), shown)
    return _upright(rearrange(torch.from_numpy(np.array(shown.convert("RGB"))), "y x c -> c y x"), image)


def _eight_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(f"integer pixels from {values.min()} to {values.max()} exceed 16 bits")
    return Image.fromarray(np.round(values / 257).astype(np.uint8))
