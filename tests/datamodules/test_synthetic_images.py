"""What the synthetic images and sets are made of: their sizes, names, spacing, phase and brightness."""

import numpy as np
import pytest
import torch

from datamodules.synthetic import Gratings, Synthetic


def upright(count: int = 60, side: int = 64) -> np.ndarray:
    """Images `(n, c, y, x)` whose stripes are upright, so that all rows of one show the same wave."""
    return torch.stack([Gratings(count, 1, (side, side), 3, seed=0)[number][0] for number in range(count)]).numpy()


def test_each_set_has_its_size_and_images_of_its_own():
    data = Synthetic(train_size=7, eval_size=3, image_size=8)
    data.setup("fit")
    sets = data.train_set, data.val_set, data.test_set
    assert [len(one) for one in sets] == [7, 3, 3]
    for number in range(3):
        assert len({one[number][0].numpy().tobytes() for one in sets}) == 3
        assert {one[number][1] for one in sets} == {number}


@pytest.mark.parametrize(
    ("classes", "degrees"), [(1, ["0"]), (4, ["0", "45", "90", "135"]), (7, ["0", "25.71", "51.43", "77.14", "102.9"])]
)
def test_a_class_is_called_by_the_direction_of_its_stripes(classes, degrees):
    names = Synthetic(num_classes=classes).class_names
    assert len(names) == classes and names[: len(degrees)] == [f"stripes at {each} degrees" for each in degrees]


def test_stripes_are_four_to_six_pixels_apart_in_all_images_alike():
    waves = upright().astype(float).mean((1, 2))
    peaks = np.abs(np.fft.rfft(waves - waves.mean(1, keepdims=True))).argmax(1)  # waves in 64 pixels
    assert peaks.min() in (10, 11, 12) and peaks.max() in (15, 16)
    assert len(set(peaks.tolist())) >= 5


def test_stripes_begin_anywhere():
    first = upright()[..., 0].astype(float).mean((1, 2))  # 60 above or below the middle at most
    assert 60 < first.min() < 85 and 170 < first.max() < 195
    assert abs(first.mean() - 127) < 25


def test_what_is_brighter_than_white_is_white():
    images = upright(120, 32)
    crest = images.mean((1, 2), keepdims=True) > 182
    bright = images[np.broadcast_to(crest, images.shape)]
    assert bright.max() == 255 and bright.min() > 60
