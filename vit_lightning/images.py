"""One path from bytes to uint8 RGB, the same in training, evaluation and prediction."""

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from einops import rearrange
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.io import decode_jpeg

from vit_lightning.errors import InputError

BACKGROUND = (255, 255, 255)
"""Colour (red, green, blue) behind transparent pixels."""

MAX_PIXELS = 89_478_485
"""Larger images are refused before their pixels are decoded: a small file can claim any size (Pillow's own limit)."""


class BrokenImage(InputError):  # noqa: N818
    """An image that cannot be shown as it was meant; holds its `name` and the `reason`."""

    def __init__(self, name: str, reason: str = "") -> None:
        # Pickling and a loader's worker pass the finished message alone.
        super().__init__(f"{name}: {reason}" if reason else name)
        self.name = name
        self.reason = reason


def load(image: bytes | str | Path | Image.Image | Tensor, *, name: str) -> Tensor:
    """Return any form of image that a set may hold as uint8 `(c, y, x)`; encoded ones always have 3 channels.

    Args:
        image: encoded bytes, a file's path, a Pillow image, or a uint8 tensor `(c, y, x)`.
        name: what to call the image in an error.
    """
    match image:
        case Tensor():
            if image.dtype != torch.uint8 or image.ndim != 3:
                raise InputError(
                    f"{name}: an image tensor must be uint8 (channels, y, x), not "
                    f"{str(image.dtype).removeprefix('torch.')} {tuple(image.shape)}; convert it in the set"
                )
            return image
        case Image.Image():
            return _guarded(lambda: _pixels(image), name)
        case bytes():
            return decode(image, name=name)
        case _:
            try:
                data = Path(image).read_bytes()
            except OSError as error:
                raise BrokenImage(name, error.strerror or str(error)) from error
            return decode(data, name=name)


def decode(data: bytes, *, name: str) -> Tensor:
    """Decode an encoded image of any format that Pillow reads, by its content and not by its name's ending.

    The EXIF orientation is applied, 16 bits are scaled to 8, gray, palette and CMYK become RGB, transparency is put on
    `BACKGROUND`, and of several frames the first is taken.

    Args:
        data: the whole file.
        name: what to call the image in an error.

    Returns:
        uint8 `(3, y, x)`.

    Raises:
        BrokenImage: if the bytes are no image, are incomplete or damaged, or claim more than `MAX_PIXELS` pixels.
    """
    if not data:
        raise BrokenImage(name, "the file is empty")
    return _guarded(lambda: _decode(data), name)


def _guarded(work: Callable[[], Tensor], name: str) -> Tensor:
    try:
        return work()
    except Image.UnidentifiedImageError as error:
        raise BrokenImage(name, "not an image of a known format") from error
    except Exception as error:  # decoders meet damaged bytes with almost any exception
        raise BrokenImage(name, " ".join(str(error).split()) or type(error).__name__) from error


def _decode(data: bytes) -> Tensor:
    image = Image.open(io.BytesIO(data))
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels are more than the {MAX_PIXELS} allowed")
    if image.format == "JPEG" and image.mode == "RGB":
        with suppress(RuntimeError):  # the same pixels as below in less time; what it refuses, Pillow explains better
            return decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), apply_exif_orientation=True)
    if image.format == "PNG":
        image.verify()  # compares every checksum, which decoding does not
        image = Image.open(io.BytesIO(data))
    return _pixels(image)


def _pixels(image: Image.Image) -> Tensor:
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ValueError("floating-point pixels have no defined white; save them with 8 or 16 bits")
    if image.mode.startswith("I"):
        image = _eight_bits(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (*BACKGROUND, 255)), image)
    return rearrange(torch.from_numpy(np.array(image.convert("RGB"))), "y x c -> c y x")


def _eight_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(f"integer pixels from {values.min()} to {values.max()} exceed 16 bits")
    return Image.fromarray(np.round(values / 257).astype(np.uint8))
