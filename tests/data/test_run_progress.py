"""In which epoch a run ends."""

from types import SimpleNamespace

from vit_lightning.data.run_progress import last_epoch


def test_the_last_epoch_is_that_of_the_shorter_bound():
    def last(**settings) -> int:
        trainer = {"training": True, "limit_train_batches": 1.0, "max_epochs": None, "max_steps": -1}
        trainer |= {"accumulate_grad_batches": 1, "num_training_batches": 10} | settings
        return last_epoch(SimpleNamespace(**trainer))

    assert last(max_epochs=7) == 6
    assert last(max_steps=30) == 2
    assert last(max_steps=31) == 3
    assert last(max_steps=31, accumulate_grad_batches=4) == 12
    assert last(max_epochs=3, max_steps=100) == 2
    assert last(max_epochs=-1) > 10**9
    assert last(max_epochs=7, limit_train_batches=3) == 0
    assert last(max_epochs=7, limit_train_batches=1) == 0  # one batch, where 1.0 is all of them
    assert last(max_epochs=7, limit_train_batches=0.5) == 0
    assert last(max_epochs=7, training=False) == 0
    assert last_epoch(None) == 0
