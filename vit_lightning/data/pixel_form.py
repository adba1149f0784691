"""What every image of a run becomes: how many channels it has, and which of its values are black and white."""

from dataclasses import dataclass

import numpy as np
import torch
from einops import einsum, rearrange, repeat
from torch import Tensor

LUMINANCE = (19595, 38470, 7471)
"""Weights of red, green and blue over 65536 (ITU-R 601-2), with Pillow's rounding."""
SIXTEEN_BITS = 65535
NO_WHITE = (
    "floating-point pixels have no defined white; give --data.window '[low,high]', or save them with 8 or 16 bits"
)
BANDS_BEFORE_ALPHA = (1, 3)
"""Numbers of channels that a channel of transparency may follow."""
WIDE = 64
"""Width of a window from which on an image within [0, 1] shows nothing: four of 256 greys at most."""


class ScaledValues(ValueError):  # noqa: N818
    """Values within [0, 1], where a window asks for raw counts."""


@dataclass(frozen=True)
class PixelForm:
    """Channels and values of the images that the model sees.

    Args:
        channels: their number; None: 3 of an encoded image, and of any other its own.
        window: values of images of more than 8 bits that become 0 and 1; None: 16 bits are scaled to 8. With it, every
            image becomes float32 in [0, 1].
        asked: who wants that many channels, in words; empty: --data.channels.
        counts: refuse floats within [0, 1] where the window is much wider, since they are hardly the raw counts that
            it maps.
    """

    channels: int | None = None
    window: tuple[float, float] | None = None
    asked: str = ""
    counts: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers that an image is made of."""
        return torch.uint8 if self.window is None else torch.float32

    @property
    def is_rgb(self) -> bool:
        """Whether encoded images become uint8 with 3 channels."""
        return self.channels in (None, 3) and self.window is None

    @property
    def is_wide(self) -> bool:
        """Whether there is a window, and one that makes images within [0, 1] black."""
        return self.window is not None and self.window[1] - self.window[0] >= WIDE

    def of_values(self, values: np.ndarray, has_alpha: bool = False) -> Tensor:
        """Return an image from the values `(c, y, x)` that its file holds.

        Args:
            values: of any kind of number. Those of 8 bits are never windowed.
            has_alpha: whether the last channel is transparency.

        Raises:
            ValueError: the values have no defined white, or the channels are not those asked for.
            ScaledValues: they are hardly raw counts, and the form wants these.
        """
        if self.counts and self.is_scaled(values):
            raise ScaledValues(self.scaled(values))
        unit = self._unit(values)
        if has_alpha:
            unit[-1] = torch.from_numpy((values[-1] / SIXTEEN_BITS).astype(np.float32))
            if self.channels in (None, *BANDS_BEFORE_ALPHA):
                unit = unit[:-1] * unit[-1:] + (1 - unit[-1:])  # on white
        unit = self.with_channels(unit)
        return unit if self.window is not None else (unit * 255).round().to(torch.uint8)

    def of_bytes(self, pixels: Tensor) -> Tensor:
        """Return an image of uint8 `(c, y, x)`, which no window changes."""
        pixels = self.with_channels(pixels)
        return pixels if self.window is None else pixels.float() / 255

    def with_channels(self, pixels: Tensor) -> Tensor:
        """Return `(c, y, x)` with the channels asked for: grey repeated, colours as their luminance.

        Raises:
            ValueError: no other number of channels can be made of those that are there.
        """
        found, wanted = len(pixels), self.channels
        if wanted in (None, found):
            return pixels
        if (found, wanted) == (1, 3):
            return repeat(pixels, "1 y x -> c y x", c=3)
        if (found, wanted) == (3, 1):
            return luminance(pixels)
        raise ValueError(self.other_channels(found))

    def is_scaled(self, values: np.ndarray) -> bool:
        """Whether values are floats within [0, 1] and not all black, which a much wider window makes black."""
        if not self.is_wide or values.dtype.kind != "f":
            return False
        return bool(((values >= 0) & (values <= 1)).all() and values.any())

    def scaled(self, values: np.ndarray) -> str:
        """Say that such values are hardly raw counts, and what is to be given in their place."""
        low, high = self.window or (0, 255)
        return (
            f"its values lie from {values.min():g} to {values.max():g}, but the window {low:g} to {high:g} asks for "
            "raw counts; give them as they were measured (of an integer type if they are as low as that)"
        )

    def other_channels(self, found: int) -> str:
        """Say that an image has other channels than those asked for."""
        return f"has {found} channel{'s' * (found != 1)}, but {self.wanted}"

    @property
    def wanted(self) -> str:
        """Who wants how many channels, in words."""
        return self.asked or f"--data.channels asks for {self.channels}"

    def _unit(self, values: np.ndarray) -> Tensor:
        """Map values to float32 in [0, 1]."""
        kind = values.dtype.kind
        if values.dtype == np.uint8:
            return torch.from_numpy((values / 255).astype(np.float32))
        if kind == "f" and not np.isfinite(values).all():
            raise ValueError("some of its pixels are no finite numbers; give them a value in the file")
        if self.window is not None:
            low, high = self.window
            return torch.from_numpy(((values.astype(np.float64) - low) / (high - low)).clip(0, 1).astype(np.float32))
        if kind == "f":
            raise ValueError(NO_WHITE)
        if values.min() < 0 or values.max() > SIXTEEN_BITS:
            raise ValueError(beyond_sixteen_bits(values))
        return torch.from_numpy((values / SIXTEEN_BITS).astype(np.float32))


def beyond_sixteen_bits(values: np.ndarray) -> str:
    """Say that whole numbers have no defined white."""
    return f"integer pixels from {values.min()} to {values.max()} exceed 16 bits; give --data.window '[low,high]'"


def luminance(pixels: Tensor) -> Tensor:
    """Return the luminance `(1, y, x)` of red, green and blue `(3, y, x)`, uint8 or float."""
    if pixels.dtype == torch.uint8:
        weights = torch.tensor(LUMINANCE, dtype=torch.int64)
        summed = einsum(pixels.long(), weights, "c y x, c -> y x") + 0x8000
        return rearrange((summed >> 16).to(torch.uint8), "y x -> 1 y x")
    weights = torch.tensor(LUMINANCE, dtype=pixels.dtype) / 65536
    return rearrange(einsum(pixels, weights, "c y x, c -> y x"), "y x -> 1 y x")
