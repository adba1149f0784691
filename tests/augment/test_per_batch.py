"""Random steps on a whole batch: the same pixels from the same draws, and the same distributions of the draws."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from vit_lightning.augment import Augment, randaugment
from vit_lightning.augment.per_batch import (
    GROUPS,
    Affine,
    BatchAugment,
    Erasing,
    Operations,
    Window,
    cut,
    inverse,
    paint,
    unsupported,
)
from vit_lightning.augment.per_image import train_transform
from vit_lightning.augment.randaugment import GREY
from vit_lightning.seeds import StatelessRandom, below

MANY = 20_000


def random(count: int = MANY, seed: int = 0, epoch: int = 0, first: int = 0) -> StatelessRandom:
    return StatelessRandom(seed, np.full(count, epoch), np.arange(first, first + count))


def pictures(count: int, *sides: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, *sides), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def evenly(values, outcomes: int) -> bool:
    """Whether all outcomes are about equally frequent: chi-square within 6 standard deviations of its mean."""
    counts = np.bincount(np.asarray(values), minlength=outcomes)
    expected = len(values) / outcomes
    chi = ((counts - expected) ** 2 / expected).sum()
    return len(counts) == outcomes and chi < (outcomes - 1) + 6 * math.sqrt(2 * (outcomes - 1))


@given(st.integers(0, 2**31), st.integers(0, 1000), st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_a_records_numbers_depend_on_its_own_place_alone(seed, epoch, positions):
    together = StatelessRandom(seed, np.full(len(positions), epoch), np.array(positions))("crop")
    alone = [StatelessRandom(seed, np.array([epoch]), np.array([position]))("crop")[0] for position in positions]
    assert together.tolist() == alone
    assert 0 <= together.min() <= together.max() < 2**32


def test_seeds_epochs_positions_and_names_all_matter():
    draws = [
        random(4, seed, epoch, first)(name) for seed in (0, 1) for epoch in (0, 1) for first in (0, 4) for name in "ab"
    ]
    assert len(set(np.concatenate(draws).tolist())) == 64


@pytest.mark.parametrize("vary", ["position", "epoch", "seed"])
def test_numbers_are_uniform_and_independent(vary):
    if vary == "position":
        numbers = random()
    elif vary == "epoch":
        numbers = StatelessRandom(0, np.arange(MANY), np.zeros(MANY, dtype=np.int64))
    else:
        numbers = StatelessRandom(0, np.zeros(MANY, dtype=np.int64), np.arange(MANY) << 20)
    one, other = numbers("one"), numbers("other")
    for count in (2, 7, 256):
        assert evenly(below(one, count), count)
    assert evenly(one & 255, 256)
    assert evenly(below(one, 8) * 8 + below(other, 8), 64)
    assert evenly(below(one[:-1], 8) * 8 + below(one[1:], 8), 64)
    assert abs(numbers.uniform("one", -1, 3).mean() - 1) < 4 * 4 / math.sqrt(12 * MANY)


@pytest.mark.parametrize("padding", [4, 0])
def test_a_window_is_what_torchvision_cuts(padding):
    images = pictures(9, 12, 10)
    y, x = torch.arange(9) - padding, (torch.arange(9) * 2) % 5 - padding
    mirrored = torch.arange(9) % 2 == 1
    size = (8, 7)
    for image, top, left, flipped, out in zip(images, y, x, mirrored, cut(images, y, x, mirrored, size), strict=True):
        padded = F.pad(image, [padding] * 4)
        expected = F.crop(padded, int(top) + padding, int(left) + padding, *size)
        assert torch.equal(out, F.horizontal_flip(expected) if flipped else expected)


def test_windows_are_everywhere_and_half_are_mirrored():
    window = Window((32, 32), (4, 4), True)
    numbers = window.draw(random())
    y, x = (below(numbers[axis], 9) for axis in (0, 1))
    assert evenly(y * 9 + x, 81)
    assert evenly(below(numbers[2], 2), 2)
    markers = torch.zeros(MANY, 1, 32, 32, dtype=torch.uint8)
    markers[:, :, 16, 12] = 255
    out = window(markers, numbers)
    places = out.flatten(1).int().argmax(1).numpy()
    rows, columns = places // 32, places % 32
    assert evenly(rows - 12, 9)  # 16 + 4 - (0 to 8)
    assert evenly(np.where(below(numbers[2], 2), 31 - columns, columns) - 8, 9)


def test_pad_crop_and_flip_reach_what_the_transform_reaches():
    """All 9 x 9 x 2 outcomes of a 32-pixel image, as the transform for one image gives them."""
    image = pictures(1, 32, 32)[0]
    augment = Augment(crop="pad", flip=True)
    transform, whole = train_transform(augment, (32, 32)), BatchAugment(augment, (32, 32))
    torch.manual_seed(0)
    expected = {transform(image).numpy().tobytes() for _ in range(3000)}
    out = whole(image.expand(3000, -1, -1, -1), whole.draw(random(3000)))
    assert {one.numpy().tobytes() for one in out} == expected
    assert len(expected) == 162


@pytest.mark.parametrize("size", [(16, 16), (16, 40), (25, 9)])
@pytest.mark.parametrize("crop", ["resize", "resmall", "pad", "none"])
def test_sizes_that_change_are_resized_as_in_the_transform(crop, size, monkeypatch):
    """At this zoom 16 pixels are rounded up, and 40 down."""
    augment = Augment(crop=crop, flip=False, zoom=1.23)
    images = pictures(2, 20, 30)
    whole = BatchAugment(augment, size)
    middle = torch.full((3, 2), 2**31)
    out = whole(images, [middle])
    assert out.shape == (2, 3, *size)

    monkeypatch.setattr(torch, "randint", lambda least, above, shape: torch.tensor(above // 2))
    transform = train_transform(augment, size)
    assert torch.equal(out, torch.stack([transform(image) for image in images]))


@pytest.mark.parametrize("size", [(16, 40), (40, 16)])
def test_a_padded_image_is_shifted_by_up_to_an_eighth_of_each_of_its_sides(size):
    whole = BatchAugment(Augment(crop="pad", flip=False), size)
    white = torch.full((2, 3, *size), 255, dtype=torch.uint8)
    out = whole(white, [torch.tensor([[0, 2**32 - 1]] * 2 + [[0, 0]])])
    for image, front in zip(out, (True, False), strict=True):
        black = (image == 0).all(0)
        rows, columns = (black.all(axis) for axis in (1, 0))
        assert (int(rows.sum()), int(columns.sum())) == (size[0] // 8, size[1] // 8)
        assert (bool(rows[0]), bool(columns[0]), bool(rows[-1]), bool(columns[-1])) == (
            front,
            front,
            not front,
            not front,
        )


def test_affine_is_torchvisions():
    images = pictures(6, 16, 12)
    angles, scales = np.array([0, 10, -33, 90, 179, -2.5]), np.array([1, 0.9, 1.1, 1, 0.7, 1.3])
    x, y = np.array([0, 1, -2, 3, 0, -1]), np.array([0, -1, 2, 0, 1, 3])
    out = Affine(180, 0.3, 0.3, (16, 12))(images, inverse(np.radians(angles), x, y, scales))
    for number, image in enumerate(images):
        place = [int(x[number]), int(y[number])]
        bilinear = v2.InterpolationMode.BILINEAR
        expected = F.affine(
            image, float(angles[number]), place, float(scales[number]), [0.0, 0.0], interpolation=bilinear, fill=[0.0]
        )
        assert (out[number].int() - expected.int()).abs().max() <= 1
        assert (out[number] != expected).float().mean() < 0.02  # rounding of halves


def test_affine_draws_are_torchvisions():
    ours = Affine(10, 0.07, 0.1, (32, 32)).draw(random())
    transform = v2.RandomAffine(10, translate=(0.07, 0.07), scale=(0.9, 1.1))
    torch.manual_seed(0)
    theirs = [transform.make_params([torch.zeros(3, 32, 32)]) for _ in range(4000)]
    scale = 1 / ours[:, 0, :2].norm(dim=1)
    angle = torch.rad2deg(torch.atan2(ours[:, 0, 1], ours[:, 0, 0]))
    for mine, name in ((scale, "scale"), (angle, "angle")):
        other = torch.tensor([params[name] for params in theirs])
        levels = torch.linspace(0.02, 0.98, 25)
        spread = float(other.max() - other.min())
        assert (mine.quantile(levels) - other.quantile(levels)).abs().max() < 0.04 * spread
    turn = ours[:, :, :2] * scale[:, None, None] ** 2  # the inverse of what undoes the turn, transposed
    shift = -(turn.transpose(1, 2) @ ours[:, :, 2:]).squeeze(2)
    assert torch.allclose(shift, shift.round(), atol=1e-4)
    for axis in (0, 1):
        mine = torch.bincount(shift[:, axis].round().long() + 2, minlength=5) / MANY
        other = torch.bincount(torch.tensor([params["translate"][axis] for params in theirs]) + 2, minlength=5) / 4000
        assert (mine - other).abs().max() < 0.03


def test_each_side_is_shifted_by_a_share_of_its_own():
    matrices = Affine(0, 0.25, 0, (16, 64)).draw(random())
    x, y = -matrices[:, 0, 2], -matrices[:, 1, 2]
    assert torch.equal(matrices[:, :, :2], torch.eye(2).expand(MANY, 2, 2))
    assert (float(y.min()), float(y.max())) == (-4, 4) and (float(x.min()), float(x.max())) == (-16, 16)


def test_each_record_gets_its_own_operations():
    step = Operations(3, 12)
    images = pictures(40, 16, 16)
    numbers = step.draw(random(40))
    out = step(images, numbers)
    moves, places, counts = numbers
    order = torch.arange(40)
    expected = images.clone()
    for layer in range(3):
        order = order[moves[layer]]  # which record stands where
        groups = np.repeat(np.arange(len(GROUPS)), counts[layer])
        for place, record in enumerate(order.tolist()):
            name, sign = GROUPS[groups[place]]
            expected[record] = randaugment.apply(name, expected[record], 12, sign, places[layer][place])
    assert order[moves[3]].tolist() == list(range(40))
    assert torch.equal(out, expected)
    halves = [
        step(images[part], step.draw(random(20, first=first))) for part, first in ((slice(20), 0), (slice(20, 40), 20))
    ]
    assert torch.equal(torch.cat(halves), out)


def test_operations_and_directions_are_even():
    _, places, counts = Operations(2, 10).draw(random())
    for layer in range(2):
        names = np.repeat([name for name, _ in GROUPS], counts[layer])
        assert evenly(np.unique(names, return_inverse=True)[1], 16)
        signs = np.repeat([sign for _, sign in GROUPS], counts[layer])
        for name in randaugment.DIRECTED:
            assert abs(signs[names == name].mean()) < 5 / math.sqrt((names == name).sum())
        assert abs(places[layer].mean() - 0.5) < 0.01
        assert places[layer].max() < 1


def test_what_one_image_draws_is_independent():
    """Places, angles, shifts, scales and directions of one image tell nothing of each other."""
    numbers = random()
    affine, erasing = Affine(10, 0.2, 0.1, (64, 64)).draw(numbers), Erasing(1.0, (64, 64)).draw(numbers)
    turn = torch.atan2(affine[:, 0, 1], affine[:, 0, 0])
    scale = affine[:, 0, :2].norm(dim=1)
    drawn = torch.stack([*Window((8, 8), (1, 1), True).draw(numbers), turn, scale, *affine[:, :, 2].T]).double()
    assert (drawn.corrcoef() - torch.eye(7)).abs().max() < 6 / math.sqrt(MANY)
    y, x, height, width = erasing.double()
    room = torch.stack([y / (64 - height), x / (64 - width), *drawn[:2]])
    assert (room.corrcoef() - torch.eye(4)).abs().max() < 6 / math.sqrt(MANY)


def test_layers_of_one_image_are_independent():
    moves, places, counts = Operations(2, 10).draw(random())
    order, drawn = torch.arange(MANY), []
    for layer in range(2):
        order = order[moves[layer]]
        group = torch.from_numpy(np.repeat(np.arange(len(GROUPS)), counts[layer]))
        back = order.argsort()
        drawn += [group[back].double(), *places[layer][back].double().T]
    assert (torch.stack(drawn).corrcoef() - torch.eye(6)).abs().max() < 6 / math.sqrt(MANY)


def test_a_box_is_what_torchvision_erases():
    images = pictures(3, 10, 14)
    boxes = torch.tensor([[0, 3, 9], [0, 5, 13], [4, 2, 0], [6, 9, 0]])
    grey = torch.full((3, 1, 1), GREY, dtype=torch.uint8)
    expected = [F.erase(image, *box, grey) for image, box in zip(images, boxes.T.tolist(), strict=True)]
    assert torch.equal(paint(images, *boxes), torch.stack(expected))


@pytest.mark.parametrize("size", [(32, 32), (24, 96)])
def test_boxes_are_drawn_as_torchvision_does(size):
    y, x, height, width = Erasing(0.25, size).draw(random())
    assert abs((height > 0).float().mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / MANY)
    erased = height > 0
    transform = v2.RandomErasing(1.0, value=GREY)
    torch.manual_seed(0)
    theirs = [transform.make_params([torch.zeros(3, *size)]) for _ in range(4000)]
    for mine, name in ((height, "h"), (width, "w"), (y, "i"), (x, "j")):
        other = torch.tensor([params[name] for params in theirs]).float()
        levels = torch.linspace(0.05, 0.95, 19)
        assert (mine[erased].float().quantile(levels) - other.quantile(levels)).abs().max() <= 1
    assert (y + height <= size[0]).all() and (x + width <= size[1]).all()


def test_the_whole_recipe_does_not_depend_on_the_batch():
    augment = Augment(crop="pad", rotate=5, shift=0.1, scale=0.1, rand_augment=(2, 15), erasing=0.5)
    whole, images = BatchAugment(augment, (16, 16)), pictures(30, 16, 16)
    state = torch.get_rng_state()
    out = whole(images, whole.draw(random(30, epoch=3)))
    alone = [whole(images[i : i + 1], whole.draw(random(1, epoch=3, first=i))) for i in range(30)]
    assert torch.equal(out, torch.cat(alone))
    assert torch.equal(torch.get_rng_state(), state)
    assert out.dtype == torch.uint8


def test_what_needs_each_image_alone_is_named():
    assert unsupported(Augment()) == "augment.crop inception"
    assert unsupported(Augment(crop="none", trivial_augment=True)) == "augment.trivial_augment"
    assert unsupported(Augment(crop="resmall", preset="strong2", erasing=0.1)) is None


def test_a_box_that_fits_late_is_that_of_its_own_record_alone():
    """Of large boxes few fit at once; what others still draw changes none that was found."""
    erasing = Erasing(0.9, (20, 30), area=(0.5, 0.95))
    together = erasing.draw(random(200))
    alone = torch.cat([erasing.draw(random(1, first=number)) for number in range(200)], dim=1)
    assert torch.equal(together, alone)
    shares = (together[2] * together[3])[together[2] > 0] / (20 * 30)
    assert shares.min() > 0.48 and shares.max() < 0.97 and 60 < len(shares) < 190
