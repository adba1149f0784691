"""The inception crop against TensorFlow's rule, its places and its limits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.augment.per_image import (
    InceptionCrop,
)
from vit_lightning.seeds import seeded

sides = st.integers(1, 70)


@given(sides, sides, st.integers(0, 2**32))
def test_inception_windows_keep_to_the_limits(height, width, seed):
    with seeded(seed):
        y, x, tall, wide = InceptionCrop((8, 8)).window(height, width)
    assert 0 <= y <= height - tall
    assert 0 <= x <= width - wide
    assert 0.05 * height * width <= tall * wide <= height * width
    if (tall, wide) != (height, width):  # else every window missed, or the whole image was drawn
        assert 0.75 - 0.5 / tall <= wide / tall <= 1.33 + 0.5 / tall


def test_inception_heights_are_uniform_between_the_area_limits():
    # At aspect 1 a 100 x 100 image allows heights sqrt(500) = 22 to 100; 22 has too little area and becomes 23.
    crop = InceptionCrop((8, 8), aspect=(1.0, 1.0))
    with seeded(0):
        windows = np.array([crop.window(100, 100) for _ in range(20_000)])
    assert (windows[:, 2] == windows[:, 3]).all()
    counts = np.bincount(windows[:, 2], minlength=101)[23:]
    expected = np.full(78, 20_000 / 79)
    expected[0] *= 2
    assert ((counts - expected) ** 2 / expected).sum() < 77 + 4 * np.sqrt(2 * 77)  # chi-square


@pytest.mark.parametrize(("aspect", "tallest"), [(1.0, 10), (0.75, 13), (1.25, 8)])
def test_the_tallest_windows_are_as_wide_as_the_image(aspect, tallest):
    """Of 100 x 10 pixels: a width that is rounded to 10 still fits, as 0.75 * 13 = 9.75 does."""
    crop = InceptionCrop((8, 8), aspect=(aspect, aspect))
    with seeded(0):
        windows = [crop.window(100, 10) for _ in range(200)]
    heights = {tall for _, _, tall, _ in windows}
    assert max(heights) == tallest and len(heights) > 1
    assert max(wide for *_, wide in windows) == 10


def test_inception_aspect_is_uniform():
    # In a wide image, the height limits the window, so that every aspect fits.
    with seeded(0):
        windows = np.array([InceptionCrop((8, 8)).window(1000, 9000) for _ in range(4000)])
    aspects = np.sort(windows[:, 3] / windows[:, 2])
    assert (
        np.abs(aspects - np.linspace(0.75, 1.33, 4000)).max() < 0.03
    )  # Kolmogorov-Smirnov at 4000 draws: 0.026 * 0.58
    places = np.sort(windows[:, 1] / (9000 - windows[:, 3]))
    assert np.abs(places - np.linspace(0, 1, 4000)).max() < 0.03


@given(st.floats(0.75, 1.33), st.integers(5, 90), st.integers(5, 90))
def test_inception_tallest_window_is_the_tallest_that_fits(aspect, height, width):
    crop = InceptionCrop((8, 8), area=(0.0, 1.0), aspect=(aspect, aspect))
    fitting = [tall for tall in range(1, height + 1) if round(tall * aspect) <= width]
    sides = crop._sides(height, width, aspect, draw=1 - 1e-9)
    assert sides is not None
    assert max(fitting) - 1 <= sides[0] <= max(fitting)  # one row less where the area limit asks for it


def bilinear(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Half-pixel bilinear sampling without antialiasing, one axis after the other."""
    for axis, side in ((1, size[0]), (2, size[1])):
        place = np.clip((np.arange(side) + 0.5) * image.shape[axis] / side - 0.5, 0, image.shape[axis] - 1)
        low = np.floor(place).astype(int)
        high = np.minimum(low + 1, image.shape[axis] - 1)
        weight = (place - low).reshape([-1 if i == axis else 1 for i in range(3)])
        image = np.take(image, low, axis) * (1 - weight) + np.take(image, high, axis) * weight
    return image


@pytest.mark.parametrize("size", [(16, 24), (60, 100)])
def test_inception_resizes_as_the_recipes_do(size):
    image = torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    crop = InceptionCrop(size, area=(2.0, 2.0))  # nothing fits: the whole image
    difference = crop(image).numpy() - bilinear(image.numpy().astype(float), size)
    assert np.abs(difference).max() < 1.001


def test_inception_places_are_even_over_both_axes():
    crop = InceptionCrop((8, 8), area=(0.25, 0.25), aspect=(1.0, 1.0))  # 6 x 6 of 12 x 12
    with seeded(0):
        places = np.array([crop.window(12, 12)[:2] for _ in range(7200)])
    counts = np.bincount(places[:, 0] * 6 + places[:, 1], minlength=36)
    assert ((counts - 200) ** 2 / 200).sum() < 35 + 5 * np.sqrt(2 * 35)  # chi-square


@pytest.mark.parametrize(
    ("image", "area", "aspect", "draw", "row", "sides"),
    [
        ((23, 34), (0.5, 0.55), 1.16, 0.474, 18, (19, 22)),  # 18 x 21 is less than half of the image
        ((44, 16), (0.3, 0.5), 0.95, 0.167, 15, (16, 15)),
        ((28, 41), (0.5, 0.55), 1.22, 0.503, 23, (22, 27)),  # 23 x 28 is more than 0.55 of it
        ((34, 43), (0.5, 0.55), 1.23, 0.937, 26, (25, 31)),
        ((53, 54), (0.5, 0.55), 0.75, 0.266, 44, (44, 33)),  # fits as it is
    ],
)
def test_inception_rows_whose_rounded_width_leaves_the_limits_move_by_one(image, area, aspect, draw, row, sides):
    def share(tall):
        return tall * round(tall * aspect) / (image[0] * image[1])

    assert (area[0] <= share(row) <= area[1]) == (row == sides[0])
    assert area[0] <= share(sides[0]) <= area[1]
    assert InceptionCrop((8, 8), area=area, aspect=(aspect, aspect))._sides(*image, aspect, draw) == sides
