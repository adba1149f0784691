"""The run folder: there once a run trains, untouched by one that is refused, and compared when a run goes on."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from vit_lightning.runs import record
from vit_lightning.runs.record import LOADING, TRAINER, RunRecord

DATA = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 8)
NET = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", 1)
FIT = ("fit", *DATA, *NET, "--data.num_workers", 0)
LONGER = ("--ckpt_path", "last", "--trainer.max_epochs", 2, "--model.schedule.allow_horizon_change", "true")


def content() -> dict[Path, bytes]:
    """All that a run holds."""
    return {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}


def differing(err: str) -> set[str]:
    return {line.partition("checkpoint: ")[2] for line in err.splitlines() if "differs from the checkpoint: " in line}


@pytest.mark.parametrize(
    "words",
    [
        ("--model.schedule.warmup_steps", 1000),
        ("--checkpoint.monitor", "val/nothing"),
        ("--trainer.max_epochs", 0),
        ("--trainer.devices", 2, "--trainer.strategy", "nonsense"),
        ("--data.batch_size", 33),
        ("--data.mean", "[0.5]"),
    ],
    ids=str,
)
def test_a_refused_run_leaves_no_folder(app, words):
    done = app(*FIT, *words)
    assert done.code == 1 and "error: " in done.err
    assert not Path("runs").exists()


def test_a_refused_run_leaves_the_folders_of_others(app):
    assert app(*FIT).code == 0
    before = content()
    assert app(*FIT, "--model.schedule.warmup_steps", 1000).code == 1
    assert content() == before and [path.name for path in Path("runs/default").iterdir()] == ["0"]


def test_a_failure_in_the_first_step_keeps_the_folder(app):
    done = app(*FIT, "--model.optim.lr", 1e30, "--trainer.max_epochs", 3)
    assert done.code == 1 and "is not finite" in done.err
    assert {"config.yaml", "env.json", "nonfinite.json"} <= {path.name for path in Path("runs/default/0").iterdir()}


def test_a_refused_resume_leaves_the_run_as_it_was(app):
    """From a checkpoint inside the run, whose later rows in metrics.csv a real resume would replace."""
    assert app(*FIT, "--trainer.max_epochs", 2, "--model.optim.lr", 0).code == 0  # so the first epoch is the best
    before = content()
    done = app(*FIT, "--ckpt_path", "best", "--trainer.max_epochs", 3)
    assert done.code == 1 and "planned for 8 optimiser steps" in done.err
    assert content() == before
    done = app(*FIT, "--ckpt_path", "best", "--trainer.max_epochs", 2, "--model.net.depth", 2)
    assert done.code == 1 and "the checkpoint holds another net" in done.err
    assert content() == before


def test_a_resume_says_what_of_data_and_trainer_differs(app, tmp_path):
    assert app(*FIT).code == 0
    changes = ("--data.batch_size", 16, "--data.augment.erasing", 0.5, "--data.num_workers", 1)
    changes += ("--trainer.gradient_clip_val", 1.5, "--trainer.accumulate_grad_batches", 2)
    longer = (*LONGER, "--trainer.max_epochs", 6)  # 1 step per epoch from now on, and 4 are done
    done = app(*FIT, *longer, *changes, "--trainer.log_every_n_steps", 5)
    assert done.code == 0, done.err
    assert differing(done.err) == {
        "images per batch: 8 -> 16",
        "data.batch_size: 8 -> 16",
        "data.augment.erasing: 0.0 -> 0.5",
        "trainer.max_epochs: None -> 6",
        "trainer.gradient_clip_val: None -> 1.5",
        "trainer.accumulate_grad_batches: 1 -> 2",
        "model.schedule.allow_horizon_change: False -> True",
    }
    again = app(*FIT, *LONGER, *changes, "--trainer.max_epochs", 9)  # the newest part of the run counts
    assert differing(again.err) == {"trainer.max_epochs: 6 -> 9"}


def test_a_field_that_came_after_a_checkpoint_is_compared_too(app):
    words = (*FIT, "--model.net.position", "sincos_2d")
    assert app(*words).code == 0
    path = Path("runs/default/0/checkpoints/last.ckpt")
    older = torch.load(path, weights_only=True)
    del older["hyper_parameters"]["net"]["position_temperature"]
    torch.save(older, path)
    done = app(*words, *LONGER, "--model.net.position_temperature", 30)
    assert done.code == 1 and "net.position_temperature: 10000.0 -> 30.0" in done.err
    assert app(*words, *LONGER).code == 0


def test_how_attention_began_stays_on_record(app):
    words = (*FIT, "--model.net.position", "sincos_2d", "--model.net.attention_init")
    assert app(*words, "local").code == 0
    done = app(*words, "xavier", *LONGER)
    assert done.code == 0 and "--model.net.attention_init xavier has no effect: the run began with local" in done.err
    last = torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)
    assert last["hyper_parameters"]["net"]["attention_init"] == "local" and last["epoch"] == 1


def test_the_best_stays_the_best_where_a_run_goes_on_inside_an_epoch_without_validation(app):
    words = (*FIT, "--trainer.check_val_every_n_epoch", 2, "--model.optim.lr", 0)  # no later state is better
    assert app(*words, "--trainer.max_epochs", 4, "--trainer.max_steps", 10).code == 0  # inside the third
    best = Path("runs/default/0/checkpoints/best.ckpt")
    before = best.read_bytes()
    done = app(*words, *LONGER, "--trainer.max_epochs", 4)
    assert done.code == 0 and "best.ckpt (top-1 " in done.out
    assert best.read_bytes() == before


def test_early_stopping_goes_on_inside_an_epoch_without_validation(app):
    words = (*FIT, "--trainer.check_val_every_n_epoch", 2, "--early_stopping.patience", 3)
    assert app(*words, "--trainer.max_epochs", 4, "--trainer.max_steps", 10).code == 0
    assert app(*words, *LONGER, "--trainer.max_epochs", 4).code == 0


def test_a_checkpoint_without_its_run_is_compared_with_nothing(app):
    assert app(*FIT).code == 0
    Path("runs/default/0/config.yaml").unlink()
    done = app(*FIT, *LONGER, "--data.batch_size", 16)
    assert done.code == 0, done.err
    assert differing(done.err) == {"images per batch: 8 -> 16", "model.schedule.allow_horizon_change: False -> True"}


@pytest.mark.parametrize(
    "words",
    [
        ("--trainer.enable_checkpointing", "false"),
        ("--trainer.check_val_every_n_epoch", "null", "--trainer.val_check_interval", 100),
    ],
    ids=str,
)
def test_a_run_without_a_best_checkpoint_names_none(app, words):
    done = app(*FIT, *words)
    assert done.code == 0, done.err
    assert "\nbest " not in done.out and "\nrun      " in done.out


class Parser:
    def dump(self, config: dict, skip_none: bool) -> str:
        return yaml.safe_dump(config if not skip_none else {})


DATA_FLAGS = {"root": "x", "batch_size": 8, **dict.fromkeys(LOADING, 1)}
TRAINER_FLAGS = {"log_every_n_steps": 1, **dict.fromkeys(TRAINER, 1)}
CONFIG = {"data": {"class_path": "A", "init_args": DATA_FLAGS}, "trainer": TRAINER_FLAGS}


def changed(part: str, name: str) -> dict:
    config = copy.deepcopy(CONFIG)
    (config["data"]["init_args"] if part == "data" else config[part])[name] = 2
    return config


@pytest.mark.parametrize(
    ("part", "name", "said"),
    [
        *(("trainer", name, True) for name in TRAINER),
        ("trainer", "log_every_n_steps", False),
        *(("data", name, False) for name in LOADING),
        ("data", "batch_size", True),
        ("data", "root", True),
    ],
)
def test_what_decides_what_a_run_learns_is_compared_with_its_last_part(tmp_path, monkeypatch, part, name, said):
    heard: list[str] = []
    monkeypatch.setattr(record, "rank_zero_info", heard.append)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(changed(part, name)))
    for number in (2, 10):
        (tmp_path / f"config.resume-{number}.yaml").write_text(yaml.safe_dump(CONFIG))
    now = RunRecord(Parser(), changed(part, name), tmp_path)
    now.on_load_checkpoint(None, None, {})
    old = CONFIG["trainer"][name] if part == "trainer" else DATA_FLAGS[name]
    assert heard == [f"differs from the checkpoint: {part}.{name}: {old} -> 2"] * said


def test_every_part_of_a_run_is_written_once_beside_the_others(tmp_path):
    for suffix in ("", ".resume-1", ".resume-2"):
        one = RunRecord(Parser(), {"seed_everything": suffix}, tmp_path)
        for _ in range(2):
            one.on_train_batch_start(None, SimpleNamespace(device=torch.device("cpu")), None, 0)
        assert yaml.safe_load((tmp_path / f"config{suffix}.yaml").read_text()) == {"seed_everything": suffix}
        assert json.loads((tmp_path / f"env{suffix}.json").read_text())["device"] == "cpu"
    assert len(list(tmp_path.iterdir())) == 6


def test_other_data_are_named():
    found = record.of_training({"data": {"class_path": "A"}, "trainer": {}})
    assert found["data"] == {"class_path": "A"} and set(found["trainer"]) == set(TRAINER)
    assert record.of_training({}) == {"data": {"class_path": None}, "trainer": dict.fromkeys(TRAINER)}
