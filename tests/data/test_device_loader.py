"""Batches that are varied on the device, several at once, are those that the host varies one by one."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.augment import Augment
from vit_lightning.data import ImageDataModule, device_loader
from vit_lightning.data.device_loader import DeviceLoader
from vit_lightning.data.resumable_loader import ResumableLoader

SIDE, BATCH, IMAGES = 8, 4, 30
RECIPE = Augment(crop="pad", rand_augment=(2, 10), erasing=0.5)


class Noise(ImageDataModule):
    num_classes = 3

    def setup(self, stage: str) -> None:
        dice = torch.Generator().manual_seed(0)
        pixels = torch.randint(0, 256, (IMAGES, 3, SIDE, SIDE), dtype=torch.uint8, generator=dice)
        self.train_set = [(image, index % 3) for index, image in enumerate(pixels)]
        self.val_set = self.train_set[:5]


def noise(device: str, **options) -> Noise:
    data = Noise(**{"image_size": SIDE, "batch_size": BATCH, "augment": RECIPE, "num_workers": 0} | options)
    data.trainer = SimpleNamespace(
        distributed_sampler_kwargs={"num_replicas": 1, "rank": 0},
        num_devices=1,
        training=False,
        state=SimpleNamespace(fn="fit"),
        strategy=SimpleNamespace(root_device=torch.device(device)),
    )
    data.setup("fit")
    return data


def on_cpu(loader: DeviceLoader) -> DeviceLoader:
    """The device's loader, whose device is the host here, so that the pixels can be equal."""
    assert type(loader) is DeviceLoader
    loader.device = torch.device("cpu")
    return loader


@pytest.mark.parametrize("batches", [1, 2, 5, 100])
def test_blocks_of_any_length_give_the_same_batches(batches, monkeypatch):
    monkeypatch.setattr(device_loader, "BYTES_AT_ONCE", batches * BATCH * 3 * SIDE * SIDE + 7)
    loader = on_cpu(noise("cuda").train_dataloader())
    assert loader.batches_at_once == batches
    expected, got = list(noise("cpu").train_dataloader()), list(loader)
    assert len(got) == len(expected) == len(loader) == IMAGES // BATCH
    for ours, theirs in zip(got, expected, strict=True):
        assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))


def test_a_resumed_run_goes_on_inside_a_block(monkeypatch):
    monkeypatch.setattr(device_loader, "BYTES_AT_ONCE", 3 * BATCH * 3 * SIDE * SIDE)
    loader = on_cpu(noise("cuda").train_dataloader())
    whole = list(loader)
    loader.batches_seen = lambda: 2
    rest = list(loader)
    assert len(rest) == len(whole) - 2
    assert all(torch.equal(ours[0], theirs[0]) for ours, theirs in zip(rest, whole[2:], strict=True))


def test_an_epoch_is_begun_before_the_one_before_it_ends(monkeypatch):
    monkeypatch.setattr(device_loader, "BYTES_AT_ONCE", 3 * BATCH * 3 * SIDE * SIDE)
    loader, fresh = (on_cpu(noise("cuda").train_dataloader()) for _ in range(2))
    varied, vary = [], loader.dataset.vary
    monkeypatch.setattr(loader.dataset, "vary", lambda batch: varied.append(batch) or vary(batch))
    assert_same(loader, fresh)
    assert len(varied) == 3 + 1
    for each in (loader, fresh):
        each.sampler.set_epoch(1)
    fresh._following = None
    assert_same(loader, fresh)
    assert len(varied) == 3 + 3 + 1


def test_an_epoch_that_was_not_next_is_begun_anew():
    loader, fresh = (on_cpu(noise("cuda").train_dataloader()) for _ in range(2))
    assert next(iter(loader)) and list(loader)  # the second begins where the first, which was left, had begun
    for each in (loader, fresh):
        each.sampler.set_epoch(5)
    assert_same(loader, fresh)


def test_an_epoch_that_was_begun_ahead_is_not_taken_for_a_run_that_stands_inside_it():
    """A second fit in the same process, from a checkpoint two batches into the epoch."""
    loader, fresh = (on_cpu(noise("cuda").train_dataloader()) for _ in range(2))
    assert list(loader) and loader._following[1].epoch == 1
    for each in (loader, fresh):
        each.sampler.set_epoch(1)
    whole = list(fresh)
    loader.batches_seen = lambda: 2
    rest = list(loader)
    assert len(rest) == len(whole) - 2
    assert all(torch.equal(ours[0], theirs[0]) for ours, theirs in zip(rest, whole[2:], strict=True))


def assert_same(ours: DeviceLoader, theirs: DeviceLoader) -> None:
    for mine, its in zip(ours, theirs, strict=True):
        assert all(torch.equal(*pair) for pair in zip(mine, its, strict=True))


def test_large_images_are_varied_batch_by_batch():
    assert noise("cuda", image_size=4096).train_dataloader().batches_at_once == 1


def test_what_varies_each_image_alone_stays_in_the_loader():
    assert type(noise("cuda", augment=Augment()).train_dataloader()) is ResumableLoader
    assert type(noise("cuda", augment_on_device=False).train_dataloader()) is ResumableLoader
    assert type(noise("cuda").val_dataloader()) is ResumableLoader


@pytest.mark.gpu
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_gpu_changes_what_the_host_would(share, monkeypatch):
    """Rounding may differ by one in the operations that interpolate or blend."""
    monkeypatch.setattr(device_loader, "SHARE", share)
    loader = noise("cuda").train_dataloader()
    for (images, labels), (expected, theirs) in zip(loader, noise("cpu").train_dataloader(), strict=True):
        assert images.is_cuda and torch.equal(labels.cpu(), theirs)
        assert ((images.cpu().int() - expected.int()).abs() > 1).float().mean() < 1e-3
    assert loader.dataset.source.images.is_cuda is (share > 0)


@pytest.mark.gpu
def test_batches_arrive_on_a_gpu_as_they_left():
    """Each is used late, when others have been sent after it."""
    options = {"augment_on_device": False}
    got = list(noise("cuda", **options).train_dataloader())
    for ours, theirs in zip(got, noise("cpu", **options).train_dataloader(), strict=True):
        assert all(mine.is_cuda and torch.equal(mine.cpu(), its) for mine, its in zip(ours, theirs, strict=True))
