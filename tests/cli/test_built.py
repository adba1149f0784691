"""What the command line builds before its verb runs: trainer, loggers, checkpoints and their places."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from jsonargparse import Namespace
from lightning.pytorch.callbacks import ModelCheckpoint

from vit_lightning.callbacks.predictions import Predictions
from vit_lightning.cli import vit_cli
from vit_lightning.cli.vit_cli import ViTCLI, _as_list
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.runs.checkpoints import CheckpointFiles, LastCheckpoint
from vit_lightning.runs.loggers import MetricsCSV, TensorBoard
from vit_lightning.weights import Report
from vit_lightning.weights.layouts import checkpoint

TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false")
DATA = ("--data", "Synthetic", "--data.num_classes", 3, "--data.train_size", 8, "--data.eval_size", 8)


@pytest.fixture
def built(monkeypatch, tmp_path):
    """The application up to its verb."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIT_LIGHTNING_RUN", raising=False)
    monkeypatch.setattr(ViTCLI, "_run_subcommand", lambda self, verb: None)

    def run(*words: object, verb: str = "fit", data: tuple = DATA) -> ViTCLI:
        typed = [str(word) for word in (verb, *TINY, *data, *words)]
        monkeypatch.setattr("sys.argv", ["vit_lightning", *typed])
        return ViTCLI(typed)

    return run


@pytest.fixture
def trained(tmp_path) -> Path:
    """A checkpoint inside a run, at step 7."""
    path = tmp_path / "runs" / "mine" / "4" / "checkpoints" / "last.ckpt"
    path.parent.mkdir(parents=True)
    report = Report("", "", mean=(0.25,) * 3, std=(0.75,) * 3)
    checkpoint.write(build(NetConfig("mu/8"), 32, 3), report, path)
    content = torch.load(path, weights_only=True)
    progress = {name: {} for name in ("epoch_progress", "epoch_loop.batch_progress", "epoch_loop.state_dict")}
    state = {"optimizer_states": [{"state": {}, "param_groups": [{"params": [0]}]}], "lr_schedulers": []}
    torch.save(content | state | {"global_step": 7, "loops": {"fit_loop": progress}, "callbacks": {}}, path)
    return path


def last(cli: ViTCLI) -> LastCheckpoint:
    return next(callback for callback in cli.trainer.callbacks if isinstance(callback, LastCheckpoint))


def best(cli: ViTCLI) -> ModelCheckpoint:
    return next(
        c for c in cli.trainer.callbacks if isinstance(c, ModelCheckpoint) and not isinstance(c, LastCheckpoint)
    )


def test_a_run_s_defaults(app):
    config = yaml.safe_load(app("fit", "--print_config").out)
    assert config["seed_everything"] == 0 and config["trainer"]["log_every_n_steps"] == 10
    assert config["trainer"]["enable_model_summary"] is False
    chosen = {name: config["checkpoint"][name] for name in ("filename", "enable_version_counter", "mode", "monitor")}
    assert chosen == {"filename": "best", "enable_version_counter": False, "mode": "auto", "monitor": None}
    assert config["data"]["class_path"] == "datamodules.digits.Digits"
    assert config["model"]["class_path"] == "vit_lightning.classifier.Classifier"


@pytest.mark.parametrize(
    ("words", "epochs", "steps"),
    [
        ((), 1, -1),
        (("--trainer.max_epochs", 3), 3, -1),
        (("--trainer.max_steps", 5), None, 5),
        (("--trainer.max_steps", 5, "--trainer.max_epochs", 2), 2, 5),
        (("--trainer.max_time", "00:01:00:00"), None, -1),
    ],
)
def test_a_fit_without_a_limit_has_one_epoch(built, words, epochs, steps):
    trainer = built(*words).trainer
    assert (trainer.max_epochs, trainer.max_steps) == (epochs, steps)


def test_a_fit_writes_into_a_folder_of_its_own(built):
    cli = built()
    folder = Path("runs/default/0").resolve()
    assert cli.folder == cli.claimed == folder and folder.is_dir()
    assert Path(best(cli).dirpath) == Path(last(cli).dirpath) == folder / "checkpoints"
    assert [type(logger) for logger in cli.trainer.loggers] == [MetricsCSV, TensorBoard]
    assert (cli.trainer.loggers[0].resume_step, cli.trainer.loggers[1]._kwargs.get("purge_step")) == (0, None)
    assert Path(cli.trainer.loggers[0].log_dir) == folder
    assert Path(cli.trainer.loggers[1].log_dir) == folder / "tensorboard"
    assert type(cli.trainer.strategy.checkpoint_io) is CheckpointFiles
    assert best(cli).monitor == "val/top1" and best(cli).mode == "max"


def test_a_resumed_fit_goes_on_in_its_folder_and_at_its_step(built, trained):
    cli = built("--ckpt_path", trained, "--trainer.max_epochs", 2)
    assert cli.folder == trained.parents[1] and cli.claimed is None
    assert Path(best(cli).dirpath) == Path(last(cli).dirpath) == trained.parent
    assert (cli.trainer.loggers[0].resume_step, cli.trainer.loggers[1]._kwargs["purge_step"]) == (7, 7)
    assert not Path("runs/default").exists()


def test_places_and_loggers_that_are_given_stay(built):
    words = ("--checkpoint.dirpath", "here", "--last.dirpath", "there", "--trainer.default_root_dir", "mine")
    cli = built(*words, "--trainer.logger", "CSVLogger", "--trainer.logger.save_dir", "logs")
    assert Path(best(cli).dirpath).name == "here" and Path(last(cli).dirpath).name == "there"
    assert cli.folder == Path("mine/default/0").resolve()
    assert [type(logger).__name__ for logger in cli.trainer.loggers] == ["MetricsCSV", "TensorBoard", "CSVLogger"]


@pytest.mark.parametrize(
    ("words", "kept"), [(("--trainer.logger", "false"), True), (("--trainer.fast_dev_run", "true"), False)]
)
def test_what_keeps_nothing_has_no_logger(built, words, kept):
    cli = built(*words)
    assert [logger for logger in cli.trainer.loggers if isinstance(logger, MetricsCSV | TensorBoard)] == []
    assert (cli.folder is not None) == kept == Path("runs").exists()


def test_without_checkpoints_there_is_none(built):
    cli = built("--trainer.enable_checkpointing", "false")
    assert cli.trainer.checkpoint_callbacks == []


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_scoring_writes_nothing_and_takes_the_checkpoint_s_facts(built, trained, verb):
    cli = built("--ckpt_path", trained, verb=verb)
    assert cli.trainer.loggers == [] and cli.claimed is None and not Path("runs/default").exists()
    assert cli.model.hparams["mean"] == (0.25,) * 3 and cli.model.hparams["std"] == (0.75,) * 3
    (writes,) = [c for c in cli.trainer.callbacks if isinstance(c, Predictions)] or [None]
    assert (writes is not None) == (verb == "predict")
    if writes:
        assert (writes.path, writes.checkpoint) == (trained.parents[1] / "predictions.csv", str(trained))


def test_predictions_go_where_they_are_told(built, trained):
    cli = built("--ckpt_path", trained, "--trainer.default_root_dir", "mine", verb="predict")
    (writes,) = [c for c in cli.trainer.callbacks if isinstance(c, Predictions)]
    assert writes.path == Path("mine/predictions.csv") and Path("mine").is_dir()


def test_data_without_classes_take_the_checkpoint_s(built, trained, tmp_path):
    from PIL import Image

    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos/a.png")
    data = ("--data", "Images", "--data.files", "photos")
    cli = built("--ckpt_path", trained, verb="predict", data=data)
    assert (cli.model.hparams["num_classes"], cli.model.hparams["image_size"]) == (3, 32)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["a/x.yaml"], "x"),
        (["a/x.yaml", "a/y.yaml"], "x"),
        (["hardware/h.yaml", "a/y.yaml"], "y"),
        (["hardware/h.yaml"], "default"),
        ([], "default"),
    ],
)
def test_the_first_file_of_an_experiment_names_the_run(built, files, name):
    for file in files:
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text("trainer: {max_epochs: 1}\n")
    cli = built(*(word for file in files for word in ("-c", file)))
    assert cli.named.experiment == name and cli.folder == Path(f"runs/{name}/0").resolve()


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict"])
@pytest.mark.parametrize(("weights", "trained"), [(None, {}), ("x.npz", {}), ("x.npz", {"global_step": 1})])
def test_what_the_config_leaves_open_is_settled_before_anything_is_built(monkeypatch, verb, weights, trained):
    """Scoring needs a trained net; a checkpoint replaces weights; a new run of a tag takes what the tag names."""
    taken: list[Namespace] = []
    monkeypatch.setattr(vit_cli, "take_published", taken.append)
    monkeypatch.setattr(vit_cli, "default_precision", lambda *facts: facts[0] == verb and facts[2] is trained and "x")
    monkeypatch.setattr(vit_cli, "resolve", lambda config, own: [own])
    settings = Namespace(weights=weights)
    model = Namespace(init_args=settings, class_path="vit_lightning.classifier.Classifier")
    config = Namespace(model=model, data=Namespace(), trainer=Namespace(), report=False)
    cli = SimpleNamespace(subcommand=verb, trained=trained, config={verb: config})
    if verb != "fit" and not weights and not trained:
        with pytest.raises(InputError, match=rf"{verb} needs a trained net; give --ckpt_path last, best or a file"):
            ViTCLI.before_instantiate_classes(cli)
        return
    ViTCLI.before_instantiate_classes(cli)
    assert settings.weights == (None if trained else weights)
    assert taken == ([settings] if verb == "fit" and not trained else [])
    assert config.trainer.precision == "x" and cli.undirected == [("val/top1", "max")]


@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_fit_without_a_step_has_failed_and_any_other_is_reported_on_once(monkeypatch, is_wanted, is_first):
    reported: list[Path] = []
    monkeypatch.setattr(vit_cli, "report_on", reported.append)
    trainer = SimpleNamespace(global_step=8, is_global_zero=is_first)
    cli = SimpleNamespace(trainer=trainer, trained={"global_step": 7}, folder=Path("runs/a/0"), config={})
    cli._get = lambda config, key: {"report": is_wanted}[key]
    ViTCLI.after_fit(cli)
    assert reported == [Path("runs/a/0")] * (is_wanted and is_first)
    trainer.global_step = 0
    with pytest.raises(InputError, match="the run made no optimiser step"):
        ViTCLI.after_fit(cli)


@pytest.mark.parametrize(("value", "found"), [(None, []), (3, [3]), ([3, 4], [3, 4]), ((3,), [3]), ("ab", ["ab"])])
def test_one_or_a_list(value, found):
    assert _as_list(value) == found
