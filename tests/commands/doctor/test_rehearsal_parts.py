"""A rehearsal over a stand-in for the trainer: what is left out of it, and what its end means."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint, RichProgressBar

from vit_lightning.callbacks.timely_end import TimelyEnd
from vit_lightning.commands.doctor import rehearsal as module
from vit_lightning.commands.doctor.findings import TOO_FEW
from vit_lightning.commands.doctor.rehearsal import FirstStepReached, rehearse
from vit_lightning.errors import InputError
from vit_lightning.runs.checkpoints import LastCheckpoint


class Own(Callback): ...


def made(cls):
    """A callback without its own beginning."""
    return object.__new__(cls)


def data(**facts) -> SimpleNamespace:
    usual = {
        "faults": ["one"],
        "workers": 8,
        "num_workers": 8,
        "on_error": "raise",
        "max_broken": 0.01,
        "batch_size": 4,
    }
    return SimpleNamespace(**usual | facts)


def trainer(end=None, said: str = "", **facts) -> SimpleNamespace:
    def fit(model, datamodule) -> None:
        print(said)
        if end is not None:
            raise end

    usual = {"world_size": 1, "num_sanity_val_steps": 2, "limit_train_batches": 1.0, "loggers": [1], "callbacks": []}
    return SimpleNamespace(fit=fit, **usual | facts)


def test_what_saves_shows_or_ends_is_left_out_and_images_are_skipped():
    best = ModelCheckpoint(save_on_exception=True)
    own = Own()
    left_out = [made(LastCheckpoint), RichProgressBar(), made(TimelyEnd)]
    given, images = trainer(callbacks=[left_out[0], own, left_out[1], best, left_out[2]]), data()
    rehearse(given, None, images, 7)
    *kept, last = given.callbacks
    assert kept == [own, best] and best.save_on_exception is False and given.loggers == []
    with pytest.raises(FirstStepReached):
        last.on_after_backward(given, None)
    assert (images.faults, images.num_workers, images.on_error, images.max_broken) == (None, 1, "skip", 1.0)
    assert (given.num_sanity_val_steps, given.limit_train_batches) == (2, 1.0)
    rehearse(given, None, images := data(workers=0), 7)
    assert images.num_workers == 0


@pytest.mark.parametrize(("asked", "taken"), [(0, 1), (1, 1), (2, 2), (-1, -1)])
def test_a_validation_batch_is_looked_at(asked, taken):
    given = trainer(num_sanity_val_steps=asked)
    rehearse(given, None, data(), 7)
    assert given.num_sanity_val_steps == taken


@pytest.mark.parametrize(("devices", "batches"), [(1, 1.0), (2, 7)])
def test_of_several_devices_one_is_left_with_its_batches(monkeypatch, devices, batches):
    reduced = []
    monkeypatch.setattr(module, "use_one_device", reduced.append)
    given = trainer(world_size=devices)
    rehearse(given, None, data(), 7)
    assert given.limit_train_batches == batches and reduced == [given] * (devices > 1)


@pytest.mark.parametrize(
    ("end", "finding"),
    [
        (None, None),
        (FirstStepReached(), None),
        (InputError("3 images are " + TOO_FEW), ("error", "batch", "3 images are " + TOO_FEW)),
        (InputError("no such net"), ("error", "config", "no such net")),
        (torch.OutOfMemoryError("x"), ("note", "memory", "the memory here does not suffice for 4 images a step")),
    ],
)
def test_what_an_end_means(end, finding):
    found = rehearse(trainer(end), None, data(), 7)
    assert found.failure is None
    assert [(each.severity, each.topic, each.text) for each in found.findings] == [finding] * (finding is not None)
    if finding and finding[1] == "memory":
        assert found.findings[0].fix == "benchmark --batches auto finds the largest batch"


@pytest.mark.parametrize("end", [RuntimeError("shape"), ValueError("x"), KeyError("y")])
def test_another_failure_is_kept_with_what_was_found(end):
    found = rehearse(trainer(end, "warning  a\nplain\nwarning  b\nwarning  a"), None, data(), 7)
    assert found.failure is end
    assert [(each.severity, each.topic, each.text) for each in found.findings] == [
        ("warning", "run", "a"),
        ("warning", "run", "b"),
    ]
