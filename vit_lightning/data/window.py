"""The window of a set whose images have more than 8 bits: what its darkest and brightest values are."""

import numpy as np

from vit_lightning.data.image_set import ImageSet, keys_of, record_of
from vit_lightning.data.images import BrokenImage, deep_values
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.window_fit import Sample, sample, warn_of_misfits
from vit_lightning.errors import InputError
from vit_lightning.terminal import typed

LOOKED_AT = 128
"""Images that are looked at."""
VALUES = 4096
"""Values that are taken of each."""
TAILS = (0.001, 0.999)
"""Shares of the values below black, and below white."""
HOLD_SCALED = "hold floats from 0 to 1"
"""What is said of images that a window for raw counts makes black."""


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
            f"--data.window auto: nearly all values of the training images are {low:g}; give --data.window '[low,high]'"
        )
    return low, high


def holds_scaled(source: ImageSet, form: PixelForm) -> bool:
    """Return whether most images of a set are of floats within [0, 1], which a window for raw counts hides."""
    return form.is_wide and _are_scaled(sample(source, form))


def scaled_set(form: PixelForm, split: str) -> str:
    """Say that the images of a set are of floats within [0, 1], which a window for raw counts hides."""
    window = "the window" if form.window is None else f"--data.window {typed(form.window)}"
    return (
        f"the {split} images {HOLD_SCALED}, which {window} makes black, since it maps raw counts; give these in the "
        "set, or a window for these values, such as [0,1]"
    )


def check_counts(source: ImageSet, form: PixelForm, split: str) -> None:
    """Refuse a set of which the window shows nothing, and warn of one that it hardly shows.

    Raises:
        InputError: most of its images are of floats within [0, 1].
    """
    found = sample(source, form)
    if _are_scaled(found):
        raise InputError(scaled_set(form, split))
    warn_of_misfits(found, form, split)


def _are_scaled(found: Sample) -> bool:
    return 2 * found.scaled > found.images
