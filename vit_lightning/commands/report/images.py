"""Pictures of pixels as data: URIs, small enough for a page that one sends around."""

import base64
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

QUALITY = 82
SMALL = 128
"""Pixels up to which a side is kept without loss: enlarged pixels show every artefact."""


def shrunk(picture: "Image.Image", most: int) -> str:
    """Return a picture of at most so many pixels on a side; one much smaller is enlarged pixel by pixel."""
    picture = picture.convert("RGB")
    longest = max(picture.size)
    if longest > most:
        factor = most / longest
        picture = picture.resize([max(1, round(side * factor)) for side in picture.size], Image.Resampling.LANCZOS)
    elif (times := most // longest) > 1 and longest <= SMALL:
        picture = picture.resize([side * times for side in picture.size], Image.Resampling.NEAREST)
    is_small = longest <= SMALL
    content = BytesIO()
    if is_small:
        picture.save(content, "PNG", optimize=True)
    else:
        picture.save(content, "WEBP", quality=QUALITY)
    kind = "png" if is_small else "webp"
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"


def of_file(content: bytes, most: int) -> str:
    """Return an encoded picture likewise.

    Raises:
        ValueError: it is damaged.
    """
    try:
        with Image.open(BytesIO(content)) as picture:
            return shrunk(picture, most)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"a picture is damaged: {error}") from error


def of_array(values: Any, most: int) -> str:
    """Return numbers in [0, 1], `(y, x, 3)` or `(y, x)`, likewise."""
    pixels = (np.nan_to_num(np.asarray(values, float)).clip(0, 1) * 255).round().astype(np.uint8)
    return shrunk(Image.fromarray(pixels), most)
