"""Callbacks and loggers of the user's: one or a list, beside ours, and a sentence where a package is missing."""

from pathlib import Path

import pytest
from lightning.pytorch.loggers import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

FIT = ("fit", "--data", "Synthetic", "--data.train_size", 16, "--data.eval_size", 8, "--data.num_workers", 0)
FIT += ("--data.batch_size", 8, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
FIT += ("--trainer.max_epochs", 1, "--trainer.log_every_n_steps", 1)


class Noting(CSVLogger):
    """Keeps the settings that it is handed."""

    def __init__(self) -> None:
        super().__init__("noted")

    def log_hyperparams(self, params):
        Path("noted.txt").write_text(repr(params))


@pytest.mark.parametrize("text", ["LearningRateMonitor", "{class_path: LearningRateMonitor}", "[LearningRateMonitor]"])
def test_one_callback_needs_no_list(app, text):
    Path("one.yaml").write_text(f"trainer: {{callbacks: {text}}}")
    for words in (("-c", "one.yaml"), ("--trainer.callbacks", text)):
        done = app(*FIT, *words)
        assert done.code == 0, done.err


def test_a_package_that_is_missing_is_one_sentence(app, monkeypatch):
    import lightning.pytorch.callbacks.device_stats_monitor as stats
    import lightning.pytorch.loggers.wandb as wandb
    from lightning_utilities.core.imports import RequirementCache

    lacking = RequirementCache("no_such_package>=1.0")
    monkeypatch.setattr(wandb, "_WANDB_AVAILABLE", lacking)
    monkeypatch.setattr(stats, "_PSUTIL_AVAILABLE", lacking)
    said = "needs a package that is not installed; run: pip install 'no_such_package>=1.0'"
    for words, name in (
        (("--trainer.logger", "WandbLogger"), "WandbLogger"),
        (("--trainer.callbacks", "DeviceStatsMonitor"), "DeviceStatsMonitor"),
    ):
        done = app(*FIT, *words)
        assert done.code == 1 and done.err.splitlines()[-1] == f"error: {name} {said}", done.err


@pytest.mark.parametrize("flag", ["--trainer.callbacks", "--trainer.callbacks+"])
def test_lightnings_tuner_callbacks_work_or_say_what_does(app, flag):
    done = app(*FIT, f"{flag}=LearningRateFinder")
    assert done.code == 1 and "Traceback" not in done.err
    said = "error: LearningRateFinder cannot set the learning rate of a recipe with a schedule; run the verb sweep"
    assert done.err.splitlines()[-1].startswith(said)
    assert app(*FIT, f"{flag}=BatchSizeFinder").code == 0


@pytest.mark.parametrize("flag", ["--trainer.logger", "--trainer.logger+"])
def test_settings_reach_every_logger_and_ours_stay(app, monkeypatch, flag):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    done = app(*FIT, f"{flag}=tests.cli.test_one_or_a_list.Noting", "--model.optim.lr", 0.005)
    assert done.code == 0, done.err
    run = Path("runs/default/0")
    assert (run / "metrics.csv").is_file() and list(Path("noted").rglob("metrics.csv"))
    noted = Path("noted.txt").read_text()
    assert "'model.optim.lr': 0.005" in noted and "'data.batch_size': 8" in noted and "'trainer.max_epochs': 1" in noted
    events = EventAccumulator(str(run / "tensorboard")).Reload()
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    shown = HParamsPluginData.FromString(content).session_start_info.hparams
    assert shown["model.optim.lr"].number_value == 0.005 and shown["model.net.variant"].string_value == "mu/8"
    assert "val/top1" in events.Tags()["scalars"] and "hp_metric" not in events.Tags()["scalars"]
