"""How images are varied where no flag says otherwise."""

from dataclasses import asdict

import pytest

from vit_lightning.augment import Augment
from vit_lightning.augment.per_image import PRESETS, Cover, InceptionCrop


def test_a_recipe_without_flags_is_inceptions_crop_and_a_mirror():
    assert asdict(Augment()) == {
        **{"crop": "inception", "crop_area": (0.05, 1.0), "flip": True, "rotate": 0, "shift": 0, "scale": 0},
        **{"zoom": 448 / 384, "evaluation": "resize", "preset": "none", "rand_augment": None},
        **{"trivial_augment": False, "erasing": 0, "mixup_alpha": None, "cutmix_alpha": 0, "unmixed": 0},
    }
    assert asdict(InceptionCrop((8, 8))) == {
        **{"size": (8, 8), "area": (0.05, 1.0), "aspect": (0.75, 1.33), "attempts": 100},
    }


def test_strengths_are_those_of_how_to_train_your_vit():
    """Layers and magnitude of RandAugment, and MixUp's alpha (section 3)."""
    assert PRESETS == {
        "none": ((0, 0), 0),
        "light1": ((2, 0), 0),
        "light2": ((2, 10), 0.2),
        "medium1": ((2, 15), 0.2),
        "medium2": ((2, 15), 0.5),
        "strong1": ((2, 20), 0.5),
        "strong2": ((2, 20), 0.8),
    }


@pytest.mark.parametrize(
    ("given", "randomness", "mixup"),
    [
        ({}, (2, 20), 0.8),
        ({"mixup_alpha": 0.0}, (2, 20), 0),
        ({"mixup_alpha": 0.1}, (2, 20), 0.1),
        ({"rand_augment": (0, 0)}, (0, 0), 0.8),
        ({"rand_augment": (1, 5)}, (1, 5), 0.8),
    ],
)
def test_what_is_given_wins_over_the_preset_and_zero_is_given_too(given, randomness, mixup):
    augment = Augment(preset="strong2", **given)
    assert (augment.randomness, augment.mixup) == (randomness, mixup)


def test_a_strip_keeps_its_middle_of_sixteen_times_its_width():
    cover = Cover((8, 8), 1.0)
    assert cover.window(100, 2) == (34, 0, 32, 2) and cover.window(3, 100) == (0, 26, 3, 48)
    assert cover.window(32, 2) == (0, 0, 32, 2) and cover.window(20, 30) == (0, 0, 20, 30)
