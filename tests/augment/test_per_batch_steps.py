"""Which steps a recipe becomes for whole batches, and with which numbers."""

from dataclasses import asdict

import pytest
import torch

from vit_lightning.augment import Augment
from vit_lightning.augment.per_batch import Affine, BatchAugment, Erasing, Operations, Window

SIZE = (16, 40)


@pytest.mark.parametrize(
    ("settings", "further"),
    [
        ({}, []),
        ({"rotate": 5.0}, [Affine(5.0, 0, 0, SIZE)]),
        ({"shift": 0.1}, [Affine(0, 0.1, 0, SIZE)]),
        ({"scale": 0.2}, [Affine(0, 0, 0.2, SIZE)]),
        ({"rand_augment": (2, 15)}, [Operations(2, 15)]),
        ({"rand_augment": (0, 15)}, []),
        ({"preset": "light2"}, [Operations(2, 10)]),
        ({"preset": "light2", "rand_augment": (0, 0)}, []),
        ({"erasing": 0.5}, [Erasing(0.5, SIZE)]),
        (
            {"rotate": 5.0, "shift": 0.1, "scale": 0.2, "rand_augment": (1, 9), "erasing": 0.3},
            [Affine(5.0, 0.1, 0.2, SIZE), Operations(1, 9), Erasing(0.3, SIZE)],
        ),
    ],
)
@pytest.mark.parametrize("flip", [True, False])
def test_steps_follow_the_crop_in_the_order_of_the_transform(settings, further, flip):
    for crop, padding in (("none", (0, 0)), ("resize", (0, 0)), ("resmall", (0, 0)), ("pad", (2, 5))):
        steps = BatchAugment(Augment(crop=crop, flip=flip, **settings), SIZE).steps
        assert steps == [Window(SIZE, padding, flip), *further]


def test_boxes_are_those_of_random_erasing():
    """Zhong et al. 2020, and torchvision: 2 to 33 % of the area, 0.3 to 3.3 times as high as wide, ten attempts."""
    assert asdict(Erasing(0.5, SIZE)) == {
        **{"probability": 0.5, "size": SIZE, "area": (0.02, 0.33), "aspect": (0.3, 3.3), "attempts": 10},
    }


@pytest.mark.parametrize("crop", ["resmall", "resize", "none"])
@pytest.mark.parametrize("place", [0, 2**32 - 1])
def test_nothing_beside_an_image_is_shown_where_the_crop_does_not_pad(crop, place):
    whole = BatchAugment(Augment(crop=crop, flip=False, zoom=1.3), SIZE)
    out = whole(torch.full((2, 3, 30, 50), 255, dtype=torch.uint8), [torch.full((3, 2), place)])
    assert out.shape == (2, 3, *SIZE) and out.min() == 255
