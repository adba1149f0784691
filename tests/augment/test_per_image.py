import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.nn import functional as F

from vit_lightning.augment import Augment
from vit_lightning.augment.per_image import (
    Cover,
    check_colours,
    eval_transform,
    mixing,
    train_transform,
)
from vit_lightning.errors import InputError
from vit_lightning.seeds import seeded

CROPS = ["inception", "resmall", "resize", "pad", "none"]
sides = st.integers(1, 70)
sizes = st.tuples(st.integers(2, 70), st.integers(2, 70))


def noise(height: int, width: int, channels: int = 3) -> torch.Tensor:
    return torch.randint(
        0, 256, (channels, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize("crop", CROPS)
@given(sides, sides, sizes, st.sampled_from([1, 3, 4]))
def test_every_crop_gives_the_size_asked_for(crop, height, width, size, channels):
    transform = train_transform(Augment(crop=crop, rotate=5.0), size)
    with seeded(height, width):
        image = transform(noise(height, width, channels))
    assert image.shape == (channels, *size)
    assert image.dtype == torch.uint8


@pytest.mark.parametrize("evaluation", ["resize", "center"])
@given(sides, sides, sizes)
def test_evaluation_is_not_random(evaluation, height, width, size):
    transform = eval_transform(Augment(evaluation=evaluation), size)
    state = torch.get_rng_state()
    image = transform(noise(height, width))
    assert image.shape == (3, *size)
    assert torch.equal(image, transform(noise(height, width)))
    assert torch.equal(state, torch.get_rng_state())


def test_evaluation_resizes_as_pillow_does():
    image = noise(90, 70)
    expected = np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).resize((24, 32), Image.Resampling.BILINEAR))
    difference = eval_transform(Augment(), (32, 24))(image).permute(1, 2, 0).int() - torch.from_numpy(
        expected.astype(int)
    )
    assert difference.abs().max() <= 1


@pytest.mark.parametrize(
    ("shape", "size", "zoom", "expected"),
    [
        ((600, 800), (384, 384), 448 / 384, (448, 597)),  # fine-tuning: short side 448
        ((800, 600), (224, 224), 256 / 224, (341, 256)),  # before: short side 256
        ((100, 100), (32, 64), 1.0, (64, 64)),
        ((100, 300), (32, 64), 1.0, (32, 96)),
    ],
)
def test_cover_keeps_the_aspect(shape, size, zoom, expected):
    assert Cover(size, zoom)(noise(*shape)).shape[1:] == expected


def test_center_takes_the_middle():
    image = torch.zeros(3, 70, 140, dtype=torch.uint8)
    image[:, :, 50:90] = 200
    out = eval_transform(Augment(evaluation="center", zoom=1.0), (35, 35))(image)
    assert out[:, :, 10:25].min() == 200
    assert out[:, :, [0, 34]].max() == 0


def test_pad_shifts_by_an_eighth():
    image = torch.zeros(1, 32, 32, dtype=torch.uint8)
    image[:, 16, 16] = 255
    transform = train_transform(Augment(crop="pad", flip=False), (32, 32))
    with seeded(0):
        places = {tuple(transform(image)[0].nonzero()[0].tolist()) for _ in range(1000)}
    assert places == {(y, x) for y in range(12, 21) for x in range(12, 21)}


@pytest.mark.parametrize("crop", CROPS)
def test_flip_mirrors_half_of_the_images(crop):
    image = torch.zeros(1, 32, 32, dtype=torch.uint8)
    image[:, :, :16] = 255
    for flip, share in ((True, 0.5), (False, 1.0)):
        transform = train_transform(Augment(crop=crop, flip=flip, zoom=1.05), (32, 32))
        with seeded(1):
            images = torch.stack([transform(image) for _ in range(400)]).float()
        left_is_brighter = images[..., 0].mean(dim=(1, 2)) > images[..., -1].mean(dim=(1, 2))
        decided = images[..., 0].mean(dim=(1, 2)) != images[..., -1].mean(dim=(1, 2))
        assert left_is_brighter[decided].float().mean() == pytest.approx(share, abs=0.08)


def test_shift_and_scale_stay_within_their_limits():
    image = torch.zeros(1, 40, 40, dtype=torch.uint8)
    image[:, 10:30, 10:30] = 255
    with seeded(0):
        shifted = train_transform(Augment(crop="none", flip=False, shift=0.1), (40, 40))
        tops = [int(shifted(image)[0].amax(1).nonzero()[0]) for _ in range(200)]
        scaled = train_transform(Augment(crop="none", flip=False, scale=0.2), (40, 40))
        sides = [(scaled(image)[0].float().sum() / 255).sqrt().item() for _ in range(200)]
    assert (min(tops), max(tops)) == (6, 14)
    assert min(sides) == pytest.approx(16, abs=0.6)
    assert max(sides) == pytest.approx(24, abs=0.6)


def test_rotation_turns_within_its_limit():
    image = torch.zeros(1, 33, 33, dtype=torch.uint8)
    image[:, 16] = 255
    transform = train_transform(Augment(crop="none", flip=False, rotate=30.0), (33, 33))
    y, x = np.mgrid[-16:17, -16:17]
    with seeded(0):
        weights = [transform(image)[0].numpy() for _ in range(200)]
    angles = [np.degrees(np.arctan((w * y * x).sum() / (w * x * x).sum())) for w in weights]
    assert np.abs(angles).max() == pytest.approx(29.5, abs=1.5)


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(size, 3, 8, 8), torch.arange(size) % 5


@pytest.mark.parametrize("size", [4, 3, 1])
@pytest.mark.parametrize("alphas", [(0.5, 0.0), (0.0, 1.0), (0.5, 1.0)])
def test_case_c13_mixing_any_batch(size, alphas):
    images, labels = batch(size)
    mix = mixing(Augment(mixup_alpha=alphas[0], cutmix_alpha=alphas[1]), num_classes=5)
    for key in range(10):
        with seeded(key):
            mixed, targets = mix(images, labels)
        assert mixed.shape == images.shape
        assert torch.allclose(targets.sum(1), torch.ones(size))
        partner = F.one_hot(labels, 5).roll(1, 0)
        share = ((targets - partner) / (F.one_hot(labels, 5) - partner)).nanmean() if size > 1 else 1.0
        assert torch.allclose(targets, F.one_hot(labels, 5) * share + partner * (1 - share), atol=1e-6)
        if size == 1:
            assert torch.allclose(mixed, images)
        elif alphas[1] == 0:
            assert torch.allclose(mixed, images * share + images.roll(1, 0) * (1 - share), atol=1e-5)
        elif alphas[0] == 0:
            own = (mixed == images).all(1)
            assert (own | (mixed == images.roll(1, 0)).all(1)).all()
            assert own.float().mean().item() == pytest.approx(float(share), abs=1e-6)


def test_mixing_multi_hot_labels():
    images = torch.rand(3, 3, 8, 8)
    labels = torch.tensor([[1.0, 1, 0], [0, 1, 0], [0, 0, 0]])
    with seeded(0):
        _, targets = mixing(Augment(mixup_alpha=1.0), num_classes=3)(images, labels)
    assert targets.sum().item() == pytest.approx(3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rotate": -1.0},
        {"shift": 1.5},
        {"scale": 1.0},
        {"zoom": 0.5},
        {"mixup_alpha": -0.1},
        {"erasing": 1.1},
        {"rand_augment": (-1, 10)},
        {"rand_augment": (2, 31)},
    ],
)
def test_numbers_out_of_range_name_their_flag(wrong):
    with pytest.raises(InputError, match=f"--data.augment.{next(iter(wrong))} is "):
        Augment(**wrong)


LIMITS = {
    "rotate": (0, 180),
    "shift": (0, 1),
    "scale": (0, 0.9),
    "zoom": (1, 4),
    "erasing": (0, 1),
    "mixup_alpha": (0, 1e9),
    "cutmix_alpha": (0, 1e9),
    "unmixed": (0, 1),
}


@pytest.mark.parametrize("field", LIMITS)
def test_the_ends_of_a_range_belong_to_it(field):
    least, most = LIMITS[field]
    mixed = {"cutmix_alpha": 1.0} if field == "unmixed" else {}
    for value in LIMITS[field]:
        assert getattr(Augment(**mixed | {field: value}), field) == value
    for beyond in (least - 1e-6, most + 1e-6) if most < 9 or field == "rotate" else (least - 1e-6,):
        with pytest.raises(InputError, match=f"augment.{field} is {beyond}, expected {least} to "):
            Augment(**mixed | {field: beyond})


def test_the_ends_of_randaugments_ranges_belong_to_them():
    for allowed in ((0, 0), (16, 30), (1, 0), (0, 30)):
        assert Augment(rand_augment=allowed).randomness == allowed
    for refused in ((17, 10), (-1, 10), (2, 30.5), (2, -0.5)):
        with pytest.raises(InputError, match="expected 0 to 16 layers and a magnitude of 0 to 30"):
            Augment(rand_augment=refused)


@pytest.mark.parametrize("step", [{"rand_augment": (2, 9)}, {"trivial_augment": True}, {"preset": "light1"}])
def test_colour_operations_are_for_8_bits_in_one_or_three_channels(step):
    augment = Augment(**step)
    for channels in (None, 1, 3):
        check_colours(augment, channels, is_deep=False)
        with pytest.raises(InputError, match=f"^--data.augment.{next(iter(step))} changes .* have more"):
            check_colours(augment, channels, is_deep=True)
    for channels in (2, 4):
        with pytest.raises(InputError, match=f"--data.channels {channels} has other bands"):
            check_colours(augment, channels, is_deep=False)
    check_colours(Augment(erasing=0.5, mixup_alpha=0.2), 4, is_deep=True)


def test_no_mixing_unless_asked_for():
    assert mixing(Augment(), num_classes=5) is None


# "How to train your ViT?", section 3: layers, magnitude, MixUp's alpha.
@pytest.mark.parametrize(
    ("preset", "layers", "magnitude", "alpha"),
    [
        ("none", 0, 0, 0),
        ("light1", 2, 0, 0),
        ("light2", 2, 10, 0.2),
        ("medium1", 2, 15, 0.2),
        ("medium2", 2, 15, 0.5),
        ("strong1", 2, 20, 0.5),
        ("strong2", 2, 20, 0.8),
    ],
)
def test_presets_are_augregs(preset, layers, magnitude, alpha):
    augment = Augment(preset=preset)
    assert (augment.randomness, augment.mixup) == ((layers, magnitude), alpha)
    assert Augment(preset=preset, mixup_alpha=0.3).mixup == 0.3
    assert Augment(preset=preset, rand_augment=(1, 5)).randomness == (1, 5)
    off = Augment(preset=preset, rand_augment=(0, 0), mixup_alpha=0)
    assert (off.randomness, off.mixup) == ((0, 0), 0)


@pytest.mark.parametrize(
    "field", [{"preset": "light1"}, {"rand_augment": (2, 10)}, {"trivial_augment": True}, {"erasing": 1.0}]
)
def test_every_random_step_changes_images(field):
    plain, changed = (train_transform(Augment(crop="none", flip=False, **more), (24, 24)) for more in ({}, field))
    image = noise(24, 24)
    results = []
    for key in range(20):
        with seeded(key):
            results.append(changed(image))
    assert all(result.shape == (3, 24, 24) and result.dtype == torch.uint8 for result in results)
    assert sum(not torch.equal(result, plain(image)) for result in results) > 10
    with seeded(3):
        assert torch.equal(changed(image), results[3])


def test_erasing_paints_a_grey_box_of_the_size_it_says():
    image = torch.zeros(3, 100, 100, dtype=torch.uint8)
    with seeded(0):
        erase = train_transform(Augment(crop="none", flip=False, erasing=0.25), (100, 100))
        areas = np.array([(erase(image)[0] == 128).float().mean() for _ in range(800)])
    assert (areas > 0).mean() == pytest.approx(0.25, abs=0.06)
    assert areas[areas > 0].min() >= 0.015 and areas.max() <= 0.34


def test_trivial_augment_takes_randaugments_place():
    with pytest.raises(InputError, match=r"RandAugment \[2, 15\]; give --data.augment.rand_augment '\[0, 0\]'"):
        Augment(preset="medium1", trivial_augment=True)
    assert Augment(preset="medium1", rand_augment=(0, 0), trivial_augment=True).mixup == 0.2


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_box_is_grey_in_bytes_and_in_floats(is_deep):
    image = torch.zeros(3, 40, 40) if is_deep else torch.zeros(3, 40, 40, dtype=torch.uint8)
    with seeded(0):
        erased = train_transform(Augment(crop="none", flip=False, erasing=1.0), (40, 40), is_deep)(image)
    assert erased.dtype == image.dtype
    assert erased.unique().tolist() == pytest.approx([0, 128 / 255 if is_deep else 128])


def lit(images: torch.Tensor, axis: int) -> set[int]:
    """First places along an axis that are not black."""
    return {int(image[0].amax(1 - axis).nonzero()[0]) for image in images}


def test_shifts_go_as_far_as_each_side_allows():
    image = torch.zeros(1, 40, 80, dtype=torch.uint8)
    image[:, 10:30, 20:60] = 255
    for settings, tops, lefts in (
        ({"shift": 0.1, "crop": "none"}, (6, 14), (12, 28)),
        ({"crop": "pad"}, (5, 15), (10, 30)),
    ):
        transform = train_transform(Augment(flip=False, **settings), (40, 80))
        with seeded(0):
            images = [transform(image) for _ in range(300)]
        for axis, (least, most) in enumerate((tops, lefts)):
            places = lit(torch.stack(images), axis)
            assert least <= min(places) <= least + 1 and most - 1 <= max(places) <= most


def test_what_is_turned_is_interpolated():
    image = torch.zeros(1, 32, 32, dtype=torch.uint8)
    image[:, :, 16:] = 200
    with seeded(0):
        turned = train_transform(Augment(crop="none", flip=False, rotate=40.0), (32, 32))(image)
    assert len(turned.unique()) > 10


def test_what_trivial_augment_leaves_empty_is_grey():
    transform = train_transform(Augment(crop="none", flip=False, trivial_augment=True), (16, 16))
    with seeded(0):
        images = [transform(torch.zeros(3, 16, 16, dtype=torch.uint8)) for _ in range(60)]
    assert sum(bool((image == 128).any()) for image in images) > 5


def test_magnitude_without_layers_is_no_randaugment():
    assert Augment(rand_augment=(0, 9), trivial_augment=True).trivial_augment
    check_colours(Augment(rand_augment=(0, 9)), 5, is_deep=True)


def test_an_end_without_mixing_needs_mixing():
    for mixed in ({"mixup_alpha": 0.2}, {"cutmix_alpha": 1.0}, {"preset": "light2"}):
        assert Augment(unmixed=0.1, **mixed).unmixed == 0.1
    for plain in ({}, {"preset": "light1"}, {"preset": "light2", "mixup_alpha": 0}):
        with pytest.raises(InputError, match=r"unmixed 0\.1 does nothing where no batch is mixed"):
            Augment(unmixed=0.1, **plain)


@pytest.mark.parametrize(
    ("settings", "flags", "keeps"),
    [
        ({"preset": "light1"}, "--data.augment.preset", False),
        ({"preset": "medium2"}, "--data.augment.preset", True),
        ({"preset": "medium2", "mixup_alpha": 0}, "--data.augment.preset", False),
        ({"rand_augment": [2, 9]}, "--data.augment.rand_augment", False),
        ({"rand_augment": [0, 0], "trivial_augment": True}, "--data.augment.trivial_augment", False),
        ({"rand_augment": (0, 0), "trivial_augment": True}, "--data.augment.trivial_augment", False),
        ({"preset": "light1", "rand_augment": (1, 5)}, "--data.augment.preset and --data.augment.rand_augment", False),
    ],
)
def test_the_flags_to_turn_off_are_those_that_were_given(settings, flags, keeps):
    with pytest.raises(InputError, match=f"^{flags} changes 8-bit colours") as caught:
        check_colours(Augment(**settings), 4, is_deep=False)
    assert ("mixup_alpha 0.5 keeps the preset's MixUp" in str(caught.value)) == keeps
