"""--trainer.enable_progress_bar false takes the bar away, and no line."""

import pytest

from tests.conftest import Outcome

FIT = ("fit", "--data", "Synthetic", "--data.train_size", 16, "--data.eval_size", 8, "--data.num_workers", 0)
FIT += ("--data.batch_size", 8, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")


def epochs(done: Outcome) -> list[str]:
    assert done.code == 0, done.err
    return [line.partition(" done")[0] for line in done.out.splitlines() if line.startswith("epoch ")]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_fit_without_a_bar_says_its_epochs(app, monkeypatch, is_terminal):
    monkeypatch.setattr("vit_lightning.callbacks.defaults.is_live", lambda: is_terminal)
    done = app(*FIT, "--trainer.max_epochs", 2, "--trainer.enable_progress_bar", "false")
    assert epochs(done) == ["epoch 1/2", "epoch 2/2"]
