"""A least value of a metric."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.callbacks import Require
from vit_lightning.callbacks.require import required
from vit_lightning.errors import InputError


def ended(trains: bool = True, fast_dev_run: bool = False, **metrics: float) -> None:
    callback = Require("val/top1", 0.5)
    values = {name.replace("_", "/"): torch.tensor(v) for name, v in metrics.items()}
    trainer = SimpleNamespace(callback_metrics=values, fast_dev_run=fast_dev_run, callbacks=[callback])
    if trains:
        callback.on_train_start(trainer, None)
    callback.on_fit_end(trainer, None)


def test_what_reaches_it_passes():
    ended(val_top1=0.5)
    ended(val_top1=0.75, val_loss=0.1)


def test_a_trial_of_one_batch_is_left_out():
    ended(fast_dev_run=True, val_top1=0.1)
    ended(fast_dev_run=True)


@pytest.mark.parametrize(
    ("trains", "metrics", "said"),
    [
        (True, {"val_top1": 0.4375}, "val/top1 ended at 0.4375, at least 0.5 is required"),
        (True, {"val_top1": float("nan")}, "val/top1 ended at nan, at least 0.5 is required"),
        (True, {"val_loss": 0.75}, "val/top1 was not logged, at least 0.5 is required"),
        (False, {}, "val/top1 was not logged, since nothing was left to train, at least 0.5 is required"),
    ],
)
def test_what_falls_short_is_an_error(trains, metrics, said):
    with pytest.raises(InputError) as told:
        ended(trains, **metrics)
    assert str(told.value) == said


@pytest.mark.parametrize(("verb", "ends"), [("validate", "on_validation_end"), ("test", "on_test_end")])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("top1", 0.5, None),
        ("{split}/top1", 0.75, None),
        ("top1", 0.25, "{split}/top1 ended at 0.2500, at least 0.5 is required"),
        ("top1", float("nan"), "{split}/top1 ended at nan, at least 0.5 is required"),
        ("top2", 0.9, "{split}/top2 was not logged, at least 0.5 is required; did you mean top1?"),
    ],
)
def test_a_score_below_its_bound_fails_what_scores(verb, ends, name, value, said):
    split = {"validate": "val"}.get(verb, verb)
    (callback,) = required(verb, {name.format(split=split): 0.5})
    scores = {f"{split}/top1": torch.tensor(value)}
    trainer = SimpleNamespace(
        callback_metrics=scores, fast_dev_run=False, state=SimpleNamespace(fn=verb), callbacks=[callback]
    )
    if said is None:
        getattr(callback, ends)(trainer, None)
        return
    with pytest.raises(InputError) as told:
        getattr(callback, ends)(trainer, None)
    assert str(told.value) == said.format(split=split)


def test_a_validation_inside_a_fit_and_the_other_split_are_not_judged():
    trainer = SimpleNamespace(callback_metrics={}, fast_dev_run=False, state=SimpleNamespace(fn="fit"))
    Require("val/top1", 0.5).on_validation_end(trainer, None)
    Require("val/top1", 0.5).on_test_end(trainer, None)


@pytest.mark.parametrize(
    ("verb", "name", "said"),
    [
        ("predict", "top1", "--at_least is for fit, validate, test, which score; drop it for predict"),
        ("test", "val/top1", "--at_least val/top1: test scores test; give top1, or test/top1"),
        ("fit", "loss", r"--at_least loss: less is better of it; give --at_most '\{loss: 0.5\}'"),
    ],
)
def test_a_bound_that_cannot_hold_is_refused(verb, name, said):
    with pytest.raises(InputError, match=said):
        required(verb, {name: 0.5})


def test_a_bound_of_a_file_is_left_to_the_verbs_that_have_the_score():
    bounds = {"val/top1": 0.5, "top5": 0.9}
    assert required("predict", bounds, is_typed=False) == []
    assert [one.metric for one in required("test", bounds, is_typed=False)] == ["test/top5"]
    assert [one.metric for one in required("fit", bounds, is_typed=False)] == ["val/top1", "val/top5"]


def test_a_bound_is_the_exit_status_of_fit_and_test(app):
    """The scores are printed and written all the same; the bound of a fit is none of its test."""
    data = (
        "--data",
        "Synthetic",
        "--data.train_size",
        16,
        "--data.eval_size",
        8,
        "--data.image_size",
        16,
        "--data.batch_size",
        8,
    )
    words = (*data, "--data.num_workers", 0, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert app("fit", *words, "--at_least", "{top1: 0}").code == 0
    done = app("fit", *words, "--at_least", "{top1: 1.0}")
    assert done.code == 1 and "error: val/top1 ended at 0." in done.err and "at least 1.0 is required" in done.err
    assert "next  " not in done.out and "run      runs/default/1" in done.out
    assert app("test", "runs/default/1").code == 0
    done = app("test", "runs/default/0", "--at_least", "{top1: 1.0}")
    assert done.code == 1 and "error: test/top1 ended at 0." in done.err and "best" not in done.err
    assert "8" in done.out and Path("runs/default/0/test.json").is_file()
    done = app("predict", "runs/default/0", "--at_least", "{top1: 0.5}")
    assert done.code == 1 and "--at_least is for fit, validate, test" in done.err


def test_without_a_bound_no_verb_is_held_to_one():
    for verb in ("fit", "predict", "export"):
        assert required(verb, None) == required(verb, {}) == []


def test_a_score_of_a_further_set_is_named_by_its_last_word():
    (callback,) = required("validate", {"val/real/top1": 0.5})
    assert callback.metric == "val/real/top1"
    with pytest.raises(InputError, match=r"--at_least test/real/top1: validate scores val; give top1, or val/top1"):
        required("validate", {"test/real/top1": 0.5})


@pytest.mark.parametrize(("name", "meant"), [("top-1", "top1"), ("val/Top_1", "top1"), ("macro-F1", "macro_f1")])
def test_a_score_that_is_spelled_otherwise_is_refused_at_the_start(name, meant):
    with pytest.raises(InputError, match=rf"--at_least {name}: no score has this name; did you mean {meant}\?"):
        required("fit", {name: 0.9})


@pytest.mark.parametrize(
    ("name", "bound", "said"),
    [
        ("top1", 90, "at_least 90 of val/top1 is no share, which lies between 0 and 1; for 90 % give 0.9"),
        (
            "val/macro_f1",
            1.5,
            "at_least 1.5 of val/macro_f1 is no share, which lies between 0 and 1; for 1.5 % give 0.015",
        ),
        ("top5", -0.5, "at_least -0.5 of val/top5 is no share, which lies between 0 and 1; give 0.9, say"),
        ("real/top1", 900, "at_least 900 of val/real/top1 is no share, which lies between 0 and 1; give 0.9, say"),
        ("top1", float("nan"), "at_least nan of val/top1 is no share, which lies between 0 and 1; give 0.9, say"),
    ],
)
def test_a_bound_of_a_share_is_one(name, bound, said):
    with pytest.raises(InputError) as told:
        required("fit", {name: bound})
    assert str(told.value) == said


def test_a_metric_of_ones_own_has_any_bound():
    (callback,) = required("fit", {"own": 90})
    assert callback.bounds == {"at_least": 90}


def test_every_bound_that_fails_is_named_and_no_other():
    callbacks = [*required("fit", {"top1": 0.5, "top5": 0.9, "macro_f1": 0.1}), Require("test/top1", 0.9)]
    scores = {"val/top1": torch.tensor(0.25), "val/top5": torch.tensor(0.5), "val/macro_f1": torch.tensor(0.5)}
    trainer = SimpleNamespace(callback_metrics=scores, fast_dev_run=False, callbacks=callbacks)
    assert callbacks[2].falls_short(trainer) == ""
    with pytest.raises(InputError) as told:
        callbacks[0].on_fit_end(trainer, None)
    both = ("val/top1 ended at 0.2500, at least 0.5", "val/top5 ended at 0.5000, at least 0.9")
    said = str(told.value)
    assert all(text in said for text in both) and "macro_f1" not in said and "test/" not in said


@pytest.mark.parametrize(("name", "meant"), [("topp1", "top1"), ("val/macro_f2", "macro_f1"), ("exact_mach", "exact")])
def test_a_score_that_is_near_one_of_ours_is_refused_at_the_start_where_no_other_can_be(name, meant):
    with pytest.raises(InputError, match=rf"--at_least {name}: no score has this name; did you mean {meant}"):
        required("fit", {name: 0.9}, others=())
    assert required("fit", {name: 0.9}, others=[name.rpartition("/")[2]])
    assert required("fit", {name: 0.9}, others=None)


def test_a_misspelt_bound_costs_no_training(app):
    words = ("--data", "Synthetic", "--data.train_size", 16, "--model.net.variant", "mu/8")
    done = app("fit", *words, "--trainer.accelerator", "cpu", "--at_least", "{topp1: 0.9}")
    assert done.code == 1 and "--at_least topp1: no score has this name; did you mean top1?" in done.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.5, None),
        (0.25, None),
        (0.75, "test/loss ended at 0.7500, at most 0.5 is required"),
        (float("nan"), "test/loss ended at nan, at most 0.5 is required"),
    ],
)
def test_a_loss_above_its_bound_fails_too(value, said):
    (callback,) = required("test", {"loss": 0.5}, flag="at_most")
    trainer = SimpleNamespace(callback_metrics={"test/loss": torch.tensor(value)}, fast_dev_run=False)
    assert callback.falls_short(trainer) == (said or "")


def test_bounds_of_the_other_side_and_none_at_all_are_refused():
    with pytest.raises(InputError, match=r"--at_most top1: more is better of it; give --at_least '\{top1: 0.5\}'"):
        required("fit", {"top1": 0.5}, flag="at_most")
    with pytest.raises(InputError, match="Require bounds val/top1 by nothing; give at_least or at_most"):
        Require("val/top1")
    with pytest.raises(InputError, match="at_most 5 of test/ece is no share"):
        required("test", {"ece": 5}, flag="at_most")
    both = Require("val/own", at_least=1, at_most=2)
    for value, said in ((0.5, "at least 1 is required"), (1.5, ""), (3.0, "at most 2 is required")):
        trainer = SimpleNamespace(callback_metrics={"val/own": torch.tensor(value)}, fast_dev_run=False)
        assert both.falls_short(trainer).endswith(said) and bool(said) == bool(both.falls_short(trainer))
