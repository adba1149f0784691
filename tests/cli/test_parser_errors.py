"""jsonargparse's walls of text in one sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.cli.parser_errors import shorten

FLAGS = [
    "model.optim.lr",
    "model.optim.name",
    "model.net.depth",
    "model.loss",
    "data.root",
    "trainer.max_epochs",
    "last",
]
PLUGINS = ["CIFAR10", "CIFAR100", "Digits", "Pets"]
UNION = """Parser key "{key}":
  Does not validate against any of the Union subtypes
  Subtypes: [<class 'lightning.pytorch.core.module.LightningModule'>, <class 'NoneType'>]
  Errors:
    - {error}
    - Expected a <class 'NoneType'>
  Given value type: <class 'str'>
  Given value: {value}"""


CASES = {
    "there is no flag --trainer.max_epoch; did you mean --trainer.max_epochs?": (
        "unrecognized arguments: --trainer.max_epoch 3"
    ),
    "there is no flag --model.lrr; did you mean --model.optim.lr?": UNION.format(
        key="model", error="Option 'lrr' is not accepted", value="1"
    ),
    "there is no flag --model.optim.lr; model.optim has name": UNION.format(
        key="model", error="Group 'optim' does not accept option 'lr'", value="1"
    ),
    "there is no flag --model.optim.velocity; model.optim has lr, name": UNION.format(
        key="model", error="Group 'optim' does not accept option 'velocity'", value="1"
    ),
    "--data Petz: no such datamodule; did you mean Pets? (known: CIFAR10, CIFAR100, Digits, Pets)": UNION.format(
        key="data", error="Expected a dot import path string: Petz", value="Petz"
    ),
    "--trainer.max_epochs foo: expected a whole number, such as 8, or null": UNION.format(
        key="trainer.max_epochs", error="Expected a <class 'int'>", value="foo"
    ),
    "--model.optim.lr x: expected a number, such as 0.5": UNION.format(
        key="model",
        error="Parser key \"optim.lr\":\n        Expected a <class 'float'>. Got value: x",
        value="NestedArg(...)",
    ),
}


@pytest.mark.parametrize(("said", "message"), CASES.items(), ids=lambda text: text[:40])
def test_known_walls(said, message):
    assert shorten(message, FLAGS, PLUGINS) == said


@given(st.text(max_size=300))
def test_any_message_becomes_one_line(message):
    text = shorten(message, FLAGS, PLUGINS)
    assert len(text.splitlines()) <= 1 and len(text) <= 700


def test_a_flag_below_a_class_that_is_not_named(app):
    done = app("fit", "--data", "Synthetic", "--trainer.logger.save_dir", "X")
    wanted = "--trainer.logger: a flag below it needs its class first; give --trainer.logger CLASS too"
    assert done.code != 0 and done.err.startswith(f"error: {wanted}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data.batchsize", 3), "--data.batchsize; did you mean --data.batch_size?"),
        (("--data", "CIFAR10", "--data.val_fractoin", 3), "--data.val_fractoin; did you mean --data.val_fraction?"),
        (("--data.augment.mxup_alpha", 3), "--data.augment.mxup_alpha; did you mean --data.augment.mixup_alpha?"),
        (("--data", "Synthetic", "--data.num_clases", 3), "--data.num_clases; did you mean --data.num_classes?"),
    ],
    ids=lambda words: words[-2] if isinstance(words, tuple) else "",
)
def test_flags_of_the_data_are_suggested(app, words, said):
    done = app("fit", *words)
    assert done.code != 0 and done.err.splitlines()[-1] == f"error: there is no flag {said}"


def test_flags_that_the_data_fill_in_are_not_suggested(app):
    done = app("fit", "--data.num_clases", 3)
    assert done.code != 0 and "--model.num_classes" not in done.err


def test_a_value_that_may_be_null_says_so(app):
    done = app("fit", "--model.net.depth", "nul")
    assert done.err.splitlines()[-1] == "error: --model.net.depth nul: expected a whole number, such as 8, or null"


def test_a_short_flag_is_quoted_as_typed(app):
    done = app("export", "-c", "digits.yaml", "best.ckpt", "out")
    assert done.code != 0 and done.err.startswith("error: there is no flag -c; ")


def test_what_stands_without_a_flag_is_named(app):
    done = app("export", "--ckpt_path", "last", "model.onnx")
    assert done.code != 0 and done.err.endswith(" (without a flag: CKPT, DST)\n")
    assert "--ckpt_path; the verb has config, to, heads" in done.err


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("--model.net.depth",), "--model.net.depth"),
        (("--model.optim.lr", "--seed_everything", 3), "--model.optim.lr"),
        (("--model.optim.lr", 3, "--data.root=x", "--data.augment.crop"), "--data.augment.crop"),
        (("--data",), "--data"),
    ],
)
def test_a_flag_without_a_value_is_named(app, words, flag):
    done = app("fit", *words)
    assert done.code != 0 and done.err.splitlines()[-1] == f"error: {flag} has no value; --help says what it takes"
