"""Whether a fit validates."""

from lightning.pytorch import Trainer


def validates(trainer: Trainer) -> bool:
    """Return whether a fit that starts has images to validate on.

    This loads the validation set's loaders: a resumed run would otherwise get them only at the end of an epoch.
    """
    if trainer.enable_validation and trainer.val_dataloaders is None:
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.setup_data()
        trainer.training = True
    return sum(trainer.num_val_batches) > 0
