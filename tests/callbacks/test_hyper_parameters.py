"""A run's settings in its loggers."""

from types import SimpleNamespace

import pytest
from lightning.pytorch import LightningModule

from vit_lightning.augment import Augment
from vit_lightning.callbacks import hyper_parameters
from vit_lightning.callbacks.hyper_parameters import HyperParameters
from vit_lightning.classifier import Classifier
from vit_lightning.runs.loggers import TensorBoard


class Board(TensorBoard):
    def __init__(self) -> None:
        self.handed: list[tuple] = []

    def log_hyperparams(self, *words) -> None:
        self.handed.append(words)


class Other:
    def __init__(self) -> None:
        self.handed: list[tuple] = []

    def log_hyperparams(self, *words) -> None:
        self.handed.append(words)


class Data(SimpleNamespace): ...


@pytest.mark.parametrize("validating", [True, False])
def test_every_logger_gets_the_settings_once_under_their_owners(monkeypatch, validating):
    monkeypatch.setattr(hyper_parameters, "validates", lambda trainer: validating)
    data = Data(
        batch_size=4, image_size=(8, 16), augment=Augment(mixup_alpha=0.25), fraction=0.5, per_class=3, root="x"
    )
    loggers = [Board(), Other()]
    facts = {"max_epochs": 7, "max_steps": 11, "precision": "32-true", "accumulate_grad_batches": 2}
    facts |= {"gradient_clip_val": 0.5, "world_size": 3}
    trainer = SimpleNamespace(datamodule=data, loggers=loggers, **facts)
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8, label_smoothing=0.125)
    callback = HyperParameters()
    for batch in range(2):
        callback.on_train_batch_start(trainer, model, None, batch)
    (settings, metrics), ((theirs,),) = loggers[0].handed[0], loggers[1].handed
    assert len(loggers[0].handed) == 1 and settings == theirs
    assert metrics == ({f"val/{name}": 0.0 for name in model.score_names} if validating else {})
    assert {name: value for name, value in settings.items() if name.startswith("trainer.")} == {
        f"trainer.{name}": value for name, value in facts.items()
    }
    assert (settings["data.name"], settings["data.batch_size"], settings["data.image_size"]) == ("Data", 4, "(8, 16)")
    assert (settings["data.fraction"], settings["data.per_class"]) == (0.5, 3)
    assert settings["data.augment.mixup_alpha"] == 0.25 and "data.root" not in settings
    assert (settings["model.name"], settings["model.label_smoothing"]) == ("Classifier", 0.125)
    assert settings["model.net.variant"] == "mu/8"


def test_a_foreign_model_names_no_scores(monkeypatch):
    """A LightningModule of somebody's own says nothing of what it logs."""
    monkeypatch.setattr(hyper_parameters, "validates", lambda trainer: True)
    facts = dict.fromkeys(hyper_parameters.OF_TRAINER, 1)
    trainer = SimpleNamespace(datamodule=Data(), loggers=[Board()], **facts)
    HyperParameters().on_train_batch_start(trainer, LightningModule(), None, 0)
    ((settings, metrics),) = trainer.loggers[0].handed
    assert (settings["model.name"], settings["data.name"], metrics) == ("LightningModule", "Data", {})
