"""A least value of a metric."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks import Require
from vit_lightning.errors import InputError


def ended(trains: bool = True, fast_dev_run: bool = False, **metrics: float) -> None:
    callback = Require("val/top1", 0.5)
    values = {name.replace("_", "/"): torch.tensor(v) for name, v in metrics.items()}
    trainer = SimpleNamespace(callback_metrics=values, fast_dev_run=fast_dev_run)
    if trains:
        callback.on_train_start(trainer, None)
    callback.on_fit_end(trainer, None)


def test_what_reaches_it_passes():
    ended(val_top1=0.5)
    ended(val_top1=0.75, val_loss=0.1)


def test_a_trial_of_one_batch_is_left_out():
    ended(fast_dev_run=True, val_top1=0.1)
    ended(fast_dev_run=True)


@pytest.mark.parametrize(
    ("trains", "metrics", "said"),
    [
        (True, {"val_top1": 0.4375}, "val/top1 ended at 0.4375, at least 0.5 is required"),
        (True, {"val_top1": float("nan")}, "val/top1 ended at nan, at least 0.5 is required"),
        (True, {"val_loss": 0.75}, "val/top1 was not logged, at least 0.5 is required"),
        (False, {}, "val/top1 was not logged, since nothing was left to train, at least 0.5 is required"),
    ],
)
def test_what_falls_short_is_an_error(trains, metrics, said):
    with pytest.raises(InputError) as told:
        ended(trains, **metrics)
    assert str(told.value) == said
