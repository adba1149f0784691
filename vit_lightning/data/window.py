"""The window of a set whose images have more than 8 bits: what its darkest and brightest values are."""

import numpy as np

from vit_lightning.data.image_set import ImageSet, keys_of, record_of
from vit_lightning.data.images import BrokenImage, deep_values
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.errors import InputError

LOOKED_AT = 128
"""Images that are looked at."""
VALUES = 4096
"""Values that are taken of each."""
TAILS = (0.001, 0.999)
"""Shares of the values below black, and below white."""
FIRST = 4
"""First images of a set of which one that may be raw counts is enough."""
SCALED = (
    "the images hold floats from 0 to 1, which --data.window makes black, since it maps raw counts; give these in the "
    "set, or a window for these values, such as [0,1]"
)


def window_of(source: ImageSet) -> tuple[float, float]:
    """Return the values between which 99.8 % of those of some images lie, the same in every run.

    Raises:
        InputError: no image has more than 8 bits, or all have one value.
    """
    chance, keys = np.random.default_rng(0), keys_of(source)
    found: list[np.ndarray] = []
    looked_at = chance.permutation(len(source))[:LOOKED_AT].tolist()
    for number in looked_at:
        try:
            values = deep_values(record_of(source, number)[0], name=str(keys[number]))
        except BrokenImage:  # the loader reports it
            continue
        if values is not None:
            some = values.reshape(-1)[chance.integers(0, values.size, VALUES)].astype(np.float64)
            found.append(some[np.isfinite(some)])
    if not found:
        raise InputError(
            f"--data.window auto: none of the {len(looked_at)} training images that were looked at has more than 8 "
            "bits; leave the flag out"
        )
    pooled = np.concatenate(found)
    low, high = (float(f"{value:.6g}") for value in np.quantile(pooled, TAILS)) if len(pooled) else (0.0, 0.0)
    if not low < high:
        raise InputError(
            f"--data.window auto: nearly all values of the training images are {low:g}; give --data.window [low,high]"
        )
    return low, high


def holds_scaled(source: ImageSet, form: PixelForm) -> bool:
    """Return whether the first images of a set are of floats within [0, 1], which a window for raw counts hides."""
    looked_at = 0 if form.window is None else min(len(source), FIRST)
    seen = [_is_scaled(source, number, form) for number in range(looked_at)]
    return bool(seen) and all(seen)


def _is_scaled(source: ImageSet, number: int, form: PixelForm) -> bool:
    try:
        values = deep_values(record_of(source, number)[0], name=str(number))
    except InputError:  # the loader reports it
        return False
    return values is not None and form.is_scaled(values)
