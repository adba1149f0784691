"""A logger that must be told where to write, and is not, writes in the run folder."""

from pathlib import Path

import pytest
from lightning.pytorch.loggers.logger import DummyLogger as Logger

from vit_lightning.cli.logger_places import with_folder

FIT = ("fit", "--data", "Synthetic", "--data.train_size", 16, "--data.eval_size", 8, "--data.num_workers", 0)
FIT += ("--data.batch_size", 8, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
FIT += ("--trainer.max_epochs", 1, "--trainer.log_every_n_steps", 1)
LOGS = "lightning_logs/version_0"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--trainer.logger", "CSVLogger"), f"{LOGS}/metrics.csv"),
        (("--trainer.logger+", "CSVLogger", "--trainer.logger.name", "mine"), "mine/version_0/metrics.csv"),
        (("--trainer.logger", "lightning.pytorch.loggers.TensorBoardLogger"), f"{LOGS}/events*"),
        (("--trainer.logger", "[CSVLogger, TensorBoardLogger]"), "lightning_logs/*/events*"),
        (("-c", "one.yaml"), f"{LOGS}/metrics.csv"),
        (("-c", "named.yaml"), "mine/version_0/metrics.csv"),
    ],
)
def test_a_bare_logger_writes_in_the_run_folder(app, words, found):
    Path("one.yaml").write_text("name: run\ntrainer: {logger: CSVLogger}")
    Path("named.yaml").write_text("trainer: {logger: [{class_path: CSVLogger, init_args: {name: mine}}]}")
    done = app(*FIT, *words, "--name", "run")
    assert done.code == 0, done.err
    assert list(Path("runs/run/0").glob(found))
    assert Path("runs/run/0/metrics.csv").is_file() and not Path("lightning_logs").exists()


def test_the_run_goes_on_and_a_run_with_its_config_has_a_folder_of_its_own(app):
    assert app(*FIT, "--trainer.logger", "CSVLogger", "--name", "run").code == 0
    longer = ("--trainer.max_epochs", 2, "--model.schedule.allow_horizon_change", "true")
    done = app("fit", "runs/run/0", *longer)
    assert done.code == 0, done.err
    assert Path("runs/run/0/lightning_logs/version_1/metrics.csv").is_file()
    assert app("fit", "-c", "runs/run/0/config.yaml", "--name", "run").code == 0
    assert Path("runs/run/1", LOGS, "metrics.csv").is_file()
    done = app("test", "runs/run/1", "--trainer.logger", "CSVLogger")
    assert done.code == 0, done.err
    assert Path("runs/run/1/lightning_logs/version_1/metrics.csv").is_file()


@pytest.mark.parametrize(
    "said",
    [
        None,
        False,
        "MLFlowLogger",
        "no.such.Logger",
        {"class_path": "CSVLogger", "init_args": {"save_dir": "logs"}},
        [{"class_path": "MLFlowLogger"}],
        3,
    ],
)
def test_what_says_where_it_writes_or_has_a_place_of_its_own_stays(said):
    assert with_folder(said) == said


class Here(Logger):
    def __init__(self, save_dir: str = ".", name: str = "own") -> None:
        super().__init__()


@pytest.mark.parametrize("name", ["WandbLogger", f"{__name__}.Here"])
def test_one_that_writes_in_the_current_folder_unless_told_writes_in_the_run_folder(name):
    assert with_folder(name) == {"class_path": name, "init_args": {"save_dir": ""}}
    told = {"class_path": name, "init_args": {"save_dir": "."}}
    assert with_folder(told) == told
    unnamed = {"class_path": name, "init_args": {"name": "mine"}}
    assert with_folder([unnamed]) == [{"class_path": name, "init_args": {"name": "mine", "save_dir": ""}}]
