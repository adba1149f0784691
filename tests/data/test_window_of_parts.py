"""The window of the images that train, where these are a part of the set."""

import numpy as np
import pytest

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data.subsets import take_fraction, take_per_class
from vit_lightning.errors import InputError

RECORDS = [(np.full((8, 8, 1), 1000 * (number + 1), np.uint16), number % 2) for number in range(12)]


class Deep(ImageDataModule):
    num_classes = 2

    def setup(self, stage: str) -> None:
        self.train_set = RECORDS


@pytest.mark.parametrize(
    ("part", "chosen"),
    [
        ({"fraction": 0.25}, take_fraction(RECORDS, 0.25)),
        ({"per_class": 1}, take_per_class(RECORDS, 1, ["a", "b"])),
    ],
)
def test_a_window_is_that_of_the_images_that_train(part, chosen):
    numbers = chosen.indices.tolist()
    assert 0 < len(numbers) < 12 and (numbers[0], numbers[-1]) != (0, 11)
    data = Deep(window="auto", channels=1, augment=Augment(crop="none"), image_size=8, **part)
    data.setup("fit")
    assert data.pixel_form.window == (1000 * (numbers[0] + 1), 1000 * (numbers[-1] + 1))
    counts = data.class_counts
    assert counts.images == len(numbers)
    assert counts.per_class.tolist() == [sum(number % 2 == label for number in numbers) for label in (0, 1)]


def test_no_window_is_found_in_an_empty_set():
    data = Deep(window="auto", augment=Augment(crop="none"), image_size=8)
    data.train_set = []
    with pytest.raises(InputError, match=r"--data\.window auto needs training images"):
        _ = data.pixel_form
