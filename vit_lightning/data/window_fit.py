"""Whether a window suits the values of a set: what lies beyond it, and images of 8 bits, which it leaves."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from lightning.pytorch.utilities import rank_zero_warn

from vit_lightning.data.image_set import ImageSet, record_of
from vit_lightning.data.images import deep_values
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted, typed

TRIED = 24
"""Images of a set that are looked at, from everywhere in it."""
CLIPPED = 0.5
"""Share of an image's values beyond the window from which on it hardly shows the image."""
FEW = 10
"""Images of which a single one that is hardly shown is told, as each of them is read by itself."""
BRIGHTEST = 255
"""Greatest value of 8 bits: a window whose white lies beyond it is for values of more."""
DARK = 1 / 8
"""Share of the window below which all values of a set are dark."""
CLIPS, SHOWN_AT, OF_EIGHT_BITS = "clips more than half of the values", "of their brightness", "though they have 8 bits"
OF_VALUES = CLIPS, SHOWN_AT, OF_EIGHT_BITS
"""What is said of images that a window hides, shows dark, or does not map."""
RANGE = "give images of the range of those in training, or --data.window '[low,high]' for theirs"
"""What to do about values of another range."""


class Windowed(NamedTuple):
    """How the values of an image of more than 8 bits lie to the window that maps them."""

    low: float
    high: float
    beyond: float
    """Share of the values that the window clips."""

    @property
    def is_hidden(self) -> bool:
        """Whether the window hardly shows the image."""
        return self.beyond > CLIPPED


class Sample(NamedTuple):
    """What some images of a set are, to a window."""

    windowed: list[Windowed]
    eight_bit: int
    """How many have 8 bits."""
    scaled: int
    """How many are of floats within [0, 1], which a window for raw counts hides."""

    @property
    def images(self) -> int:
        """How many could be read."""
        return len(self.windowed) + self.eight_bit + self.scaled


def lie(values: np.ndarray, window: tuple[float, float]) -> Windowed:
    """Say how values of more than 8 bits, of which there are some, lie to a window."""
    low, high = window
    beyond = float(np.mean((values < low) | (values > high)))
    return Windowed(float(values.min()), float(values.max()), beyond)


def maps_deep(window: tuple[float, float]) -> bool:
    """Whether a window is for values of more than 8 bits."""
    return window[1] > BRIGHTEST


def clipping(window: tuple[float, float], images: str, hidden: Iterable[Windowed]) -> str:
    """Say that a window hardly shows images.

    Args:
        window: The window.
        images: Which they are, in words.
        hidden: How their values lie to it.
    """
    ends = [(one.low, one.high) for one in hidden]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return f"the window {typed(window)} {CLIPS} of {images}, which lie from {low:,g} to {high:,g}"


def darkness(window: tuple[float, float], found: Iterable[Windowed]) -> str | None:
    """Say that all values of images are dark in a window, behind the words that say which they are; None: they are not.

    Args:
        window: The window.
        found: How the values of the images lie to it.
    """
    low, high = window
    peak = max((one.high for one in found), default=low)
    share = (peak - low) / (high - low)
    if not 0 < share < DARK:
        return None
    return f"with values up to {peak:,g} in the window {typed(window)}, shown at 1/{1 / share:.0f} {SHOWN_AT} at most"


def not_mapped(window: tuple[float, float], images: str) -> str:
    """Say that images of 8 bits are not shown as those that a window is for.

    Args:
        window: The window.
        images: Which they are, in words.
    """
    return f"{images} are divided by 255 {OF_EIGHT_BITS} and the window {typed(window)} is for values of more"


def sample(source: ImageSet, form: PixelForm) -> Sample:
    """Look at some images of a set, always the same; those that cannot be read are left out."""
    found = Sample([], 0, 0)
    if form.window is None or not len(source):
        return found
    numbers = np.unique(np.linspace(0, len(source) - 1, TRIED).astype(int)).tolist()
    for number in numbers:
        try:
            values = deep_values(record_of(source, number)[0], name=str(number))
        except InputError:  # the loader reports it
            continue
        if values is None:
            found = found._replace(eight_bit=found.eight_bit + 1)
        elif values.size and form.is_scaled(values):
            found = found._replace(scaled=found.scaled + 1)
        elif values.size and np.isfinite(values).all():
            found.windowed.append(lie(values, form.window))
    return found


def misfits(found: Sample, window: tuple[float, float], split: str) -> list[str]:
    """Say why a net sees most of such images otherwise than its window means them to be seen, if so.

    Args:
        found: What some images of the set are.
        window: The window.
        split: What the set is called.
    """
    said, hidden = [], [one for one in found.windowed if one.is_hidden]
    if hidden and (2 * len(hidden) > found.images or found.images <= FEW):
        share = 100 * np.mean([one.beyond for one in hidden])
        text = clipping(window, _of(len(hidden), found.images, split), hidden)
        said.append(
            f"{text}: {share:.0f} % of them become black or white, so that what is said of these images is worth "
            f"little; {RANGE}"
        )
    if text := darkness(window, found.windowed):
        said.append(f"{_of(len(found.windowed), found.images, split)} {text}; {RANGE}")
    if maps_deep(window) and 2 * found.eight_bit > found.images:
        said.append(
            f"{not_mapped(window, _of(found.eight_bit, found.images, split))}, so that a net trained on these sees "
            "them otherwise; give the images with all their bits"
        )
    return said


def warn_of_misfits(found: Sample, form: PixelForm, split: str) -> None:
    """Warn of a set whose images a window hides, or does not map."""
    for text in misfits(found, form.window, split) if form.window is not None else ():
        rank_zero_warn(text)


def _of(images: int, looked_at: int, split: str) -> str:
    return f"{images} of {counted(looked_at, f'{split} image')} looked at"
