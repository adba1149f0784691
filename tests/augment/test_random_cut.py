"""The training crop: drawn from an image's sides alone, and the one that torchvision's steps would make."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.transforms import v2

from vit_lightning.augment import Augment
from vit_lightning.augment.per_image import Cover, InceptionCrop, RandomCut
from vit_lightning.errors import InputError
from vit_lightning.seeds import seeded

CROPS = ["inception", "resmall", "resize", "pad", "none"]
sides = st.integers(1, 90)
sizes = st.tuples(st.integers(2, 40), st.integers(2, 40))


def steps(crop: str, size: tuple[int, int]) -> list:
    """The crop, step by step."""
    y, x = size
    return {
        "inception": [InceptionCrop(size)],
        "resmall": [Cover(size, 448 / 384), v2.RandomCrop(size)],
        "resize": [v2.Resize([round(y * 448 / 384), round(x * 448 / 384)], antialias=False), v2.RandomCrop(size)],
        "pad": [v2.Resize(size, antialias=True), v2.RandomCrop(size, padding=[x // 8, y // 8])],
        "none": [v2.Resize(size, antialias=True)],
    }[crop]


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("crop", CROPS)
@given(sides, sides, sizes, st.integers(0, 2**32))
def test_cuts_are_those_of_torchvisions_steps(crop, flip, height, width, size, seed):
    image = torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    cut = RandomCut(Augment(crop=crop, flip=flip), size)
    with seeded(seed):
        expected = v2.Compose([*steps(crop, size), *[v2.RandomHorizontalFlip()] * flip])(image)
        state = torch.get_rng_state()
    with seeded(seed):
        found = cut(image)
        assert torch.equal(torch.get_rng_state(), state)  # what follows draws the same numbers
    assert torch.equal(found, expected)
    with seeded(seed):
        assert torch.equal(cut.apply(image, cut.draw(height, width)), expected)


@pytest.mark.parametrize("crop", CROPS)
@given(sides, sides, sizes, st.integers(0, 2**32))
def test_windows_lie_in_the_image(crop, height, width, size, seed):
    with seeded(seed):
        cut = RandomCut(Augment(crop=crop), size).draw(height, width)
    assert 0 <= cut.y < cut.y + cut.height <= height
    assert 0 <= cut.x < cut.x + cut.width <= width
    reach = [side // 8 if crop == "pad" else 0 for side in size]
    assert -reach[0] <= cut.top <= cut.tall + reach[0] - size[0]
    assert -reach[1] <= cut.left <= cut.wide + reach[1] - size[1]


@given(st.floats(0.1, 0.8), st.integers(0, 2**32))
def test_inception_crops_are_of_the_area_that_is_asked_for(least, seed):
    with seeded(seed):
        cut = RandomCut(Augment(crop_area=(least, 0.9)), (8, 8)).draw(500, 400)
    assert least - 0.005 <= cut.height * cut.width / 200_000 <= 0.905


@pytest.mark.parametrize("area", [(0.0, 1.0), (-0.1, 0.5), (0.5, 0.2), (0.5, 1.1), (float("nan"), 1.0)])
def test_areas_that_no_crop_can_have_are_refused(area):
    with pytest.raises(InputError, match=r"crop_area is \[.*\], expected two shares above 0 and up to 1"):
        Augment(crop_area=area)


@pytest.mark.parametrize("crop", CROPS[1:])
def test_an_area_beside_another_crop_is_refused(crop):
    with pytest.raises(InputError, match=f"crop_area does nothing with --data.augment.crop {crop}"):
        Augment(crop=crop, crop_area=(0.35, 1.0))


@pytest.mark.parametrize("crop", CROPS)
def test_an_image_of_one_pixel(crop):
    with seeded(0):
        image = RandomCut(Augment(crop=crop), (8, 8))(torch.full((3, 1, 1), 9, dtype=torch.uint8))
    assert image.shape == (3, 8, 8)
    assert set(image.unique().tolist()) <= {0, 9}
    # A padded image is moved by one of its eight pixels at most, and only what then is empty is black.
    whole = (image == 9).all(0)
    assert whole.any(0).sum() >= (7 if crop == "pad" else 8)
    assert whole.sum() == whole.any(0).sum() * whole.any(1).sum() >= (49 if crop == "pad" else 64)
