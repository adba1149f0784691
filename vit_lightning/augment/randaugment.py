"""RandAugment (arXiv 1909.13719) with the operations and levels of the recipes: big_vision's `randaug`.

The levels are TensorFlow's, not torchvision's: a magnitude of 10 is full strength, AugReg goes on to 20, and a
magnitude of 0 is not the identity. Rotations, shears and translations take the nearest pixel; what comes in is grey
(128). Source: big_vision's archived `autoaugment.py`. Its translations and cutouts are in pixels and made
for images of 224; smaller images have smaller ones here, since at 32 pixels full strength would leave nothing of every
second one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from einops import rearrange
from torch import Tensor
from torch.nn.functional import avg_pool2d
from torchvision.transforms.v2 import functional as F

from vit_lightning.errors import InputError

SIDE = 224
"""Least side of an image, in pixels, for translations and cutouts of their whole length."""
GREY = 128
"""What fills the places that an operation leaves empty."""


def grey(dtype: torch.dtype) -> float:
    """Return that grey for images of uint8, or of floats in [0, 1]."""
    return GREY if dtype == torch.uint8 else GREY / 255


Row = tuple[float, float, float]
Op = Callable[[Tensor, float, Tensor], Tensor]
"""Operation on uint8 `(..., c, y, x)`, a share of full strength, and uniform numbers `(..., 2)`."""


def apply(name: str, images: Tensor, magnitude: float, sign: int = 1, place: Tensor | None = None) -> Tensor:
    """Return an image, or every image of a batch, changed by one operation.

    The host never waits for the device, but to send it an operation's geometry the first time.

    Args:
        name: one of OPS.
        images: uint8 `(c, y, x)` or `(b, c, y, x)`, of 1 or 3 channels.
        magnitude: strength; 10 is full.
        sign: 1 or -1, the direction of a rotation, shear or translation.
        place: middle of Cutout's window in each image, `(2,)` or `(b, 2)` in [0, 1), rows first; None draws it from
            torch's generator.
    """
    check_channels(images)
    place = torch.rand(*images.shape[:-3], 2) if place is None else place
    return OPS[name](images, magnitude / 10 * (sign if name in DIRECTED else 1), place)


def check_channels(images: Tensor) -> Tensor:
    """Return images `(..., c, y, x)` that colour operations can change, or raise InputError."""
    if images.shape[-3] not in (1, 3):
        raise InputError(
            f"RandAugment and TrivialAugment need images of 1 or 3 channels, not {images.shape[-3]}; turn "
            "--data.augment.preset, rand_augment and trivial_augment off, or convert the images"
        )
    return images


@dataclass(frozen=True)
class RandAugment:
    """Change a uint8 image `(c, y, x)` by some operations, each drawn from all sixteen and always applied.

    Args:
        layers: operations one after the other.
        magnitude: strength of each; 10 is full.
    """

    layers: int = 2
    magnitude: float = 10.0

    def __call__(self, image: Tensor) -> Tensor:
        for _ in range(self.layers):
            which, side, *place = torch.rand(4).tolist()
            name = list(OPS)[int(which * len(OPS))]
            image = apply(name, image, self.magnitude, 1 if side < 0.5 else -1, torch.tensor(place))
        return image


def _rotate(images: Tensor, share: float, place: Tensor) -> Tensor:
    cos, sin = math.cos(math.radians(30 * share)), math.sin(math.radians(30 * share))
    y, x = ((side - 1) / 2 for side in images.shape[-2:])
    return _resample(images, (cos, -sin, x - cos * x + sin * y), (sin, cos, y - sin * x - cos * y))


def _resample(images: Tensor, row_x: Row, row_y: Row) -> Tensor:
    """Take for the pixel at (x, y) the one nearest to the two rows of a matrix times (x, y, 1)."""
    source, inside = _sources(images.shape[-2:], row_x, row_y, images.device)
    return torch.where(inside, rearrange(images, "... y x -> ... (y x)")[..., source], GREY)


@lru_cache(maxsize=64)
def _sources(size: tuple[int, int], row_x: Row, row_y: Row, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return for every place `(y, x)` of an image the number of the pixel to take, and whether there is one.

    Kept, since a recipe has ten of them, which a GPU computes more slowly than it changes the pixels of small images.
    """
    height, width = size
    x, y = torch.arange(width), rearrange(torch.arange(height), "y -> y 1")
    from_x, from_y = (_round(a * x + b * y + c) for a, b, c in (row_x, row_y))
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    source = from_y.clamp(0, height - 1) * width + from_x.clamp(0, width - 1)
    if device.type == "cuda":  # else the host would wait for the copy
        source, inside = source.pin_memory(), inside.pin_memory()
    return source.to(device, non_blocking=True), inside.to(device, non_blocking=True)


def _round(values: Tensor) -> Tensor:
    """Round halves away from 0, as TensorFlow does; a shear by 0.3 has many."""
    return (values + 0.5 * values.sign()).long()


def _posterize(images: Tensor, share: float, place: Tensor) -> Tensor:
    # TensorFlow shifts by at most 7 bits, so that the highest bit always stays.
    return F.posterize(images, min(8, max(1, int(4 * share))))


def _solarize(images: Tensor, share: float, place: Tensor) -> Tensor:
    # TensorFlow keeps the threshold in 8 bits: at magnitudes 10 and 20 it is 0, which inverts every pixel, at 15 128
    # (found by running the recipe's graph under TensorFlow 2.15).
    return F.solarize(images, int(256 * share) % 256)


def _solarize_add(images: Tensor, share: float, place: Tensor) -> Tensor:
    brighter = (images.short() + int(110 * share)).clamp(max=255).to(torch.uint8)
    return torch.where(images < 128, brighter, images)


def _sharpness(images: Tensor, share: float, place: Tensor) -> Tensor:
    """Blend with a smoothed image, to which a pixel gives 5/13 and each neighbour 1/13; the border stays.

    torchvision's `adjust_sharpness` is not used, since it sends its kernel to the device and waits.
    """
    if min(images.shape[-2:]) < 3:
        return images
    out = images.float()
    inner = out[..., 1:-1, 1:-1]
    smooth = (avg_pool2d(out, 3, stride=1, divisor_override=1) + 4 * inner).div(13, rounding_mode="floor")
    inner.copy_(smooth + _factor(share) * (inner - smooth))
    return out.clamp(0, 255).to(torch.uint8)


def _cutout(images: Tensor, share: float, place: Tensor) -> Tensor:
    near = []
    for axis, side in enumerate(images.shape[-2:]):
        half = int(40 * share * min(side / SIDE, 1))
        middle = (place[..., axis] * side).long().to(images.device, non_blocking=True)
        offset = torch.arange(side, device=images.device) - rearrange(middle, "... -> ... 1")
        near.append((-half <= offset) & (offset < half))
    window = rearrange(near[0], "... y -> ... 1 y 1") & rearrange(near[1], "... x -> ... 1 1 x")
    return images.masked_fill(window, GREY)


def _shift(images: Tensor, share: float, axis: int) -> float:
    return 100 * share * min(images.shape[axis] / SIDE, 1)


def _factor(share: float) -> float:
    """Weight of the image against its grey, flat, black or smoothed self; above 1 moves away from that."""
    return 1.8 * share + 0.1


OPS: dict[str, Op] = {
    "AutoContrast": lambda images, share, place: F.autocontrast(images),
    "Equalize": lambda images, share, place: F.equalize(images),
    "Invert": lambda images, share, place: F.invert(images),
    "Rotate": _rotate,
    "Posterize": _posterize,
    "Solarize": _solarize,
    "Color": lambda images, share, place: F.adjust_saturation(images, _factor(share)),
    "Contrast": lambda images, share, place: F.adjust_contrast(images, _factor(share)),
    "Brightness": lambda images, share, place: F.adjust_brightness(images, _factor(share)),
    "Sharpness": _sharpness,
    "ShearX": lambda images, share, place: _resample(images, (1, 0.3 * share, 0), (0, 1, 0)),
    "ShearY": lambda images, share, place: _resample(images, (1, 0, 0), (0.3 * share, 1, 0)),
    "TranslateX": lambda images, share, place: _resample(images, (1, 0, _shift(images, share, -1)), (0, 1, 0)),
    "TranslateY": lambda images, share, place: _resample(images, (1, 0, 0), (0, 1, _shift(images, share, -2))),
    "Cutout": _cutout,
    "SolarizeAdd": _solarize_add,
}
DIRECTED = {"Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY"}
"""Operations with two directions, one of which is drawn."""
