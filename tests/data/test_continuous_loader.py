"""Workers that go on over the end of an epoch give the batches that they give when each epoch is begun anew."""

import pytest
import torch

from tests.data.test_device_loader import BATCH, IMAGES, Noise
from vit_lightning.augment import Augment
from vit_lightning.data.continuous_loader import ContinuousLoader
from vit_lightning.data.sampling import TrainSampler

RECIPE = Augment(crop="pad", flip=True, rotate=20)
WHOLE = IMAGES // BATCH


def made(last_epoch: int = 0, workers: int = 2, **options) -> ContinuousLoader:
    data = Noise(image_size=8, batch_size=BATCH, augment=RECIPE, num_workers=workers, in_memory=False, **options)
    data.setup("fit")
    loader = data.train_dataloader()
    loader.last_epoch = lambda: last_epoch
    return loader


def epoch_of(loader: ContinuousLoader, epoch: int, seen: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    loader.sampler.set_epoch(epoch)
    loader.batches_seen = lambda: seen
    images, labels = zip(*loader, strict=True)
    return torch.stack(images), torch.stack(labels)


def assert_equal(ours, theirs) -> None:
    assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))


def asked_for(loader: ContinuousLoader, monkeypatch) -> list[int]:
    """The epochs of all draws that workers are sent, as they come."""
    epochs: list[int] = []
    draws = TrainSampler.__iter__

    def watched(sampler):
        for draw in draws(sampler):
            epochs.append(draw.epoch)
            yield draw

    monkeypatch.setattr(TrainSampler, "__iter__", watched)
    return epochs


def test_epochs_are_the_same_and_begun_before_the_one_before_them_ends(monkeypatch):
    fresh = made()
    expected = [epoch_of(fresh, epoch) for epoch in range(3)]
    assert not torch.equal(expected[0][1], expected[1][1])  # another order
    ahead = made(last_epoch=2)
    epochs = asked_for(ahead, monkeypatch)
    assert_equal(epoch_of(ahead, 0), expected[0])
    assert set(epochs) == {0, 1}
    assert epochs.count(0) == WHOLE * BATCH  # 30 images are 7 batches of 4: the rest would shift the next epoch
    assert_equal(epoch_of(ahead, 1), expected[1])
    assert_equal(epoch_of(ahead, 2), expected[2])
    assert [epochs.count(epoch) for epoch in range(4)] == [28, 28, 28, 0]


def test_nothing_is_read_beyond_the_last_epoch(monkeypatch):
    loader = made(last_epoch=0)
    epochs = asked_for(loader, monkeypatch)
    epoch_of(loader, 0)
    assert set(epochs) == {0}
    assert_equal(epoch_of(loader, 1), epoch_of(made(), 1))  # a run that goes on after all


def test_a_run_resumes_inside_an_epoch_and_goes_on_with_the_next():
    whole, after = (epoch_of(made(), epoch) for epoch in (3, 4))
    loader = made(last_epoch=9)
    assert_equal(epoch_of(loader, 3, seen=5), [part[5:] for part in whole])
    assert_equal(epoch_of(loader, 4), after)


def test_an_epoch_that_was_left_is_begun_anew():
    """Validation inside an epoch keeps the iterator; an end of the run inside one does not."""
    loader = made(last_epoch=9)
    loader.sampler.set_epoch(0)
    assert next(iter(loader)) is not None
    assert_equal(epoch_of(loader, 0), epoch_of(made(), 0))


@pytest.mark.parametrize(("epoch", "seen"), [(0, 0), (5, 0), (1, 2)])
def test_what_was_begun_ahead_is_dropped_where_something_else_is_asked_for(epoch, seen):
    loader = made(last_epoch=9)
    epoch_of(loader, 0)
    whole = epoch_of(made(), epoch)
    assert_equal(epoch_of(loader, epoch, seen), [part[seen:] for part in whole])
    assert_equal(epoch_of(loader, epoch + 1), epoch_of(made(), epoch + 1))
