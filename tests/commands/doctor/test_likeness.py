"""Pictures that look the same are found, and others are not."""

import io
from itertools import chain, combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vit_lightning.commands.doctor import likeness
from vit_lightning.commands.doctor.likeness import FEW_BITS, HASHED, SIDE, Prints, fingerprint, twins


def picture(seed: int, sides: tuple[int, int] = (96, 80)) -> Image.Image:
    """Coloured blotches: no two seeds look the same."""
    blotches = np.random.default_rng(seed).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    return Image.fromarray(blotches).resize(sides, Image.Resampling.BICUBIC)


def encoded(image: Image.Image, quality: int, scale: float = 1) -> Image.Image:
    buffer, sides = io.BytesIO(), (round(image.width * scale), round(image.height * scale))
    image.resize(sides, Image.Resampling.LANCZOS).save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


def pixels(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1).contiguous()


def prints(images: list[Image.Image]) -> Prints:
    found = Prints(len(images))
    for number, image in enumerate(images):
        if (one := fingerprint(pixels(image))) is not None:
            found[number] = one
    return found


def twins_of(*sets: list[Image.Image], classes=None) -> likeness.Twins:
    images = list(chain(*sets))
    sides = np.array([[image.height, image.width] for image in images])
    numbers = np.arange(len(images))
    return twins([prints(each) for each in sets], sides, numbers, numbers if classes is None else np.array(classes))


def test_the_hash_is_phash_in_float64():
    """Signs of the lowest frequencies about their median, by scipy's transform."""
    from scipy.fft import dctn

    image = picture(3, (SIDE, SIDE))  # as large as the thumbnail, which is then the picture itself
    gray = np.asarray(image, np.float64).mean(2)
    low = dctn(gray, norm="ortho")[:HASHED, :HASHED]
    bits = (low > np.median(low.ravel()[1:])).ravel()
    assert fingerprint(pixels(image)).hash == int("".join(map(str, bits.astype(int))), 2)


@pytest.mark.parametrize(("quality", "scale"), [(90, 1), (40, 1), (85, 0.5), (85, 1.6)])
def test_pictures_that_were_encoded_again_or_resized_are_found(quality, scale):
    images = [picture(seed) for seed in range(60)]
    found = twins_of(images, [encoded(image, quality, scale) for image in images[::3]])
    assert found.by_set[0][60:].tolist() == list(range(0, 60, 3))
    assert (found.by_set[0][:60] == -1).all() and (found.by_set[1] == -1).all()


def test_different_pictures_are_no_twins(kit):
    files = sorted((kit / "imagenet-sample/images").rglob("*.*")) + sorted((kit / "tiny-imagenet/tree").rglob("*.JPEG"))
    found = twins_of([Image.open(file) for file in files[:300]])
    assert len(files) > 40 and (found.by_set == -1).all()


def test_photographs_that_were_encoded_again_are_found(kit):
    images = [Image.open(file) for file in sorted((kit / "tiny-imagenet/tree").rglob("*.JPEG"))[:200:4]]
    found = twins_of(images, [encoded(image.convert("RGB"), 60, 0.6) for image in images])
    assert len(images) > 20
    assert (found.by_set[0][len(images) :] == np.arange(len(images))).mean() > 0.9


def test_a_picture_of_another_colour_or_shape_is_another():
    one = picture(1)
    red = Image.fromarray(np.asarray(one)[..., [1, 0, 2]])  # of the same brightness
    wide = one.resize((160, 80))
    assert (twins_of([one, red, wide]).by_set == -1).all()


@pytest.mark.parametrize("image", [picture(0, (31, 80)), Image.new("RGB", (64, 64), (9, 90, 200))])
def test_what_shows_no_pattern_is_not_compared(image):
    assert fingerprint(pixels(image)) is None
    assert (twins_of([image, image]).by_set == -1).all()


@pytest.mark.parametrize("channels", [1, 4])
def test_pictures_of_other_channels_are_compared(channels):
    shown = pixels(picture(0)).repeat(2, 1, 1)[:channels]
    assert fingerprint(shown).pattern.shape == (99,)
    assert fingerprint(shown.float() / 255) is None


def test_twins_of_other_classes_are_told():
    images = [picture(0), picture(1), encoded(picture(0), 70), encoded(picture(1), 70)]
    assert twins_of(images, classes=[0, 0, 1, 0]).contrary.tolist() == [-1, -1, 0, -1]


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_all_near_hashes_are_found_without_comparing_every_two(seed, size):
    """Against every pair, for hashes some of which are copies with a few bits turned."""
    chance = np.random.default_rng(seed)
    hashes = chance.integers(0, 2**63, size, dtype=np.int64).astype(np.uint64)
    for copy in range(size // 2, size):
        turned = chance.choice(64, chance.integers(0, 8), replace=False).astype(np.uint64)
        hashes[copy] = hashes[copy - size // 2] ^ np.bitwise_or.reduce(np.uint64(1) << turned, initial=np.uint64(0))
    found = {
        tuple(sorted(pair))
        for one, other in likeness._near(hashes, np.arange(size))
        for pair in zip(one.tolist(), other.tolist(), strict=True)
    }
    pairs = combinations(range(size), 2)
    assert found == {(a, b) for a, b in pairs if np.bitwise_count(hashes[a] ^ hashes[b]) <= FEW_BITS}


def test_many_equal_hashes_are_compared_with_some_neighbours_alone():
    hashes = np.zeros(1000, np.uint64)
    pairs = sum(len(one) for one, _ in likeness._near(hashes, np.arange(1000)))
    assert pairs == sum(1000 - offset for offset in range(1, likeness.WINDOW + 1))
