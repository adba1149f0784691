"""One more validation where the steps end."""

from types import SimpleNamespace

import pytest

from vit_lightning.callbacks.final_validation import FinalValidation


@pytest.mark.parametrize(
    ("step", "most", "before", "after"),
    [(7, 8, False, False), (8, 8, False, True), (3, -1, False, False), (3, 8, True, True)],
)
def test_a_run_stops_at_its_last_step_alone(step, most, before, after):
    trainer = SimpleNamespace(should_stop=before, global_step=step, max_steps=most)
    FinalValidation().on_train_batch_end(trainer, None, None, None, 0)
    assert trainer.should_stop == after
