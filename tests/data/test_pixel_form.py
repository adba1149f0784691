"""What an image holds against the channels asked for."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.data.images import BrokenImage, decode, load
from vit_lightning.data.pixel_form import PixelForm, ScaledValues, luminance
from vit_lightning.errors import InputError

CHANCE = np.random.default_rng(0)
COLOURS = CHANCE.integers(0, 256, (6, 5, 3), dtype=np.uint8)
FOUR = CHANCE.integers(0, 256, (6, 5, 4), dtype=np.uint8)


def saved(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def shown(image: Image.Image, channels: int | None, kind: str = "PNG", window=None, **options) -> np.ndarray:
    return decode(saved(image, kind, **options), name="picture", form=PixelForm(channels, window)).numpy()


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP"])
def test_grey_stays_grey(kind):
    grey = COLOURS[..., 0]
    assert (shown(Image.fromarray(grey), 1, kind) == grey[None]).all()
    assert (shown(Image.fromarray(grey), 3, kind) == np.stack([grey] * 3)).all()
    assert (shown(Image.fromarray(grey), None, kind) == np.stack([grey] * 3)).all()


def test_a_grey_jpeg_stays_what_its_decoder_shows():
    data = saved(Image.fromarray(COLOURS[..., 0]), "JPEG", quality=90)
    expected = np.asarray(Image.open(io.BytesIO(data)))
    assert (decode(data, name="x", form=PixelForm(1)).numpy() == expected[None]).all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_colours_become_their_luminance(kind):
    data = saved(Image.fromarray(COLOURS), kind)
    rgb = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(float)
    found = decode(data, name="x", form=PixelForm(1)).numpy()
    assert found.shape == (1, 6, 5)
    assert np.abs(found[0] - rgb @ [0.299, 0.587, 0.114]).max() <= 0.51


def test_luminance_is_pillow_s():
    expected = np.asarray(Image.fromarray(COLOURS).convert("L"))
    pixels = torch.from_numpy(COLOURS.transpose(2, 0, 1))
    assert (luminance(pixels)[0].numpy() == expected).all()
    assert np.abs(luminance(pixels.float() / 255)[0].numpy() * 255 - expected).max() <= 0.51


def test_transparency_is_the_fourth_band():
    assert (shown(Image.fromarray(FOUR), 4) == FOUR.transpose(2, 0, 1)).all()
    alpha = FOUR[..., 3:] / 255
    white = FOUR[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(shown(Image.fromarray(FOUR), 3) - white.transpose(2, 0, 1)).max() <= 1
    assert np.abs(shown(Image.fromarray(FOUR), 1)[0] - white @ [0.299, 0.587, 0.114]).max() <= 1.5
    floats = shown(Image.fromarray(FOUR), 4, window=(0, 4095))
    np.testing.assert_allclose(floats, FOUR.transpose(2, 0, 1) / 255, atol=1e-7)


def test_what_a_tool_packed_of_four_bands_is_four_bands_again():
    grey = Image.fromarray(FOUR[..., :2], "LA")
    assert (shown(grey, 4) == FOUR[..., [0, 0, 0, 1]].transpose(2, 0, 1)).all()
    assert (shown(grey, 2) == FOUR[..., :2].transpose(2, 0, 1)).all()
    few = Image.new("P", (3, 2), 0)
    assert shown(few, 4, transparency=0)[3].tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(
    ("image", "channels", "kind", "found"),
    [
        (Image.fromarray(COLOURS), 4, "PNG", "3 channels"),
        (Image.fromarray(COLOURS), 4, "JPEG", "3 channels"),
        (Image.fromarray(COLOURS), 2, "PNG", "3 channels"),
        (Image.fromarray(COLOURS[..., 0]), 4, "PNG", "1 channel"),
        (Image.fromarray(COLOURS[..., 0]), 4, "JPEG", "1 channel"),
        (Image.new("1", (3, 2), 1), 4, "PNG", "1 channel"),
        (Image.new("P", (3, 2), 0), 4, "PNG", "3 channels"),
        (Image.new("CMYK", (3, 2), (0, 255, 255, 0)), 4, "TIFF", "3 channels"),
        (Image.fromarray(FOUR), 2, "PNG", "4 channels"),
        (Image.fromarray(FOUR), 7, "PNG", "4 channels"),
    ],
)
def test_other_channels_are_an_error_that_names_the_file(image, channels, kind, found):
    with pytest.raises(BrokenImage, match=f"^picture: has {found}, but --data.channels asks for {channels}$"):
        shown(image, channels, kind)
    with pytest.raises(BrokenImage, match=f"^picture: has {found}, but the net takes {channels}$"):
        decode(saved(image, kind), name="picture", form=PixelForm(channels, asked=f"the net takes {channels}"))


def test_images_that_need_no_decoder():
    array, form = COLOURS, PixelForm(1)
    expected = np.asarray(Image.fromarray(COLOURS).convert("L"))
    for image in (array, torch.from_numpy(array.transpose(2, 0, 1)), Image.fromarray(array)):
        assert (load(image, name="x", form=form).numpy()[0] == expected).all()
    grey = torch.from_numpy(expected.copy())[None]
    assert torch.equal(load(grey, name="x", form=PixelForm(3)), grey.expand(3, -1, -1))
    assert torch.equal(load(grey, name="x"), grey), "without channels, tensors stay what they are"
    with pytest.raises(InputError, match=r"^x has 3 channels, but --data.channels asks for 4; an array is \(y, x, c\)"):
        load(array, name="x", form=PixelForm(4))


@pytest.mark.parametrize(
    ("values", "window", "scaled"),
    [
        ([0.0, 1.0], (0.0, 4095.0), True),
        ([0.0, 0.5], (0.0, 64.0), True),
        ([0.0, 0.5], (0.0, 63.0), False),  # which shows a few greys
        ([0.5, 0.5], (100.0, 164.0), True),
        ([0.0, 0.0], (0.0, 4095.0), False),  # black however it was meant
        ([0.0, 1.01], (0.0, 4095.0), False),
        ([-0.01, 1.0], (0.0, 4095.0), False),
        ([float("nan"), 1.0], (0.0, 4095.0), False),
        ([0.0, 1.0], None, False),
    ],
)
def test_floats_within_one_are_no_raw_counts_of_a_wide_window(values, window, scaled):
    image = np.array(values, np.float32)[None, None]
    assert PixelForm(1, window).is_scaled(image) is scaled
    assert not PixelForm(1, window).is_scaled(np.zeros((1, 1, 2), np.uint16))


def test_only_a_form_that_asks_for_raw_counts_refuses_others():
    image = np.array([0.0, 1.0], np.float32)[None, None]
    assert PixelForm(1, (0.0, 100.0)).of_values(image)[0, 0].tolist() == pytest.approx([0, 0.01])
    with pytest.raises(ScaledValues, match="values lie from 0 to 1, but the window 0 to 100 asks for raw counts"):
        PixelForm(1, (0.0, 100.0), counts=True).of_values(image)
    assert PixelForm(1, (0.0, 1.0), counts=True).of_values(image)[0, 0].tolist() == [0, 1]
