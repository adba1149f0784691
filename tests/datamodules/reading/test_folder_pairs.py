"""Which images are called as others are."""

import pytest

from datamodules.reading.folder_pairs import are_apart


@pytest.mark.parametrize(
    ("image", "side"),
    [
        ("cat{}", "cat{}"),
        ("cat{}", "{}"),
        ("cat{}", "mask_{}"),
        ("cat{}", "cat{}_128x96"),
        ("cat_2020_{}", "{}"),
        ("cat_{}", "cat_{}_2020_v2"),
        ("3f{}a9b-0c1d-2e3f-4a5b-6c7d", "3f{}a9b-0c1d-2e3f-4a5b-6c7d_128x128"),
        ("{}", "mask {} (2)"),
    ],
)
def test_pairs(image, side):
    images, sides = ([form.format(number + 100) for number in range(50)] for form in (image, side))
    assert not are_apart(images, sides)


@pytest.mark.parametrize(
    ("image", "side"),
    [
        ("Felix", "Felix_128x128"),
        ("Felix", "mask_Felix"),
        ("Felix_2020", "Felix_mask"),
        ("Felix", "Felix-seg"),
    ],
)
def test_pairs_without_numbers_of_their_own(image, side):
    assert not are_apart([image, "Rex"], [side])


def test_several_for_one_image():
    assert not are_apart([f"cat{number}" for number in range(5)], [f"cat{number % 5}_{number}" for number in range(99)])


def test_other_names():
    images = [f"glove_{number}" for number in range(100)]
    assert are_apart(images, [f"glove_{number}" for number in range(100, 200)])
    assert are_apart(images, [f"shot_{number}_50" for number in range(100, 200)])  # one size is one image's number
    assert are_apart(images, [f"IMG_20210301_{number}" for number in range(101500, 101600)])
    assert are_apart(["a", "b"], [f"{number}" for number in range(20)])
    assert are_apart([f"IMG_2021_{number}" for number in range(50)], [f"IMG_2022_{number}" for number in range(60, 99)])
