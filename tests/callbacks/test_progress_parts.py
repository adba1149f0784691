"""Each part of the progress of a run alone: when a line is due, what it counts, and what a bar's row holds."""

import io
import logging
import sys
from types import SimpleNamespace

import pytest
import torch

from tests.conftest import open_streams
from vit_lightning.callbacks import progress as module
from vit_lightning.callbacks import run_length
from vit_lightning.callbacks.progress import PlainProgress, RunBar

IMAGES, ROWS = (torch.zeros(2, 3), torch.zeros(2)), (torch.zeros(2, 3), torch.zeros(2, 4))
"""Batches whose images have one label, and several."""


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    open_streams()  # a row gives Lightning's loggers another
    clock = SimpleNamespace(now=1000.0)
    for each in (module, run_length):
        monkeypatch.setattr(each, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def lines(monkeypatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(module, "report", lines.append)
    return lines


def fit(verb: str = "fit", batches: int = 10, epochs: int = 2, **facts: object) -> SimpleNamespace:
    counted = SimpleNamespace(current=SimpleNamespace(ready=batches))
    usual = {
        "callbacks": [],
        "num_training_batches": batches,
        "accumulate_grad_batches": 1,
        "max_epochs": epochs,
        "max_steps": -1,
        "current_epoch": 0,
        "global_step": 0,
        "progress_bar_metrics": {},
        "callback_metrics": {},
        "lightning_module": None,
        "sanity_checking": False,
        "state": SimpleNamespace(fn=verb),
        "fit_loop": SimpleNamespace(epoch_loop=SimpleNamespace(batch_progress=counted)),
        "num_val_batches": [2, 1],
        "num_test_batches": [3, 1],
        "num_predict_batches": [2, 5],
    }
    return SimpleNamespace(**usual | facts)


def train(progress: module.RunProgress, trainer: SimpleNamespace, batch: int) -> None:
    trainer.global_step += 1
    progress.on_train_batch_end(trainer, None, None, None, batch)


def test_a_line_is_due_thirty_seconds_after_the_last(clock, lines):
    progress, trainer = PlainProgress(), fit(progress_bar_metrics={"val/top1": 0.25})  # of an earlier epoch
    progress.on_train_start(trainer, None)
    for batch, now in enumerate((1029.5, 1030.0, 1059.5, 1060.5, 1090.0)):
        clock.now = now
        train(progress, trainer, batch)
    # Ten batches an epoch: 18 and 16 are left, at 0.5 s and 31 s for what came after the first.
    assert lines == [
        "epoch 1/2, batch 2/10, step 2/20, 9.0 s left",
        "epoch 1/2, batch 4/10, step 4/20, 2 min 45 s left",
    ]
    clock.now = 1090.25
    progress.on_train_epoch_end(trainer, None)
    trainer.current_epoch, trainer.global_step = 1, 10
    clock.now = 1120.0
    train(progress, trainer, 0)
    assert len(lines) == 3 and lines[2].startswith("epoch 1/2 done, step 5/20, ")
    clock.now = 1120.25
    train(progress, trainer, 1)
    assert lines[3].startswith("epoch 2/2, batch 2/10, step 12/20, ")


def test_an_epoch_s_line_has_no_score_of_an_earlier_epoch(clock, lines):
    progress, trainer = PlainProgress(), fit(progress_bar_metrics={"val/top1": 0.25}, epochs=3)
    progress.on_train_start(trainer, None)
    for epoch, validated in enumerate((True, False, True)):
        trainer.current_epoch = epoch
        if validated:
            progress.on_validation_start(trainer, None)
            progress.on_validation_end(trainer, None)
        progress.on_train_epoch_end(trainer, None)
    assert ["val top-1 25.0 %" in line for line in lines] == [True, False, True]


def test_a_check_before_training_validates_no_epoch(clock, lines):
    progress, trainer = PlainProgress(0.0), fit(progress_bar_metrics={"val/top1": 0.25}, sanity_checking=True)
    progress.on_validation_start(trainer, None)
    progress.on_validation_batch_end(trainer, None, None, IMAGES, 0)
    progress.on_validation_end(trainer, None)
    assert lines == []
    trainer.sanity_checking = False
    progress.on_train_start(trainer, None)
    progress.on_train_epoch_end(trainer, None)
    assert lines == ["epoch 1/2 done, step 0/20"]


def test_scores_are_named_after_the_labels_of_the_first_set(clock, lines):
    progress, trainer = PlainProgress(), fit(progress_bar_metrics={"val/top1": 0.25})
    progress.on_train_start(trainer, None)
    for sets in ((IMAGES, ROWS), (ROWS, IMAGES)):
        progress.on_validation_start(trainer, None)
        for number, batch in enumerate(sets):
            progress.on_validation_batch_end(trainer, None, None, batch, 0, number)
        progress.on_validation_end(trainer, None)
        progress.on_train_epoch_end(trainer, None)
    assert [line.split(", ")[2] for line in lines] == ["val top-1 25.0 %", "val precision at 1 25.0 %"]


@pytest.mark.parametrize(
    ("verb", "hook", "batches", "said"),
    [
        ("validate", "validation", 3, "validated"),
        ("test", "test", 4, "tested"),
        ("predict", "predict", 7, "predicted"),
        ("fit", "validation", 3, "validated"),
    ],
)
def test_batches_of_all_sets_are_counted_from_the_beginning_each_time(clock, lines, verb, hook, batches, said):
    progress, trainer = PlainProgress(0.0), fit(verb)
    for _ in range(2):
        getattr(progress, f"on_{hook}_start")(trainer, None)
        for batch in range(batches):
            getattr(progress, f"on_{hook}_batch_end")(trainer, None, None, IMAGES, batch)
        getattr(progress, f"on_{hook}_end")(trainer, None)
    assert lines == 2 * [f"{said} {batch}/{batches} batches" for batch in range(1, batches + 1)]


def test_a_verb_s_first_line_is_due_after_its_beginning(clock, lines):
    progress, trainer = PlainProgress(), fit("test")
    progress.on_test_start(trainer, None)
    clock.now += 29
    progress.on_test_batch_end(trainer, None, None, IMAGES, 0)
    clock.now += 1
    progress.on_test_batch_end(trainer, None, None, IMAGES, 1)
    progress.on_test_batch_end(trainer, None, None, IMAGES, 2)
    progress.on_test_batch_end(trainer, None, None, IMAGES, 0, 1)
    assert lines == ["tested 2/4 batches"]
    progress.on_test_end(trainer, None)
    assert lines == ["tested 2/4 batches", "tested 4/4 batches"]
    progress.on_test_start(trainer, None)
    for batch in range(4):
        progress.on_test_batch_end(trainer, None, None, IMAGES, batch)
    progress.on_test_end(trainer, None)
    assert len(lines) == 2  # what took no time is not said


def test_what_is_disabled_is_silent_until_it_is_enabled(clock, lines):
    progress, trainer = PlainProgress(0.0), fit()
    progress.disable()
    progress.on_train_start(trainer, None)
    train(progress, trainer, 0)
    progress.on_train_epoch_end(trainer, None)
    progress.on_validation_start(trainer, None)
    progress.on_validation_batch_end(trainer, None, None, IMAGES, 0)
    progress.on_validation_end(trainer, None)
    assert lines == []
    progress.enable()
    train(progress, trainer, 1)
    assert lines == ["epoch 1/2, batch 2/10, step 2/20"]


@pytest.mark.parametrize(("share", "left"), [(0.99, ["5.0 s left"]), (None, ["5.0 s left"]), (1.0, [])])
def test_a_run_whose_time_is_over_has_none_left(clock, share, left):
    length = SimpleNamespace(seconds_left=lambda batches: 5.0, clock=lambda: ["1 of 2"], share=lambda batches: share)
    assert PlainProgress()._rest(length, 3) == ["1 of 2", *left]


# A bar ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def handler(monkeypatch):
    """A handler of a logger of Lightning's, and the stream that it writes to."""
    handler, logger = logging.StreamHandler(io.StringIO()), logging.getLogger("lightning.pytorch")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_row_follows_training_and_validation(clock, lines):
    bar, trainer = RunBar(), fit(progress_bar_metrics={"train/loss": 0.5})
    bar.on_train_start(trainer, None)
    try:
        assert (bar.row.head, bar.row.share, bar.row.state, bar.row.parts) == ("epoch 1/2", None, "", [])
        train(bar, trainer, 0)
        assert bar.row.share is None  # 0.5 s between two looks
        clock.now += 0.5
        train(bar, trainer, 1)
        assert (bar.row.head, bar.row.share, bar.row.state) == ("epoch 1/2", 0.1, "9.0 s left")
        assert bar.row.parts == ["step 2/20", "loss 0.5"]
        bar.on_validation_start(trainer, None)
        clock.now += 0.5
        bar.on_validation_batch_end(trainer, None, None, IMAGES, 0)
        assert (bar.row.head, bar.row.share, bar.row.state) == ("epoch 1/2", 0.1, "validating")
        bar.on_validation_end(trainer, None)
        assert bar._live is not None  # the fit goes on
        trainer.global_step = 10
        bar.on_train_epoch_end(trainer, None)
        assert (bar.row.share, bar.row.parts) == (0.5, ["step 10/20", "loss 0.5"])
        assert bar.row.state == "1.1 s left"  # 10 batches at 1 s / 9
        assert bar.width == bar._live.console.width
        bar._live.console.width = 20
        bar.on_train_epoch_end(trainer, None)
    finally:
        bar.on_train_end(trainer, None)
    assert bar._live is None and lines == ["epoch 1/2 done, step 10/20, loss 0.5, 1.1 s left", "epoch 1/2 done"]


def test_a_row_of_a_verb_begins_anew_and_tells_its_time(clock):
    bar, trainer = RunBar(0.0), fit("test")
    for _ in range(2):
        bar.on_test_start(trainer, None)
        assert (bar.row.head, bar.row.share, bar.row.state, bar.row.parts) == ("", None, "", [])
        clock.now += 6
        bar.on_test_batch_end(trainer, None, None, IMAGES, 0)
        assert (bar.row.head, bar.row.share, bar.row.parts) == ("tested", 0.25, ["1/4 batches"])
        assert bar.row.state == "18 s left"  # three at 6 s
        bar.on_test_end(trainer, None)
        assert bar._live is None


@pytest.mark.parametrize("end", ["on_train_end", "teardown", "on_exception"])
def test_messages_go_above_the_row_and_then_where_they_went_before(clock, handler, end):
    stream, bar, trainer = handler.stream, RunBar(), fit()
    bar.on_train_start(trainer, None)
    assert handler.stream is sys.stderr
    getattr(bar, end)(trainer, None, *([] if end == "on_train_end" else ["fit"]))
    assert handler.stream is stream and bar._live is None and bar.width is None
    bar.end()  # of what has ended, nothing


@pytest.mark.parametrize("verb", ["validate", "predict"])
def test_other_verbs_end_their_row(clock, verb):
    bar, trainer, hook = RunBar(), fit(verb), {"validate": "validation"}.get(verb, verb)
    getattr(bar, f"on_{hook}_start")(trainer, None)
    assert bar._live is not None
    getattr(bar, f"on_{hook}_end")(trainer, None)
    assert bar._live is None
