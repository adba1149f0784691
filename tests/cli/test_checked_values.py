"""Values that the parser lets through are refused in one sentence; null stands where a flag may be null."""

import re

import pytest
import torch
import yaml
from jsonargparse import Namespace

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.checked_values import _refuse_null, check_brackets, check_values, spell_nulls
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "Clasifier"), "no such model; did you mean Classifier? (known: Classifier, MaskedPatch)"),
        (("--model", "no_such.X"), "--model no_such.X: there is no module no_such"),
        (("--model", "torch.nn.Linear"), "--model torch.nn.Linear: that is no LightningModule"),
        (("--seed_everything", "-1"), "--seed_everything -1 must lie between 0 and 4294967295; true draws one"),
        (("--seed_everything", str(2**32)), "4294967296 must lie between"),
        (("--model.loss", "null"), "--model.loss null: it needs a value; --model.help Classifier says which"),
        (("--data.batch_size", "null"), "--data.batch_size null: it needs a value; --data.help Digits says which"),
        (("--trainer.gradient_clip_val", -1), "--trainer.gradient_clip_val is -1, expected 0 or more"),
        (("--trainer.check_val_every_n_epoch", 0), "--trainer.check_val_every_n_epoch is 0, expected 1 or more"),
        (("--trainer.val_check_interval", 0), "--trainer.val_check_interval is 0, expected more than 0"),
        (("--trainer.limit_train_batches", 0), "--trainer.limit_train_batches is 0, expected more than 0"),
        (("--trainer.log_every_n_steps", -1), "--trainer.log_every_n_steps is -1, expected 0 or more"),
        (("--model.optim.lr", "null"), "--model.optim.lr null: expected a number, such as 0.5"),
    ],
)
def test_wrong_words_get_one_sentence(app, words, said):
    done = app("fit", *words)
    assert done.code == 1 and said in done.err and len(done.err.splitlines()) == 1


def test_null_is_typed_as_a_mapping_where_a_flag_may_have_no_value():
    typed = ["fit", "--model.net.width", "null", "--model.net.pool=null", "--model.net.heads", "3", "--model.optim.lr"]
    line = CommandLine([*typed, "null", "--model.net.patch"])
    spell_nulls(line)
    assert line.words() == [
        *("fit", "--model.net={width: null}", "--model.net={pool: null}", "--model.net.heads=3"),
        *("--model.optim.lr=null", "--model.net.patch"),
    ]


def test_null_leaves_a_field_of_a_file_out(app, tmp_path):
    (tmp_path / "net.yaml").write_text(
        "model:\n  net: {variant: mu/8, position: sincos_2d, position_temperature: 30}\n"
    )
    words = ("--model.net.position", "learned", "--model.net.position_temperature")
    done = app("fit", "-c", tmp_path / "net.yaml", *words, "null", "--print_config")
    assert done.code == 0, done.err
    net = yaml.safe_load(done.out)["model"]["init_args"]["net"]
    assert (net["variant"], net["position"], net["position_temperature"]) == ("mu/8", "learned", None)
    assert "expected a number" in app("fit", *words[2:], "nul").err


def test_a_run_may_log_nothing_between_epochs(app):
    net = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.limit_train_batches", 2)
    done = app("fit", *net, "--trainer.max_epochs", 1, "--trainer.log_every_n_steps", 0)
    assert done.code == 0 and "epoch 1/1 done" in done.out, done.err


@pytest.mark.parametrize(
    ("name", "least", "below", "expected"),
    [
        ("accumulate_grad_batches", 1, 0, "1 or more"),
        ("check_val_every_n_epoch", 1, 0, "1 or more"),
        ("gradient_clip_val", 0, -0.5, "0 or more"),
        ("limit_train_batches", 0.001, 0.0, "more than 0"),
        ("log_every_n_steps", 0, -1, "0 or more"),
        ("num_sanity_val_steps", -1, -2, "-1 or more"),
        ("val_check_interval", 0.001, 0, "more than 0"),
    ],
)
def test_a_trainer_s_number_has_a_least_value(name, least, below, expected):
    def config(value: object) -> Namespace:
        classes = {part: Namespace(class_path=path) for part, path in PARTS.items()}
        return Namespace(seed_everything=2**32 - 1, trainer=Namespace({name: value}), **classes)

    for value in (least, None, 1000):
        check_values(config(value))
    with pytest.raises(InputError, match=f"^--trainer.{name} is {below:g}, expected {expected}$"):
        check_values(config(below))


PARTS = {"model": "vit_lightning.classifier.Classifier", "data": "datamodules.digits.Digits"}


@pytest.mark.parametrize(("seed", "right"), [(0, True), (2**32 - 1, True), (2**32, False), (-1, False)])
def test_a_seed_has_32_bits(seed, right):
    classes = {part: Namespace(class_path=path) for part, path in PARTS.items()}
    config = Namespace(seed_everything=seed, trainer=Namespace(), **classes)
    if right:
        check_values(config)
    else:
        with pytest.raises(InputError, match=f"--seed_everything {seed} must lie between 0 and 4294967295"):
            check_values(config)


@pytest.mark.parametrize(
    ("part", "name", "said"),
    [
        ("model", "loss", "--model.loss null: it needs a value; --model.help Classifier says which"),
        ("data", "batch_size", "--data.batch_size null: it needs a value; --data.help Digits says which"),
        ("model", "weights", None),
        ("model", "num_classes", None),  # the data tell it
        ("data", "mean", None),
        ("data", "unknown", None),
    ],
)
def test_null_is_refused_where_a_class_needs_a_value(part, name, said):
    classes = {each: Namespace(class_path=path) for each, path in PARTS.items()}
    classes[part].init_args = Namespace({name: None})
    config = Namespace(seed_everything=0, trainer=Namespace(), **classes)
    if said is None:
        check_values(config)
    else:
        with pytest.raises(InputError, match=re.escape(said)):
            check_values(config)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.finfo(torch.float32).max, None),
        (-torch.finfo(torch.float32).max, None),
        (3.5e38, "is 3.5e+38, expected a number up to 3.4e+38"),
        (-3.5e38, "is -3.5e+38, expected a number up to 3.4e+38"),
        (float("nan"), "is nan, expected a number up to 3.4e+38"),
        (2**63 - 1, None),
        (1 - 2**63, None),
        (2**63, "has 19 digits, expected a whole number up to 9223372036854775807"),
        (-(10**30), "digits, expected a whole number up to 9223372036854775807"),
        (True, None),
        ("1e999", None),
    ],
)
def test_numbers_are_those_of_a_net_at_any_depth(value, said):
    places = {
        "--model.a": {"a": value},
        "--model.a.b": {"a": {"b": [1, (2.5, value)]}},
        "--model.c": {"a": 1, "c": [Namespace(class_path="x"), Namespace(init_args=value)]},
    }
    for flag, given in places.items():
        classes = {part: Namespace(class_path=path) for part, path in PARTS.items()}
        classes["model"].init_args = Namespace(given)
        config = Namespace(seed_everything=0, trainer=Namespace(), **classes)
        if said is None:
            check_values(config)
        else:
            with pytest.raises(InputError, match=re.escape(said)) as told:
                check_values(config)
            assert str(told.value).startswith(flag)


@pytest.mark.parametrize("words", [["[0,", "4095]"], ["[0,", "4095", "]"], ["[", "0,4095]"]])
def test_a_list_that_the_shell_has_divided(words):
    line = CommandLine(["fit", "--data.window", *words, "--data.channels", "1"])
    said = f"--data.window {' '.join(words)} has spaces; type --data.window '[0,4095]'"
    with pytest.raises(InputError, match=re.escape(said)):
        check_brackets(line)
    for given in ("[0,4095]", "[0, 4095]", "auto"):
        check_brackets(CommandLine(["predict", "--data.window", given, "runs/x/0", "x.jpg"]))


class Needs:
    def __init__(self, size: int, other: int | None, unknown, num_classes: int, free: int | None = None) -> None: ...


def test_null_is_refused_where_an_argument_needs_a_value_alone():
    """Facts that the data fill in may be open still, and so may what the class does not know."""
    for name in ("other", "unknown", "num_classes", "free", "nothing_of_it"):
        _refuse_null("model", Needs, {name: None})
    with pytest.raises(InputError, match=r"^--model\.size null: it needs a value; --model\.help Needs says which$"):
        _refuse_null("model", Needs, {"size": None})
    _refuse_null("model", Needs, {"size": 0})
