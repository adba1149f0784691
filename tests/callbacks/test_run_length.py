"""How long a fit is and how far it has come, by epochs, steps or time."""

import math
from types import SimpleNamespace

import pytest
from lightning.pytorch.callbacks import Timer

from vit_lightning.callbacks import run_length
from vit_lightning.callbacks.run_length import RunLength


def fit(batches: float = 5, epochs: int = -1, steps: int = -1, accumulation: int = 1, *callbacks) -> SimpleNamespace:
    return SimpleNamespace(
        callbacks=list(callbacks),
        num_training_batches=batches,
        accumulate_grad_batches=accumulation,
        max_epochs=epochs,
        max_steps=steps,
        current_epoch=0,
        global_step=0,
    )


@pytest.mark.parametrize(
    ("trainer", "where"),
    [
        (fit(epochs=12), ["epoch 1/12", "step 0/60"]),
        (fit(steps=12), ["epoch 1/3", "step 0/12"]),
        (fit(epochs=12, steps=7), ["epoch 1/2", "step 0/7"]),
        (fit(epochs=2, accumulation=2), ["epoch 1/2", "step 0/6"]),
        (fit(math.inf, steps=7), ["epoch 1", "step 0/7"]),
        (fit(math.inf, epochs=2), ["epoch 1", "step 0"]),
        (fit(), ["epoch 1", "step 0"]),
    ],
)
def test_epochs_and_steps_are_those_of_the_limit_that_comes_first(trainer, where):
    assert RunLength(trainer).where() == where


def test_the_last_of_twelve_epochs_is_the_twelfth():
    trainer = fit(epochs=12)
    length = RunLength(trainer)
    trainer.current_epoch, trainer.global_step = 11, 60
    assert length.where() == ["epoch 12/12", "step 60/60"] and length.share(5) == 1


@pytest.mark.parametrize(("accumulation", "steps", "batches"), [(1, 7, [5, 2]), (2, 7, [5, 5, 2]), (3, 2, [5])])
def test_the_last_epoch_has_the_batches_that_its_steps_need(accumulation, steps, batches):
    length = RunLength(fit(steps=steps, accumulation=accumulation))
    assert length.epochs == len(batches)
    assert [length.batches_in_epoch(epoch) for epoch in range(length.epochs)] == batches


def test_a_run_moves_with_every_batch_of_an_epoch_of_few():
    trainer = fit(batches=2, epochs=2, accumulation=2)
    length = RunLength(trainer)
    shares = [length.share(1), length.share(2)]
    trainer.current_epoch = 1
    assert [*shares, length.share(1), length.share(2)] == [0.25, 0.5, 0.75, 1]


def test_time_left_goes_by_the_batches_after_the_first(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(run_length, "time", SimpleNamespace(monotonic=lambda: clock.now))
    length = RunLength(fit(batches=5, epochs=2))
    assert length.seconds_left(0) is None
    length.begin(1)  # after 100 s, in which a kernel was compiled
    clock.now += 6
    assert length.seconds_left(4) == 6 / 3 * 6


def test_a_run_that_time_ends_shows_its_time(monkeypatch):
    timer = Timer(duration={"minutes": 10})
    monkeypatch.setattr(timer, "time_elapsed", lambda stage=None: 150.0)
    length = RunLength(fit(5, -1, -1, 1, timer))
    assert length.clock() == ["2 min 30 s of 10 min 00 s"]
    assert length.share(3) == 0.25 and length.seconds_left(3) == 450


def test_an_endless_run_has_no_share():
    length = RunLength(fit())
    assert length.share(3) is None and length.seconds_left(3) is None and length.clock() == []


def test_of_time_and_epochs_the_one_that_ends_first_counts(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(run_length, "time", SimpleNamespace(monotonic=lambda: clock.now))
    timer = Timer(duration={"minutes": 10})
    elapsed = 150.0
    monkeypatch.setattr(timer, "time_elapsed", lambda stage=None: elapsed)
    length = RunLength(fit(5, 2, -1, 1, timer))
    length.begin(0)
    clock.now += 20
    assert length.share(1) == 0.25 and length.share(5) == 0.5
    assert length.seconds_left(1) == 180 and length.seconds_left(5) == 20
    elapsed = 590.0
    assert length.share(5) == pytest.approx(59 / 60) and length.seconds_left(5) == pytest.approx(10)
    elapsed = 700.0  # the timer ends a run after the batch that is under way
    assert length.share(5) == 1


def test_epochs_of_unknown_length_are_counted_in_steps():
    trainer = fit(math.inf, steps=8, accumulation=2)
    length = RunLength(trainer)
    assert (length.batches, length.epochs, length.batches_in_epoch(0)) == (16, None, math.inf)
    trainer.global_step = 2
    assert length.done(77) == 4 and length.share(77) == 0.25


def test_the_time_left_goes_by_the_first_beginning(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(run_length, "time", SimpleNamespace(monotonic=lambda: clock.now))
    trainer = fit(batches=5, epochs=4)
    length = RunLength(trainer)
    length.begin(1)
    clock.now += 6
    length.begin(2)
    trainer.current_epoch = 2
    clock.now += 6
    assert length.done(3) == 13 and length.seconds_left(3) == 12 / 12 * 7
    assert RunLength(trainer).seconds_left(3) is None


def test_no_step_at_all_is_a_length_too():
    length = RunLength(fit(steps=0))
    assert (length.steps, length.batches, length.epochs, length.share(0)) == (0, 0, 0, None)
    assert RunLength(fit(epochs=0)).steps == 0
