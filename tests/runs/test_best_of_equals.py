"""Which of several equal scores best.ckpt is of, and what the help says of it."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from vit_lightning.cli.help import OUR_SENTENCES


@pytest.mark.parametrize(("mode", "later", "is_taken"), [("max", 0.5, False), ("max", 0.6, True), ("min", 0.5, False)])
def test_the_first_of_equal_scores_stays_the_best(mode, later, is_taken):
    keeps = ModelCheckpoint(monitor="val/top1", mode=mode)
    keeps.best_k_models, keeps.kth_best_model_path = {"best.ckpt": torch.tensor(0.5)}, "best.ckpt"
    trainer = SimpleNamespace(strategy=SimpleNamespace(reduce_boolean_decision=bool))
    assert keeps.check_monitor_top_k(trainer, torch.tensor(later)) is is_taken


def test_the_help_says_so():
    assert "of equal scores the first" in OUR_SENTENCES["checkpoint.monitor"][0]
