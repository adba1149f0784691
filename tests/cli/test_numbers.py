"""Numbers that no net computes with: refused for every flag that takes one, before anything is built."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonargparse import Namespace

from tests.cli.parsers import flags_of, run_parser
from vit_lightning.cli.checked_values import check_values
from vit_lightning.cli.parser import chosen_parser
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, resolve
from vit_lightning.training.optim import Schedule

LONG = "1" + "0" * 400


def numeric() -> list[str]:
    """Flags of fit whose type has numbers."""
    actions = [action for parser in (run_parser("fit"), chosen_parser({})) for action in parser._actions]
    for part in list(actions):
        actions += getattr(getattr(part, "_name_parser_map", {}).get("fit"), "_actions", [])
    hints = {flag: str(getattr(a, "_typehint", a.type)) for a in actions for flag in a.option_strings}
    return [flag for flag in flags_of("fit") if re.search(r"\b(int|float)\b", hints.get(flag, ""))]


def numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, Namespace | dict):
        value = list((vars(value) if isinstance(value, Namespace) else value).values())
    if isinstance(value, list | tuple):
        for inside in value:
            yield from numbers(inside)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.parametrize("value", [".nan", "1e308", pytest.param(LONG, id="400 digits"), "abc"])
def test_every_flag_refuses_what_is_no_number_of_its_kind(value):
    parser, flags = run_parser("fit"), numeric()
    assert len(flags) > 60, flags
    for flag in flags:
        try:
            config = parser.parse_args(["fit", "--data=datamodules.digits.Digits", f"{flag}={value}"])["fit"]
            check_values(config)
        except (InputError, OverflowError):  # which the command line puts in a sentence
            continue
        assert all(abs(found) < 2**63 for found in numbers(config)), flag


def test_a_fit_as_it_is_by_default_is_taken():
    check_values(run_parser("fit").parse_args(["fit", "--data=datamodules.digits.Digits"])["fit"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model.net.layer_scale", "1e308"), "--model.net.layer_scale is 1e+308, expected a number up to 3.4e+38"),
        (("--model.net.head_bias", "1e308"), "--model.net.head_bias is 1e+308, expected a number up to 3.4e+38"),
        (("--trainer.overfit_batches", "1e308"), "--trainer.overfit_batches is 1e+308, expected a number up to"),
        (("--trainer.val_check_interval", "1e308"), "--trainer.val_check_interval is 1e+308, expected a number up to"),
        (("--trainer.max_steps", "1" + "0" * 30), "--trainer.max_steps has 31 digits, expected a whole number up to"),
        (("--early_stopping.min_delta", LONG), "--early_stopping.min_delta is too large"),
        (("--model.label_smoothing", ".nan"), "--model.label_smoothing is nan, expected a number up to"),
        (("--model.schedule.timescale", 0), "--model.schedule.timescale is 0; it must be positive"),
        (("--model.net.norm_eps", -1), "net.norm_eps is -1: choose a number above 0 and below 1"),
        (("--model.net.norm_eps", "1e30"), "net.norm_eps is 1e+30: choose a number above 0 and below 1"),
    ],
)
def test_the_flag_is_named(app, words, said):
    done = app("fit", "--trainer.accelerator", "cpu", *words)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("interval", [100, "1e30"])
def test_validation_more_rarely_than_every_epoch_is_one_sentence(app, interval):
    net = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.batch_size", 100)
    done = app("fit", *net, "--trainer.val_check_interval", interval)
    assert done.code == 1 and "Traceback" not in done.err
    said = done.err.splitlines()[-1]
    assert "--trainer.val_check_interval" in said and "an epoch has 12 training batches; give 12 or less" in said, said


@pytest.mark.parametrize("fields", [{"norm_eps": 0.0}, {"norm_eps": float("nan")}, {"layer_scale": 1e39}])
def test_a_net_refuses_them_by_itself(fields):
    with pytest.raises(InputError, match=f"net.{next(iter(fields))} is"):
        resolve(NetConfig(**fields))


@pytest.mark.parametrize("fields", [{"end_lr": float("nan")}, {"end_lr": -1.0}, {"timescale": 0}])
def test_a_schedule_refuses_them_by_itself(fields):
    with pytest.raises(InputError, match=f"--model.schedule.{next(iter(fields))} is .*; it must be "):
        Schedule(**fields)
