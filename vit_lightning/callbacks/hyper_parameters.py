"""A run's settings in its loggers, so that runs can be compared by them."""

from dataclasses import asdict, is_dataclass
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from vit_lightning.callbacks.validation import validates
from vit_lightning.contracts import RecipeTrained
from vit_lightning.runs.loggers import TensorBoard, flat

OF_DATA = ("batch_size", "image_size", "augment", "fraction", "per_class")
OF_TRAINER = ("max_epochs", "max_steps", "precision", "accumulate_grad_batches", "gradient_clip_val", "world_size")


class HyperParameters(Callback):
    """Hand a run's settings to every logger: TensorBoard, W&B, MLflow. They begin with model, data or trainer."""

    def __init__(self) -> None:
        self._handed_over = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Not before the first batch, until which a run may be refused."""
        if self._handed_over:
            return
        self._handed_over = True
        settings, metrics = flat(_settings(trainer, pl_module)), {}
        if isinstance(pl_module, RecipeTrained) and validates(trainer):
            metrics = {f"val/{name}": 0.0 for name in pl_module.score_names}
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoard):
                logger.log_hyperparams(settings, metrics)
            else:
                logger.log_hyperparams(settings)


def _settings(trainer: Trainer, model: LightningModule) -> dict[str, Any]:
    data = trainer.datamodule  # type: ignore[attr-defined]  # set by Lightning from outside
    of_data = {"name": type(data).__name__}
    for name in OF_DATA:
        if hasattr(data, name):
            value = getattr(data, name)
            of_data[name] = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    of_trainer = {name: getattr(trainer, name) for name in OF_TRAINER}
    return {"model": {"name": type(model).__name__, **model.hparams}, "data": of_data, "trainer": of_trainer}
