"""Early stopping: off by default, on the model's own metric, and its count survives a resume."""

import csv
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks import early_stopping
from vit_lightning.callbacks.early_stopping import EarlyStopping
from vit_lightning.errors import InputError

DATA = ("--data", "Synthetic", "--data.train_size", 16, "--data.eval_size", 8, "--data.batch_size", 8)
FIT = ("fit", *DATA, "--data.num_workers", 0, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
FIT += ("--model.optim.lr", 0, "--model.schedule.decay", "constant")  # nothing is learnt: no validation is better
STOPPED = "stopped early: val/top1 has not been better than"


def epochs() -> int:
    with Path("runs/default/0/metrics.csv").open(newline="") as file:
        return len([row for row in csv.DictReader(file) if row.get("val/top1")])


def test_a_run_goes_on_by_default(app):
    done = app(*FIT, "--trainer.max_epochs", 5)
    assert done.code == 0, done.err
    assert epochs() == 5
    assert STOPPED not in done.err


def test_patience_counts_validations_without_a_better_value(app):
    """The first one sets the best value, two more are waited for."""
    done = app(*FIT, "--trainer.max_epochs", 9, "--early_stopping.patience", 2)
    assert done.code == 0, done.err
    assert epochs() == 3
    assert STOPPED in done.err


def test_a_config_sets_it_and_any_metric_will_do(app):
    Path("default.yaml").write_text("early_stopping: {patience: 1, monitor: val/loss, mode: min}\n")
    done = app(*FIT, "-c", "default.yaml", "--trainer.max_epochs", 9)
    assert done.code == 0, done.err
    assert epochs() == 2
    assert "val/loss has not been better" in done.err


def test_the_count_survives_a_resume(app):
    settings = ("--early_stopping.patience", 3)
    assert app(*FIT, *settings, "--trainer.max_epochs", 2).code == 0
    assert app(*FIT, *settings, "--trainer.max_epochs", 9, "--ckpt_path", "last").code == 0
    assert epochs() == 4
    step = torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)["global_step"]
    again = app(*FIT, *settings, "--trainer.max_epochs", 9, "--ckpt_path", "last")
    assert again.code == 0 and STOPPED in again.err
    assert torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)["global_step"] == step
    more = app(*FIT, "--early_stopping.patience", 5, "--trainer.max_epochs", 9, "--ckpt_path", "last")
    assert more.code == 0, more.err
    assert epochs() == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--early_stopping.patience", -1), "patience is -1, expected 0 or more"),
        (("--early_stopping.min_delta", 0.1), "min_delta 0.1 does nothing without --early_stopping.patience"),
        (("--early_stopping.monitor", "val/loss"), "monitor val/loss does nothing without --early_stopping.patience"),
        (("--early_stopping.mode", "min"), "mode min does nothing without --early_stopping.patience"),
        (("--early_stopping.patience", 1, "--early_stopping.mode", "min"), "give --early_stopping.monitor too"),
        (("--checkpoint.mode", "min"), "--checkpoint.mode min is for a metric; give --checkpoint.monitor too"),
        (
            ("--early_stopping.patience", 2, "--early_stopping.monitor", "val/lss", "--early_stopping.mode", "min"),
            "val/lss",
        ),
        (("--early_stopping.patience", 2, "--trainer.limit_val_batches", 0), "needs a validation set"),
    ],
)
def test_impossible_settings_are_refused(app, words, said):
    refused = app(*FIT, *words)
    assert refused.code == 1
    assert said in refused.err.strip().splitlines()[-1]


def test_a_gain_below_min_delta_does_not_count():
    stopping = EarlyStopping(patience=2, min_delta=0.1, monitor="val/loss", mode="min")
    trainer = SimpleNamespace(
        sanity_checking=False, state=SimpleNamespace(fn="fit"), should_stop=False, callback_metrics={}
    )
    for loss, waited in ((1.0, 0), (0.95, 1), (0.8, 0), (float("nan"), 1), (0.75, 2)):
        trainer.callback_metrics["val/loss"] = torch.tensor(loss)
        stopping.on_validation_end(trainer, None)
        assert stopping.waited == waited
    assert trainer.should_stop and stopping.best == pytest.approx(0.8)


def test_patience_0_turns_off_what_a_file_sets(app):
    Path("default.yaml").write_text("early_stopping: {patience: 1, min_delta: 0.1}\n")
    done = app(*FIT, "-c", "default.yaml", "--early_stopping.patience", 0, "--trainer.max_epochs", 3)
    assert done.code == 0, done.err
    assert epochs() == 3
    assert app("fit", "-c", "runs/default/0/config.yaml").code == 0


def stopped(mode: str, values: list[float], patience: int = 2, min_delta: float = 0.25) -> tuple[list[int], list[bool]]:
    stopping = EarlyStopping(patience, min_delta, "val/x", mode)
    trainer = SimpleNamespace(
        sanity_checking=False, state=SimpleNamespace(fn="fit"), should_stop=False, callback_metrics={}
    )
    waited, ended = [], []
    for value in values:
        trainer.callback_metrics["val/x"] = torch.tensor(value)
        stopping.on_validation_end(trainer, None)
        waited.append(stopping.waited)
        ended.append(trainer.should_stop)
    return waited, ended


@pytest.mark.parametrize(("mode", "sign"), [("max", 1), ("min", -1)])
def test_both_directions_count_alike(mode, sign):
    """A gain of just min_delta is none; what is not better is compared with the best, not with the one before."""
    values = [sign * value for value in (1.0, 1.25, 1.5, 1.25, 1.75)]
    assert stopped(mode, values) == ([0, 1, 0, 1, 2], [False] * 4 + [True])


def test_other_validations_than_a_fit_s_do_not_count():
    stopping = EarlyStopping(1, 0.0, "val/x", "max")
    for facts in ({"sanity_checking": True}, {"fn": "validate"}):
        state = SimpleNamespace(fn=facts.get("fn", "fit"))
        trainer = SimpleNamespace(
            sanity_checking=facts.get("sanity_checking", False),
            state=state,
            should_stop=False,
            callback_metrics={"val/x": torch.tensor(1.0)},
        )
        stopping.on_validation_end(trainer, None)
    assert stopping.best is None


def test_a_count_is_kept_only_where_it_is_made():
    assert EarlyStopping().state_dict() == EarlyStopping(0).state_dict() == {}
    stopping = EarlyStopping(3, 0.0, "val/x", "max")
    stopping.load_state_dict({"best": 0.5, "waited": 2})
    assert stopping.state_dict() == {"best": 0.5, "waited": 2}


def test_what_is_no_number_is_never_the_best(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(early_stopping, "rank_zero_info", said.append)
    nan = float("nan")
    assert stopped("max", [nan, 0.5, nan, 0.25]) == ([1, 0, 1, 2], [False, False, False, True])
    assert stopped("min", [nan, nan]) == ([1, 2], [False, True])
    assert said == [
        "stopped early: val/x has not been better than 0.5 for 2 validations",
        "stopped early: val/x has not been a number for 2 validations",
    ]


@pytest.mark.parametrize(("monitor", "mode"), [(None, "max"), ("val/x", None)])
def test_a_metric_needs_its_name_and_its_direction(monitor, mode):
    stopping = EarlyStopping(1, 0.0, monitor, mode)
    with pytest.raises(InputError, match=r"give --early_stopping\.monitor and --early_stopping\.mode"):
        stopping.on_train_start(None, None)


def test_a_run_that_had_stopped_does_not_go_on(monkeypatch):
    monkeypatch.setattr(early_stopping, "validates", lambda trainer: True)
    for waited in (1, 2, 3):
        stopping, trainer = EarlyStopping(2, 0.0, "val/x", "max"), SimpleNamespace(should_stop=False)
        stopping.load_state_dict({"best": 0.5, "waited": waited})
        stopping.on_train_start(trainer, None)
        assert trainer.should_stop == (waited >= 2)
