"""The window that is found in a set, and what loaders make of images of more than 8 bits."""

import io
import logging
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule
from vit_lightning.data import in_memory as memory
from vit_lightning.data import window as window_module
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.data.window import holds_scaled, window_of
from vit_lightning.errors import InputError

CHANCE = np.random.default_rng(0)
VALUES = CHANCE.normal(2000, 300, (12, 8, 8)).astype(np.uint16)


def png(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(values).save(file, "PNG")
    return file.getvalue()


DEEP = [(png(values), number % 3) for number, values in enumerate(VALUES)]
EIGHT = [(png(np.full((8, 8), number, np.uint8)), number % 3) for number in range(12)]


class Tiny(ImageDataModule):
    num_classes = 3

    def __init__(self, records=DEEP, **kwargs) -> None:
        settings = {"augment": Augment(crop="none", flip=False), "num_workers": 0, "batch_size": 4, "image_size": 8}
        super().__init__(**settings | kwargs)
        self.records = records

    def setup(self, stage: str) -> None:
        self.train_set = self.val_set = self.test_set = self.records


def data(**kwargs) -> Tiny:
    made = Tiny(**kwargs)
    made.setup("fit")
    return made


def batches(loader) -> torch.Tensor:
    return torch.cat([images for images, _ in loader])


def test_a_window_holds_nearly_all_values_and_is_the_same_every_time():
    low, high = window_of(DEEP)
    expected = np.quantile(VALUES, (0.001, 0.999))
    assert (low, high) == pytest.approx(expected, abs=120)
    assert np.mean((low <= VALUES) & (high >= VALUES)) > 0.99
    state = torch.get_rng_state(), np.random.get_state()[1].tolist()
    assert window_of(DEEP) == (low, high)
    assert torch.equal(state[0], torch.get_rng_state()) and state[1] == np.random.get_state()[1].tolist()


@pytest.mark.parametrize("looked_at", [3, 12, 20])
def test_so_many_images_from_anywhere_in_the_set_are_looked_at(monkeypatch, looked_at):
    class Asked(list):
        def __getitem__(self, index: int):
            asked.append(index)
            return super().__getitem__(index)

    asked: list[int] = []
    monkeypatch.setattr(window_module, "LOOKED_AT", looked_at)
    window_of(Asked(DEEP))
    assert len(asked) == len({*asked}) == min(looked_at, 12) and max(asked) > 5


def test_broken_and_8_bit_images_say_nothing_of_a_window():
    assert window_of([(b"", 0), *EIGHT[:3], *DEEP]) == pytest.approx(window_of(DEEP), abs=120)
    with pytest.raises(InputError, match=r"none of the 12 training images .* more than 8 bits; leave the flag out"):
        window_of(EIGHT)
    with pytest.raises(InputError, match=r"are 7; give --data.window '\[low,high\]'"):
        window_of([(png(np.full((4, 4), 7, np.uint16)), 0)])


@pytest.mark.parametrize("in_memory", [True, False])
def test_loaders_give_floats(in_memory):
    made = data(channels=1, window=(1000, 3000), in_memory=in_memory)
    expected = np.clip((VALUES.astype(float) - 1000) / 2000, 0, 1)[:, None]
    seen = batches(made.val_dataloader())
    assert seen.dtype == torch.float32
    np.testing.assert_allclose(seen.numpy(), expected, atol=1e-6)
    trained = batches(made.train_dataloader())
    assert trained.dtype == torch.float32 and trained.shape == (12, 1, 8, 8)
    assert sorted(trained.sum((1, 2, 3)).tolist()) == pytest.approx(sorted(expected.sum((1, 2, 3))), rel=1e-5)


def test_without_window_and_channels_all_is_as_ever():
    seen = batches(data().val_dataloader())
    assert seen.dtype == torch.uint8
    assert (seen.numpy() == np.round(VALUES / 257)[:, None].repeat(3, 1)).all()


def test_images_of_eight_bits_fit_into_the_batch():
    seen = batches(data(records=[*DEEP[:4], *EIGHT[:4]], channels=1, window=(0, 4095)).val_dataloader())
    assert seen[4:, 0, 0, 0].numpy() == pytest.approx(np.arange(4) / 255)


def test_a_broken_image_is_black_and_of_the_same_kind():
    for records in ([*DEEP[:3], (b"", 0)], [(b"", 0), *DEEP[:3]], [(b"", 0)] * 4):
        made = data(records=records, channels=1, window=(0, 4095), on_error="skip", max_broken=1.0, in_memory=False)
        seen = batches(made.val_dataloader())
        assert seen.dtype == torch.float32 and seen.shape == (4, 1, 8, 8)


def test_floats_count_four_bytes(monkeypatch):
    monkeypatch.setattr(memory, "BUDGET", 12 * 64)
    for window, held in ((None, True), ((0, 4095), False)):
        made = data(channels=1, window=window)
        made.val_dataloader()
        assert [kept is not None for _, kept in made.in_memory_sets.values()] == [held]


def test_the_loader_decodes_what_a_device_cannot(caplog):
    made = data(channels=1, decode_on_device=True, in_memory=False)
    root = SimpleNamespace(root_device=torch.device("cpu"))
    facts = {"distributed_sampler_kwargs": None, "num_devices": 1, "training": False}
    made.trainer = SimpleNamespace(strategy=root, lightning_module=None, **facts)
    with caplog.at_level(logging.INFO):
        images, _ = next(iter(made.train_dataloader()))
    assert images.shape == (4, 1, 8, 8)
    assert "the loader decodes these" in caplog.text


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("crop", ["none", "pad", "resmall", "inception"])
def test_what_varies_images_keeps_floats_in_their_range(in_memory, crop):
    augment = Augment(crop=crop, rotate=20, shift=0.1, scale=0.1, erasing=1.0)
    made = data(channels=1, window=(1500, 2500), in_memory=in_memory, augment=augment, image_size=16)
    seen = batches(made.train_dataloader())
    assert seen.dtype == torch.float32 and seen.shape == (12, 1, 16, 16)
    assert seen.min() >= 0 and seen.max() <= 1
    grey = (seen - 128 / 255).abs() < 1e-6
    assert grey.any(-1).any(-1).all(), "the erased box is grey"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"channels": 4, "augment": Augment(rand_augment=(2, 9))}, "--data.augment.rand_augment .* --data.channels 4"),
        ({"window": (0, 1), "augment": Augment(trivial_augment=True)}, "--data.augment.trivial_augment .* more:"),
        (
            {"window": "auto", "augment": Augment(preset="medium1")},
            "preset changes .*preset none, and vary .* 0.2 keeps the preset's MixUp",
        ),
        ({"window": (0, float("nan"))}, "low below high"),
        ({"window": (5, 1)}, r"--data.window is \[5,1\]"),
        ({"channels": 0}, "--data.channels is 0, expected 1 or more"),
        ({"channels": 2, "std": (1.0,)}, "--data.std is .* each of the 2 channels"),
    ],
)
def test_flags_that_cannot_go_together(settings, said):
    with pytest.raises(InputError, match=said):
        Tiny(**settings)


def test_colour_operations_on_grey_go_on():
    made = data(channels=1, augment=Augment(crop="none", rand_augment=(2, 9)), in_memory=False)
    assert batches(made.train_dataloader()).shape == (12, 1, 8, 8)


def test_a_window_is_looked_for_in_training_images():
    made = data(window="auto")
    assert made.pixel_form.window == window_of(DEEP)
    made.train_set = None
    del made.__dict__["found_window"]
    with pytest.raises(InputError, match="auto needs training images, or a checkpoint"):
        _ = made.pixel_form


def test_a_window_leaves_out_a_thousandth_at_each_end_of_all_sets_alike():
    ramp = np.arange(10_000, dtype=np.uint16).reshape(100, 100)
    low, high = window_of([(png(ramp), 0)] * 40)
    assert (low, high) == pytest.approx(np.quantile(ramp, (0.001, 0.999)), abs=5)
    values = np.full((64, 64), np.nan, np.float32)
    values[:32] = np.arange(32)[:, None]
    assert window_of([(values[..., None], 0)]) == (0, 31)


def test_images_from_everywhere_in_a_set_are_looked_at():
    dark, bright = png(np.full((4, 4), 1000, np.uint16)), png(np.full((4, 4), 3000, np.uint16))
    assert window_of([(dark, 0)] * 130 + [(bright, 1)] * 130) == (1000, 3000)


def test_a_set_of_floats_within_one_is_told_from_raw_counts():
    scaled, counts = (torch.rand(1, 8, 8), 0), (torch.rand(1, 8, 8) * 4095, 0)
    wide = PixelForm(1, (0.0, 4095.0))
    assert holds_scaled([scaled] * 2, wide) and holds_scaled([(scaled[0].numpy(), 0)], wide)
    assert not any(holds_scaled(some, wide) for some in ([], [counts], [scaled, counts], DEEP, EIGHT, [(b"broken", 0)]))
    assert not any(holds_scaled([scaled], form) for form in (PixelForm(1), PixelForm(1, (0.0, 1.0))))
    assert holds_scaled([scaled], PixelForm(1, (-1000.0, 400.0)))
    assert holds_scaled([scaled] * 3 + [counts] * 2, wide) and not holds_scaled([scaled] * 2 + [counts] * 3, wide)
    assert not holds_scaled([scaled] * 30 + [counts] * 50, wide)  # it is not the first ones that decide


@pytest.mark.parametrize("attribute", ["train_set", "val_set", "test_set"])
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_set_that_the_window_makes_black_ends_a_run(attribute, in_memory):
    scaled, counts = [(torch.rand(1, 8, 8), 0)] * 20, [(torch.rand(1, 8, 8) * 4095, 0)] * 20
    made = Tiny(channels=1, window=(0, 4095), augment=Augment(crop="none"), in_memory=in_memory, num_workers=0)
    made.setup("fit")
    made.train_set = made.val_set = made.test_set = counts
    sets = {"train_set": "train", "val_set": "val", "test_set": "test"}
    loaders = {name: getattr(made, f"{verb}_dataloader") for name, verb in sets.items()}
    setattr(made, attribute, scaled)
    for name, loader in loaders.items():
        said = r"images hold floats from 0 to 1, which --data.window \[0,4095\] makes black"
        with pytest.raises(InputError, match=said) if name == attribute else nullcontext():
            loader()
