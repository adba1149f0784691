"""One path from bytes to pixels, the same in training, evaluation and prediction."""

import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from einops import rearrange
from PIL import Image
from torch import Tensor

from vit_lightning.data import deep_images
from vit_lightning.data.deep_images import DeepImage, check_size
from vit_lightning.data.exif import orientation, turned
from vit_lightning.data.pixel_form import NO_WHITE, SIXTEEN_BITS, PixelForm, ScaledValues, beyond_sixteen_bits
from vit_lightning.errors import InputError
from vit_lightning.files import open_regular

Result = TypeVar("Result")

BACKGROUND = (255, 255, 255)
"""Colour (red, green, blue) behind transparent pixels."""

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
UNKNOWN = "not an image of a known format"
DECODED = (Tensor, Image.Image, np.ndarray)
"""Images that need no decoder."""


class BrokenImage(InputError):  # noqa: N818
    """An image that cannot be shown as it was meant; holds its `name` and the `reason`."""

    def __init__(self, name: str, reason: str = "") -> None:
        # Pickling and a loader's worker pass the finished message alone.
        super().__init__(f"{name}: {reason}" if reason else name)
        self.name = name
        self.reason = reason


def load(image: Any, *, name: str, strict: bool = True, form: PixelForm = PixelForm()) -> Tensor:
    """Return any form of image that a set may hold as `(c, y, x)`, uint8 or as its form says.

    Args:
        image: encoded bytes, a file's path, a Pillow image, a tensor `(c, y, x)` or an array `(y, x, c)`, or `(y, x)`
            of grey. The last two hold uint8, or floats in [0, 1], which are rounded to 8 bits; with a window they hold
            any numbers.
        name: what to call the image in an error.
        strict: see `decode`.
        form: channels and window; without, encoded images get 3 channels, and others keep theirs.
    """
    match image:
        case Tensor():
            return _of_tensor(image, name, image.shape, ASKED, form)
        case np.ndarray():
            asked = "an image array must be uint8 or float (y, x, channels)"
            if isinstance(image, np.ma.MaskedArray):
                raise InputError(f"{name}: a masked array, whose masked pixels show nothing; fill them first")
            if image.ndim == 2 and image.dtype.kind in "uif":
                check_grey(image, name, form)
                image = image[..., None]
            if image.ndim != 3 or image.dtype.kind not in "uif" or image.dtype.itemsize > 8:
                raise InputError(f"{name}: {asked}, not {image.dtype} {image.shape}; convert it first")
            image = image.astype(image.dtype.newbyteorder("="), copy=False)  # torch knows this machine's order alone
            pixels = torch.from_numpy(np.ascontiguousarray(rearrange(image, "y x c -> c y x")))
            return _of_tensor(pixels, name, image.shape, asked, form)
        case Image.Image():
            return _guarded(lambda: _of_pillow(image, _encoded(form)), name)
        case bytes():
            return decode(image, name=name, strict=strict, form=form)
        case str() | Path():
            return decode(read(image, name=name), name=name, strict=strict, form=form)
        case _:
            raise InputError(f"{name}: an image of the type {type(image).__name__}; expected {FORMS}")


def check_grey(image: np.ndarray, name: str, form: PixelForm) -> None:
    """Refuse a grey array `(y, x)` where nobody says that images are grey, or what is white.

    Raises:
        InputError: naming all that is missing.
    """
    flags = ["--data.channels 1, or 3 to repeat the grey"] * (form.channels is None)
    flags += ["--data.window '[low,high]', the values that become black and white"] * (
        form.window is None and image.dtype.kind != "f" and image.dtype != np.uint8
    )
    if flags:
        raise InputError(f"{name}: a grey array (y, x) of {image.dtype} {image.shape} needs {'; and '.join(flags)}")


def own_channels(image: Any) -> int | None:
    """Return the channels of a tensor `(c, y, x)` or an array `(y, x, c)`; None of anything else."""
    if not isinstance(image, Tensor | np.ndarray) or image.ndim not in (2, 3):
        return None
    return 1 if image.ndim == 2 else int(image.shape[0 if isinstance(image, Tensor) else -1])


def deep_values(image: Any, *, name: str) -> np.ndarray | None:
    """Return the values of an image of more than 8 bits, which a window maps to [0, 1]; None for any other.

    Args:
        image: what a set may hold.
        name: what to call the image in an error.
    """
    match image:
        case Tensor() | np.ndarray():
            values = image.numpy() if isinstance(image, Tensor) else image
            return None if values.dtype == np.uint8 else values
        case Image.Image():
            found = _guarded(lambda: deep_images.of_pillow(image), name)
        case _:
            data = image if isinstance(image, bytes) else read(image, name=name)
            found = _guarded(lambda: deep_images.read(data), name)
    if found is None or found.values.dtype == np.uint8:
        return None
    return found.values[:-1] if found.has_alpha else found.values


def _of_tensor(image: Tensor, name: str, shape: Sequence[int], asked: str, form: PixelForm) -> Tensor:
    """Return a tensor `(c, y, x)` in a form.

    Args:
        image: the tensor.
        name: what to call the image in an error.
        shape: what to call its shape there.
        asked: what was expected.
        form: the form.
    """
    try:
        if form.window is not None and image.ndim == 3 and image.dtype != torch.uint8:
            return form.of_values(image.numpy())
        return form.of_bytes(_eight_bit_tensor(image, name, shape, asked))
    except ScaledValues as error:
        raise InputError(f"{name}: {error}") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        is_of_axes = str(error).startswith("has ")
        said = f" {error}; an array is (y, x, c), a tensor (c, y, x)" if is_of_axes else f": {error}"
        raise InputError(f"{name}{said}") from error


def _eight_bit_tensor(image: Tensor, name: str, shape: Sequence[int], asked: str) -> Tensor:
    """Return uint8 `(c, y, x)` of such a tensor, or of floats in [0, 1]: `_of_tensor` has the arguments."""
    if image.ndim != 3 or not (image.dtype == torch.uint8 or image.is_floating_point()):
        kind = str(image.dtype).removeprefix("torch.")
        is_deep = image.ndim == 3 and kind.lstrip("u").startswith("int")
        window = ", or say by --data.window '[low,high]' what becomes black and white" * is_deep
        raise InputError(f"{name}: {asked}, not {kind} {tuple(shape)}; convert it first{window}")
    if image.layout != torch.strided or image.is_meta:
        raise InputError(f"{name}: {asked}, not one that is sparse or has no values; convert it first")
    if not image.numel():
        raise BrokenImage(name, f"{tuple(shape)} holds no pixels")
    if image.dtype == torch.uint8:
        return image
    if not ((image >= 0) & (image <= 1)).all():
        bounds = f"from {image.min():g} to {image.max():g}; the model normalises, so leave that out"
        values = "that are NaN; leave it out, or give it numbers" if image.isnan().any() else bounds
        raise InputError(f"{name}: float images must lie in [0, 1], and this one has values {values}")
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


OF_SYSTEMS = frozenset(
    {
        *("__macosx", "thumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "lost+found"),
        *("@eadir", "#recycle", "#snapshot", "@recycle", "@recently-snapshot"),
    }
)
"""Files and folders of operating systems and of network storage, in small letters."""


def is_hidden(name: str) -> bool:
    """Tell whether a file or folder of that name was not put among the images by their owner."""
    return name.startswith(".") or name.lower() in OF_SYSTEMS


def decode(data: bytes, *, name: str, strict: bool = True, form: PixelForm = PixelForm()) -> Tensor:
    """Decode an encoded image of any format that Pillow reads, by its content and not by its name's ending.

    The EXIF orientation is applied, 16 bits are scaled to 8, gray, palette and CMYK become RGB, transparency is put on
    `BACKGROUND`, and of several frames the first is taken. With other channels than 3, grey and bands stay what they
    are; transparency is the last of 2 or 4 channels.

    Args:
        data: the whole file.
        name: what to call the image in an error.
        strict: refuse a JPEG that is whole but damaged inside; False: show it with the wrong or grey parts that a
            decoder makes up for it, as most libraries silently do.
        form: channels and window.

    Returns:
        uint8 `(3, y, x)`, or what the form says.

    Raises:
        BrokenImage: if the bytes are no image, are incomplete or damaged, claim more than `MAX_PIXELS` pixels, or have
            channels of which those asked for cannot be made.
    """
    if not data:
        raise BrokenImage(name, "the file is empty")
    return _guarded(lambda: _decode(data, strict, _encoded(form)), name)


def pixmap(pixels: Tensor) -> bytes:
    """Return uint8 `(3, y, x)` as a PPM: not compressed, so that a decoder only copies it."""
    header = b"P6\n%d %d\n255\n" % (pixels.shape[2], pixels.shape[1])
    return header + np.ascontiguousarray(rearrange(pixels, "c y x -> y x c").numpy()).tobytes()


def _encoded(form: PixelForm) -> PixelForm:
    return form if form.channels else replace(form, channels=3)


def _guarded(work: Callable[[], Result], name: str) -> Result:
    try:
        return work()
    except Image.UnidentifiedImageError as error:
        raise BrokenImage(name, str(error.args[0]) if isinstance(error, _UnknownBands) else UNKNOWN) from error
    except (ImportError, InputError):  # a missing decoder says nothing about the image
        raise
    except Exception as error:  # decoders meet damaged bytes with almost any exception
        said = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise BrokenImage(name, " ".join(said.split()) or type(error).__name__) from error


def _decode(data: bytes, strict: bool, form: PixelForm) -> Tensor:
    if not form.is_rgb and (deep := deep_images.read(data)) is not None:
        return _of_deep(deep, form)
    if header := PIXMAP.match(data):
        width, height = map(int, header.groups())
        return form.of_bytes(_decode_pixmap(data, width, height, header.end()))
    image = _open(data)
    check_size(image.width, image.height)
    if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
        pixels = _decode_jpeg(data, strict)
        if pixels is not None:
            return _upright(form.of_bytes(pixels[:1] if image.mode == "L" else pixels), image)
    if image.format == "PNG":
        image.verify()  # compares every checksum, which decoding does not
        image = Image.open(io.BytesIO(data))
    return _pixels(image, form)


def _open(data: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data))
    except Image.UnidentifiedImageError as error:
        if data.startswith(deep_images.TIFF):
            raise _UnknownBands(f"{UNKNOWN}; of a TIFF of several bands give their number: --data.channels") from error
        raise


class _UnknownBands(Image.UnidentifiedImageError):
    """A TIFF for which Pillow has no mode."""


def _of_deep(deep: DeepImage, form: PixelForm) -> Tensor:
    return turned(form.of_values(deep.values, deep.has_alpha), deep.orientation)


def _of_pillow(image: Image.Image, form: PixelForm) -> Tensor:
    deep = None if form.is_rgb else deep_images.of_pillow(image)
    return _pixels(image, form) if deep is None else _of_deep(deep, form)


def _decode_pixmap(data: bytes, width: int, height: int, begin: int) -> Tensor:
    check_size(width, height)
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


def _upright(pixels: Tensor, image: Image.Image) -> Tensor:
    return turned(pixels, orientation(image))


def _pixels(image: Image.Image, form: PixelForm) -> Tensor:
    if image.mode == "F":
        raise ValueError(NO_WHITE)
    shown = _eight_bits(image) if image.mode.startswith("I") else image
    return _upright(form.of_bytes(_bands(shown, form)), image)


def _bands(image: Image.Image, form: PixelForm) -> Tensor:
    """Return uint8 `(c, y, x)` of an image of 8 bits: its colours or its grey, on white or with the transparency."""
    mode, names, has_alpha = "RGB", image.getbands(), image.has_transparency_data
    is_grey = names[0] in ("L", "1", "I")
    if form.channels not in (1, 3):
        if has_alpha:
            mode = "LA" if is_grey and form.channels == 2 else "RGBA"
        elif len(names) == form.channels and image.mode != "CMYK":  # bands that a TIFF's reader has no name for
            mode = image.mode
        elif is_grey:
            mode = "L"
    elif has_alpha:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (*BACKGROUND, 255)), image)
    if form.channels == 1 and is_grey:
        mode = "L"
    values = np.array(image.convert(mode) if image.mode != mode else image)
    return torch.from_numpy(rearrange(values, "y x -> 1 y x" if values.ndim == 2 else "y x c -> c y x"))


def _eight_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if values.min() < 0 or values.max() > SIXTEEN_BITS:
        raise ValueError(beyond_sixteen_bits(values))
    return Image.fromarray(np.round(values / 257).astype(np.uint8))
