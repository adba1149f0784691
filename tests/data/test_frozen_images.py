"""Images that a verb only looks at: the datamodule behind them hears of everything as in a run."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch

from vit_lightning.data.frozen_images import FrozenImages


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("transfer_batch_to_device", ("batch", torch.device("cpu"), 1)),
        ("on_after_batch_transfer", ("batch", 1)),
        ("on_exception", (KeyError("x"),)),
    ],
)
def test_what_lightning_asks_the_datamodule_answers(name, words):
    data = MagicMock()
    found = getattr(FrozenImages(data), name)(*words)
    getattr(data, name).assert_called_once_with(*words)
    assert name == "on_exception" or found is getattr(data, name).return_value


def test_the_datamodule_knows_the_trainer_when_it_prepares():
    data, seen = SimpleNamespace(), []
    data.prepare_data = lambda: seen.append(data.trainer)
    images = FrozenImages(data)
    images.trainer = "trainer"
    images.prepare_data()
    assert seen == ["trainer"]
