"""One more validation where the steps end."""

from types import SimpleNamespace

import pytest

from vit_lightning.callbacks.final_validation import FinalValidation


def ended(**facts) -> SimpleNamespace:
    usual = {"should_stop": False, "global_step": 3, "max_steps": -1, "max_epochs": 4, "current_epoch": 0}
    trainer = SimpleNamespace(**usual | {"is_last_batch": False, "check_val_every_n_epoch": 5} | facts)
    FinalValidation().on_train_batch_end(trainer, None, None, None, 0)
    return trainer


@pytest.mark.parametrize(
    ("step", "most", "before", "after"),
    [(7, 8, False, False), (8, 8, False, True), (3, -1, False, False), (3, 8, True, True)],
)
def test_a_run_stops_at_its_last_step_alone(step, most, before, after):
    assert ended(should_stop=before, global_step=step, max_steps=most).should_stop == after


@pytest.mark.parametrize(
    ("facts", "every"),
    [
        ({}, 5),
        ({"global_step": 8, "max_steps": 8}, 1),
        ({"current_epoch": 3}, 5),
        ({"current_epoch": 2, "is_last_batch": True}, 5),
        ({"current_epoch": 3, "is_last_batch": True}, 1),
        ({"current_epoch": 3, "is_last_batch": True, "check_val_every_n_epoch": None}, None),
        ({"current_epoch": 3, "is_last_batch": True, "max_epochs": -1}, 5),
    ],
)
def test_the_end_of_a_run_is_validated_whatever_epochs_are(facts, every):
    assert ended(**facts).check_val_every_n_epoch == every


def test_a_run_of_fewer_epochs_than_validations_are_apart_has_its_best(app):
    words = ("--data", "Synthetic", "--data.train_size", 16, "--data.image_size", 8, "--data.batch_size", 8)
    words += ("--model.net.variant", "mu/4", "--trainer.max_epochs", 2, "--trainer.check_val_every_n_epoch", 5)
    done = app("fit", *words, "--trainer.accelerator", "cpu")
    assert done.code == 0, done.err
    assert "epoch 2/2 done" in done.out and "best " in done.out and done.out.count("val top-1") == 1
