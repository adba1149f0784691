"""The metric that chooses the best checkpoint, or ends a run early."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from vit_lightning.callbacks.monitors import MONITORING, Monitors, direction, resolve
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError

TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Synthetic")
SMALL = ("--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 16, "--data.num_workers", 0)
FIT = ("fit", *TINY, *SMALL)
COLOURS = ("--model", "MaskedPatch", "--model.target", "pixels")
LIGHTNINGS = "--trainer.callbacks+=lightning.pytorch.callbacks.EarlyStopping"
LOGGING = """
from lightning.pytorch import Callback


class Logging(Callback):
    def on_validation_epoch_end(self, trainer, pl_module):
        pl_module.log("val/own", 1.0)
"""


def best() -> dict:
    checkpoint = torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)
    return next(state for name, state in checkpoint["callbacks"].items() if name.startswith("ModelCheckpoint"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--checkpoint.monitor", "val/acc"),
            "val/acc is not logged by Classifier (known: val/loss, val/top1",
        ),
        (("--early_stopping.monitor", "val/tpo1", "--early_stopping.patience", 2), "did you mean val/top1?"),
        ((*COLOURS, "--checkpoint.monitor", "val/top1"), "val/top1 is not logged by MaskedPatch"),
        (
            (LIGHTNINGS, "--trainer.callbacks.monitor=val/f1"),
            "EarlyStopping's monitor val/f1 is not logged",
        ),
    ],
)
def test_an_unknown_metric_is_told_before_the_first_step(app, words, said):
    done = app(*FIT, *words)
    assert done.code == 1 and said in done.err.splitlines()[-1]
    assert "epoch 1" not in done.out


def test_the_name_of_a_metric_tells_what_is_best(app):
    assert app(*FIT, "--checkpoint.monitor", "val/top5").code == 0
    assert best()["monitor"] == "val/top5"
    config = Path("runs/default/0/config.yaml").read_text()
    assert "mode: max" in config and "mode: auto" not in config
    assert list(map(direction, ("val/loss", "train/loss", "val/real", "val/own"))) == ["min", "min", "max", None]


def test_a_metric_of_a_callback_from_elsewhere_needs_a_direction(app, tmp_path, monkeypatch):
    (tmp_path / "elsewhere.py").write_text(LOGGING)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = (*FIT, "--trainer.callbacks+=elsewhere.Logging", "--checkpoint.monitor", "val/own")
    done = app(*words)
    assert done.code == 1 and "--checkpoint.monitor val/own needs --checkpoint.mode: min or max" in done.err
    done = app(*words, "--checkpoint.mode", "max")
    assert done.code == 0, done.err


def test_a_metric_that_nobody_logs_is_one_sentence_also_where_it_is_found_late(app, tmp_path, monkeypatch):
    (tmp_path / "elsewhere.py").write_text(LOGGING)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("--trainer.callbacks+=elsewhere.Logging", "--checkpoint.monitor", "val/none", "--checkpoint.mode", "max")
    done = app(*FIT, *words)
    assert done.code == 1 and "--checkpoint.monitor val/none is logged by no validation" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


def test_a_moved_run_keeps_its_best(app, tmp_path):
    assert app(*FIT).code == 0
    score = best()["best_model_score"]
    (tmp_path / "runs/default/0").rename(tmp_path / "moved")
    state = tmp_path / "moved/checkpoints/best.ckpt"
    before = state.read_bytes()
    words = ("--ckpt_path", "moved/checkpoints/last.ckpt", "--trainer.max_epochs", 2, "--model.optim.lr", 0)
    done = app(*FIT, *words, "--model.schedule.allow_horizon_change", "true")
    assert done.code == 0, done.err
    assert f"best     moved/checkpoints/best.ckpt (top-1 {100 * float(score):.2f} %)" in done.out
    assert state.read_bytes() == before  # without its score, the equal second epoch would have replaced it


def watching(monitor: str | None = None, mode: str | None = "auto", patience: int | None = 3) -> SimpleNamespace:
    return SimpleNamespace(monitor=monitor, mode=mode, patience=patience)


@pytest.mark.parametrize(
    ("monitor", "mode", "own", "found", "undirected"),
    [
        (None, "auto", ("val/loss", "min"), ("val/loss", "min"), False),
        (None, None, ("val/top1", "max"), ("val/top1", "max"), False),
        (None, "max", ("val/top1", "max"), ("val/top1", "max"), False),
        ("val/top5", "auto", ("val/loss", "min"), ("val/top5", "max"), False),
        ("val/loss", None, ("val/top1", "max"), ("val/loss", "min"), False),
        ("val/own", "auto", ("val/top1", "max"), ("val/own", "min"), True),
        ("val/own", "max", ("val/loss", "min"), ("val/own", "max"), False),
        ("val/top1", "min", ("val/top1", "max"), ("val/top1", "min"), False),  # as asked
        (None, "auto", None, (None, "min"), False),
    ],
)
def test_what_a_config_leaves_open_is_the_model_s_or_the_table_s(monitor, mode, own, found, undirected):
    for part, other in (MONITORING, MONITORING[::-1]):
        config = {part: watching(monitor, mode), other: watching("val/loss", "min")}
        assert resolve(config, own) == [part] * undirected
        assert (config[part].monitor, config[part].mode) == found
        assert (config[other].monitor, config[other].mode) == ("val/loss", "min")


def test_what_is_off_is_left_alone_and_a_direction_alone_is_refused():
    config = {"checkpoint": watching(), "early_stopping": watching(None, None, None)}
    resolve(config, ("val/top1", "max"))
    assert (config["early_stopping"].monitor, config["early_stopping"].mode) == (None, None)
    for part, other in (MONITORING, MONITORING[::-1]):
        config = {part: watching(None, "min"), other: watching("val/loss", "min")}
        with pytest.raises(InputError, match=rf"--{part}.mode min is for a metric; give --{part}.monitor too"):
            resolve(config, ("val/top1", "max"))


@pytest.mark.parametrize(("batches", "monitor"), [([2], "val/top1"), ([0, 1], "val/top1"), ([0], None), ([], None)])
def test_without_validation_the_newest_state_is_the_best(batches, monitor):
    checkpoint, other = ModelCheckpoint(monitor="val/top1"), SimpleNamespace(monitor="val/top1")
    trainer = SimpleNamespace(
        enable_validation=False, num_val_batches=batches, checkpoint_callbacks=[checkpoint, other]
    )
    Monitors({}, ()).on_train_start(trainer, None)
    assert (checkpoint.monitor, other.monitor) == (monitor, "val/top1")


@pytest.mark.parametrize(
    ("metric", "undirected", "said"),
    [
        ("val/top1", (), None),
        ("train/loss", (), None),
        ("lr", (), None),
        (None, (), None),
        ("val/top2", (), "--checkpoint.monitor val/top2 is not logged by Classifier; did you mean val/top5?"),
        ("val/loss", ("checkpoint",), "--checkpoint.monitor val/loss needs --checkpoint.mode: min or max"),
        ("val/loss", ("early_stopping",), None),
    ],
)
def test_metrics_are_looked_for_among_the_model_s_scores(metric, undirected, said):
    flag = ModelCheckpoint(monitor=metric, mode="max")
    trainer = SimpleNamespace(callbacks=[flag], datamodule=None)
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8)
    watched = Monitors({"checkpoint": flag}, undirected)
    if said is None:
        watched.on_fit_start(trainer, model)
    else:
        with pytest.raises(InputError, match=re.escape(said)):
            watched.on_fit_start(trainer, model)


@pytest.mark.parametrize(
    ("metric", "sanity", "fn", "said"),
    [
        (
            "val/auroc_a",
            False,
            "fit",
            "--checkpoint.monitor val/auroc_a is logged by no validation; did you mean val/auroc",
        ),
        ("val/auroc", False, "fit", None),
        ("train/own", False, "fit", None),
        ("val/auroc_a", True, "fit", None),
        ("val/auroc_a", False, "validate", None),
    ],
)
def test_a_metric_of_an_own_model_is_looked_for_after_the_first_validation(metric, sanity, fn, said):
    flag = ModelCheckpoint(monitor=metric, mode="max")
    metrics = dict.fromkeys(("val/auroc", "val/loss"), 0.5)
    state = SimpleNamespace(fn=fn)
    trainer = SimpleNamespace(callbacks=[flag], sanity_checking=sanity, state=state, callback_metrics=metrics)
    watched = Monitors({"checkpoint": flag}, ())
    if said is None:
        watched.on_validation_end(trainer, SimpleNamespace())
    else:
        with pytest.raises(InputError, match=re.escape(said)):
            watched.on_validation_end(trainer, SimpleNamespace())
