"""RandAugment's operations against TensorFlow, its draws, and its place in the training transform."""

import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_lightning.augment import Augment
from vit_lightning.augment.per_image import train_transform
from vit_lightning.augment.randaugment import DIRECTED, OPS, RandAugment, apply
from vit_lightning.errors import InputError
from vit_lightning.seeds import seeded

# What big_vision's operations make of `picture` at magnitudes 0, 10, 15 and 20: CRC-32 of the bytes `(c, y, x)`, from
# TensorFlow 2.15.1 in a traced graph, with its own ImageProjectiveTransformV3 in place of the retired addons' call.
EXACT = {
    ("Equalize", 1): "71676e0a 71676e0a 71676e0a 71676e0a",
    ("Invert", 1): "6952794c 6952794c 6952794c 6952794c",
    ("Rotate", 1): "4ef80f3c e2c07908 b803eb70 e3c4850c",
    ("Rotate", -1): "4ef80f3c aa27a731 c6b9ef9f 5337f19d",
    ("Posterize", 1): "24b5c0f8 27c6fd7c 07f50644 4ef80f3c",
    ("Solarize", 1): "6952794c 6952794c 97d58d54 6952794c",
    ("Brightness", 1): "0dd0b35e bb5a7baa a2d0662a 0e9e36e7",
    ("ShearX", 1): "4ef80f3c dc7834fd e14b283b bbfbcfd9",
    ("ShearX", -1): "4ef80f3c 95860cb1 bb0d2f8c 286a3de1",
    ("ShearY", 1): "4ef80f3c f0e5b680 ba023a0d 05bb39fe",
    ("ShearY", -1): "4ef80f3c a7d60421 02bc6935 0f3a0fe9",
    ("TranslateX", 1): "4ef80f3c d74f459e 449ef8f5 e157352a",
    ("TranslateX", -1): "4ef80f3c 362c30a7 4d631d20 5cb31f95",
    ("TranslateY", 1): "4ef80f3c a4324241 96a40a65 bc7b3253",
    ("TranslateY", -1): "4ef80f3c b1d71157 378fcf01 5ae565c0",
    ("SolarizeAdd", 1): "4ef80f3c 4fe6cdca 1d500d0a a86803d2",
}
# Every 110th row and 80th column of its results, from (9, 9) on, where the two round differently before they blend.
NEAR = {
    ("AutoContrast", 10): "46 47 49 97 117 138 148 187 225 199 0 57 0 26 53 51 65 80 102 105 107 153 143 134",
    ("Color", 0): "56 57 57 107 109 110 157 160 163 81 65 70 35 37 39 68 69 70 100 101 101 133 132 132",
    ("Color", 10): "55 57 60 84 114 145 114 171 228 255 0 59 4 44 84 51 72 95 99 102 106 146 131 117",
    ("Color", 20): "53 57 64 60 120 179 71 182 255 255 0 48 0 51 129 35 76 120 97 104 112 158 129 103",
    ("Contrast", 0): "112 112 113 116 118 119 120 123 126 124 109 113 109 111 113 113 114 115 117 117 117 121 120 119",
    ("Contrast", 10): "0 1 5 75 105 136 151 208 255 227 0 16 0 0 10 6 27 50 82 86 90 158 143 130",
    ("Contrast", 20): "0 0 0 33 93 152 181 255 255 255 0 0 0 0 0 0 0 0 48 56 63 196 167 141",
    ("Sharpness", 0): "56 57 58 96 111 127 136 165 196 176 74 65 74 68 62 60 71 83 100 102 104 140 132 125",
    ("Sharpness", 10): "56 57 59 96 112 128 136 166 196 176 0 65 0 14 62 60 71 83 100 102 104 140 132 125",
    ("Sharpness", 20): "56 57 61 96 114 130 136 168 196 176 0 65 0 0 62 60 71 83 100 102 104 140 132 125",
}


def picture() -> torch.Tensor:
    """A 3 x 230 x 260 image whose values lie between 20 and 219."""
    y, x = torch.meshgrid(torch.arange(230), torch.arange(260), indexing="ij")
    return torch.stack([20 + (y * y // 9 + 3 * x + c * x * y // 50) % 200 for c in range(3)]).to(torch.uint8)


def test_the_sixteen_operations_of_the_recipe():
    assert len(OPS) == 16
    assert {name for name, _ in [*EXACT, *NEAR]} | {"Cutout"} == set(OPS)
    assert {name for name, sign in EXACT if sign < 0} == DIRECTED


@pytest.mark.parametrize(("name", "sign"), EXACT)
def test_operations_equal_tensorflows(name, sign):
    found = [apply(name, picture(), magnitude, sign) for magnitude in (0, 10, 15, 20)]
    assert " ".join(f"{zlib.crc32(image.numpy().tobytes()):08x}" for image in found) == EXACT[name, sign]


@pytest.mark.parametrize(("height", "width"), [(32, 96), (96, 32), (224, 112)])
@pytest.mark.parametrize(("name", "axis"), [("TranslateX", -1), ("TranslateY", -2)])
def test_a_translation_is_as_long_as_its_own_side_asks(name, axis, height, width):
    """100 pixels of 224 at full strength, less on a smaller side, whatever the other side is."""
    image = (torch.arange(3 * height * width) % 127 + 129).reshape(3, height, width).to(torch.uint8)
    places = int(100 * min(image.shape[axis] / 224, 1) + 0.5)
    moved = apply(name, image, 10)
    side = image.shape[axis]
    assert torch.equal(moved.narrow(axis, 0, side - places), image.narrow(axis, places, side - places))
    assert moved.narrow(axis, side - places, places).eq(128).all()


@pytest.mark.parametrize(("name", "magnitude"), NEAR)
def test_blends_are_within_rounding_of_tensorflows(name, magnitude):
    found = apply(name, picture(), magnitude)[:, 9:220:110, 9:250:80].permute(1, 2, 0).flatten()
    expected = torch.tensor([int(value) for value in NEAR[name, magnitude].split()])
    assert (found.int() - expected).abs().max() <= (3 if magnitude == 20 else 1)


@pytest.mark.parametrize(("magnitude", "half"), [(0, 0), (10, 40), (15, 60), (20, 80)])
def test_cutout_paints_a_square_around_its_middle(magnitude, half):
    image = torch.zeros(3, 224, 300, dtype=torch.uint8)
    cut = apply("Cutout", image, magnitude, place=torch.tensor([0.5, 0.25]))
    expected = torch.zeros_like(image)
    expected[:, 112 - half : 112 + half, max(0, 75 - half) : 75 + half] = 128
    assert torch.equal(cut, expected)


@pytest.mark.parametrize(
    ("name", "share"), [("Cutout", 80 * 80 / 224**2), ("TranslateX", 100 / 224), ("TranslateY", 100 / 224)]
)
@pytest.mark.parametrize("side", [32, 64, 224])
def test_small_images_lose_the_share_that_large_ones_do(name, share, side):
    image = torch.zeros(1, side, side, dtype=torch.uint8)
    lost = (apply(name, image, 10, place=torch.tensor([0.5, 0.5])) == 128).float().mean().item()
    assert lost == pytest.approx(share, abs=2 / side)


@pytest.mark.parametrize(("side", "magnitude"), [(32, 10), (50, 7), (100, 13)])
def test_cutout_on_small_images_is_even_on_both_sides_of_its_middle(side, magnitude):
    half = 40 * magnitude * side // (10 * 224)
    cut = apply("Cutout", torch.zeros(1, side, side, dtype=torch.uint8), magnitude, place=torch.tensor([0.5, 0.5]))
    rows, columns = (cut[0] == 128).any(1), (cut[0] == 128).any(0)
    for painted in (rows, columns):
        assert painted.nonzero().flatten().tolist() == list(range(side // 2 - half, side // 2 + half))


def test_cutout_draws_a_middle_for_each_image():
    with seeded(0):
        cut = apply("Cutout", torch.zeros(6, 1, 64, 64, dtype=torch.uint8), magnitude=2)
    assert len({tuple(image.nonzero()[0].tolist()) for image in cut}) == 6


pictures = st.tuples(st.integers(1, 4), st.sampled_from([1, 3]), st.integers(1, 40), st.integers(1, 40))


@pytest.mark.parametrize("name", OPS)
@settings(max_examples=30)
@given(pictures, st.floats(0, 30), st.sampled_from([1, -1]), st.integers(0, 2**32))
def test_a_batch_is_changed_as_its_images_are(name, shape, magnitude, sign, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    before, places = images.clone(), torch.rand(len(images), 2, generator=generator)
    changed = apply(name, images, magnitude, sign, places)
    assert changed.shape == shape and changed.dtype == torch.uint8
    assert torch.equal(images, before)
    for image, place, result in zip(images, places, changed, strict=True):
        assert torch.equal(apply(name, image, magnitude, sign, place), result)


@settings(max_examples=60)
@given(pictures, st.integers(0, 5), st.floats(0, 30), st.integers(0, 2**32))
def test_any_draw_keeps_an_image_an_image(shape, layers, magnitude, seed):
    image = torch.randint(0, 256, shape[1:], dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    with seeded(seed):
        changed = RandAugment(layers, magnitude)(image)
    assert changed.shape == shape[1:] and changed.dtype == torch.uint8


def test_operations_and_directions_are_drawn_uniformly(monkeypatch):
    drawn = []
    for name in OPS:
        monkeypatch.setitem(OPS, name, lambda image, share, place, name=name: (drawn.append((name, share)), image)[1])
    with seeded(0):
        for _ in range(2000):
            RandAugment(layers=2, magnitude=15)(torch.zeros(3, 2, 2, dtype=torch.uint8))
    counts = torch.tensor([sum(name == other for other, _ in drawn) for name in OPS])
    assert ((counts - 250) ** 2 / 250).sum() < 15 + 4 * 30**0.5  # chi-square of 15 degrees
    assert {share for name, share in drawn if name not in DIRECTED} == {1.5}
    signs = [share for name, share in drawn if name in DIRECTED]
    assert abs(sum(signs)) / 1.5 < 4 * len(signs) ** 0.5


@pytest.mark.parametrize("field", [{"rand_augment": (1, 10)}, {"trivial_augment": True}])
def test_images_of_other_channels_are_refused(field):
    transform = train_transform(Augment(crop="none", **field), (8, 8))
    with pytest.raises(InputError, match="1 or 3 channels, not 4"):
        transform(torch.zeros(4, 8, 8, dtype=torch.uint8))


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPS)
def test_the_host_never_waits_for_the_device(name):
    images = picture().unsqueeze(0).cuda()
    expected = apply(name, images.cpu(), 10, place=torch.tensor([[0.5, 0.5]]))
    torch.cuda.set_sync_debug_mode("error")
    try:
        changed = apply(name, images, 10, place=torch.tensor([[0.5, 0.5]]))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (changed.cpu().int() - expected.int()).abs().max() <= 1


def test_a_smoothed_pixel_is_rounded_down():
    """(58 + 5 x 100) / 13 is 42.9: 42 in whole numbers, of which 9 tenths and a tenth of 100 are 47.8."""
    picture = torch.zeros(1, 3, 3, 3, dtype=torch.uint8)
    picture[:, :, 0, 0], picture[:, :, 1, 1] = 58, 100
    sharper = OPS["Sharpness"](picture, 0.0, torch.zeros(1))
    assert sharper[0, :, 1, 1].tolist() == [47, 47, 47]
    assert torch.equal(sharper[:, :, 0], picture[:, :, 0])  # the border stays
