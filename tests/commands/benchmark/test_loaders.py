"""Loaders beside each other: what is counted, and that the peers' give what was asked for."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.augment import Augment
from vit_lightning.commands.benchmark import loaders
from vit_lightning.data.pixel_form import PixelForm
from vit_lightning.errors import InputError


@pytest.mark.parametrize(("workers", "expected"), [(0, 30.0), (2, 30.0)])
def test_images_per_second_begin_when_what_was_loaded_ahead_is_used_up(monkeypatch, workers, expected):
    """Batches of 15 images that take half a second each, after as many as workers have ahead for nothing."""
    now, given = [0.0], []

    class Loader:
        def __iter__(self):
            for _ in range(3):  # it is repeated
                now[0] += 0.5 if len(given) >= 1 + 2 * workers else 0.0
                given.append(1)
                yield torch.zeros(15, 3), torch.zeros(15)

    monkeypatch.setattr(loaders.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert loaders.speed(Loader(), workers, 2.0) == expected
    assert len(given) == 1 + 2 * workers + 4


def data(**facts) -> SimpleNamespace:
    chance = np.random.default_rng(0)
    images = [Image.fromarray(chance.integers(0, 256, (20, 30, 3), dtype=np.uint8)) for _ in range(7)]
    usual = {"train_set": [(image, label) for label, image in enumerate(images)], "size": (8, 12), "batch_size": 3}
    return SimpleNamespace(**usual | {"workers": 0, "pixel_form": PixelForm(), "augment": Augment()} | facts)


def test_torchvision_s_loader_gives_whole_batches_of_the_size_asked_for():
    found = list(loaders.torchvision(None, data()))
    assert [images.shape for images, _ in found] == [(3, 3, 8, 12)] * 2
    assert all(images.dtype == torch.uint8 for images, _ in found)
    labels = torch.cat([labels for _, labels in found]).tolist()
    assert len(set(labels)) == 6 and set(labels) < set(range(7))


def test_timm_s_loader_gives_whole_batches_of_the_size_asked_for():
    pytest.importorskip("timm")
    trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("cpu")))
    found = list(loaders.timm(trainer, data()))
    assert [tuple(images.shape) for images, _ in found] == [(3, 3, 8, 12)] * 2


def test_batches_on_the_device_have_met_the_datamodule_s_hook():
    trainer = SimpleNamespace(strategy=SimpleNamespace(batch_to_device=lambda batch: ("moved", batch)))
    module = SimpleNamespace(
        train_dataloader=lambda: ["a", "b"], on_after_batch_transfer=lambda batch, place: ("hooked", batch, place)
    )
    assert list(loaders.OnDevice(trainer, module)) == [("hooked", ("moved", name), 0) for name in "ab"]


def test_the_peers_read_every_form_of_a_file(tmp_path):
    (image, _), *_ = data().train_set
    image.save(tmp_path / "a.png")
    forms = [image, tmp_path / "a.png", str(tmp_path / "a.png"), (tmp_path / "a.png").read_bytes()]
    source = loaders.PillowImages([(form, np.int64(2)) for form in forms], np.asarray)
    assert len(source) == 4
    for number in range(4):
        pixels, label = source[number]
        assert np.array_equal(pixels, np.asarray(image)) and (label, type(label)) == (2, int)
    pytest.importorskip("timm")
    with pytest.raises(InputError, match="this data holds Tensors"):
        loaders.check_peers(SimpleNamespace(train_set=[(torch.zeros(3), 0)], pixel_form=PixelForm()))
