"""jsonargparse's walls of text in one sentence."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.cli import file_verb_parser, parser_errors, vit_cli
from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.parser_errors import shorten

CALLBACK = "lightning.pytorch.callbacks"
SAID = {
    ("fit", "--trainer.max_epohcs", 3): "there is no flag --trainer.max_epohcs; did you mean --trainer.max_epochs?",
    ("fit", "--model.lrr", 1): "there is no flag --model.lrr; did you mean --model.optim.lr?",
    ("fit", "--model.optim.velocity", 1): "there is no flag --model.optim.velocity; model.optim has name, lr, ",
    ("fit", "--model.optim", "{velocity: 1}"): "there is no flag --model.optim.velocity; model.optim has name, lr, ",
    (
        "fit",
        "-c",
        "trainr.yaml",
    ): "-c trainr.yaml, line 1: there is no flag --trainr.max_epochs; did you mean --trainer.max_epochs?",
    **{
        (verb, "-c", "optim.yaml"): "-c optim.yaml, line 1: there is no flag --optim.lr; did you mean --model.optim.lr?"
        for verb in ("fit", "plan", "test", "doctor")
    },
    ("plan", "--optim.lr", 1): "there is no flag --optim.lr; did you mean --model.optim.lr?",
    (
        "fit",
        "--trainer.logger",
        "WanbdLogger",
    ): "--trainer.logger WanbdLogger: no such class; did you mean Wandb",
    (
        "fit",
        "--trainer.callbacks",
        "EarlyStoping",
    ): "--trainer.callbacks EarlyStoping: no such class; did you mean E",
    (
        "fit",
        "--trainer.callbacks+=FewSht",
    ): "--trainer.callbacks FewSht: no such class; did you mean FewShot?",
    ("fit", "-c", "foo.yaml"): "-c foo.yaml, line 1: there is no flag --model.foo; model has ",
    (
        "fit",
        "--data",
        "Petz",
    ): "--data Petz: no such datamodule; did you mean Pets? (known: CIFAR10, CIFAR100, Digits, ",
    ("fit", "--data", "a/b"): "--data a/b: no such datamodule (known: CIFAR10, ",
    ("fit", "--model", "torch.nn.Linear"): "--model torch.nn.Linear: that is no LightningModule",
    ("fit", "--trainer.logger", "Nope"): "--trainer.logger Nope: no such class; give its full class path",
    ("fit", "--trainer.callbacks", "EarlyStopping"): (
        "--trainer.callbacks EarlyStopping: several classes have that name; give one of "
        f"{CALLBACK}.EarlyStopping, vit_lightning.callbacks.early_stopping.EarlyStopping"
    ),
    ("fit", "--trainer.callbacks+=lightning.Nope"): (
        "--trainer.callbacks lightning.Nope: no such class (module 'lightning' has no attribute 'Nope')"
    ),
    ("fit", "--trainer.callbacks+=vit_lightning.callbacks.Require"): (
        "--trainer.callbacks.metric is missing; --trainer.callbacks.help NAME says what it is"
    ),
    ("fit", "--trainer", "cpu"): "--trainer cpu: expected keys and values below it, or a YAML file that holds them",
    ("fit", "--trainer.max_epochs", "foo"): ("--trainer.max_epochs foo: expected a whole number, such as 8, or null"),
    ("fit", "--model.optim.lr", "x"): "--model.optim.lr x: expected a number, such as 0.5",
    ("prepare", "--data", "Digits"): "--out is missing; --help says what it is",
    ("export", "a"): "dst is missing; --help says what it is (this verb takes CKPT DST)",
    ("export", "a", "b", "--heads", "x"): "--heads x: expected a whole number, such as 8, or null",
}


PATTERNS = (
    *("CLASS", "NO_SUBCLASS", "AMBIGUOUS", "NO_MAPPING", "CLASS_PATH", "KEY", "EXPECTED", "OPTION", "REQUIRED"),
    "GIVEN",
)


def test_what_a_parser_reports_is_one_sentence_and_no_pattern_is_dead(monkeypatch, app):
    """A pattern that no report of the installed jsonargparse matches is dead."""
    reports = []

    def record(message: str, *known: object) -> str:
        reports.append(message)
        return shorten(message, *known)

    for place in (vit_cli, file_verb_parser):
        monkeypatch.setattr(place, "shorten", record)
    Path("trainr.yaml").write_text("trainr: {max_epochs: 1}\n")
    Path("optim.yaml").write_text("optim: {lr: 1}\n")
    Path("foo.yaml").write_text("model: {class_path: Classifier, init_args: {foo: 1}}\n")
    for words, said in SAID.items():
        done = app(*words)
        assert done.code == 1 and len(done.err.splitlines()) == 1, words
        assert done.err.startswith(f"error: {said}"), words
    patterns = [*parser_errors.UNKNOWN, *(getattr(parser_errors, name) for name in PATTERNS)]
    assert [pattern.pattern for pattern in patterns if not any(map(pattern.search, reports))] == []


@given(st.text(max_size=300))
def test_any_message_becomes_one_line(message):
    text = shorten(message, ["model.optim.lr", "last"], ["CIFAR10", "Pets"])
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


NUMBER = "Expected a <class 'int'>. Got value: x"
WHOLE = "x: expected a whole number, such as 8"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (f'Parser key "trainer": {NUMBER}', f"--trainer {WHOLE}"),
        (
            f'Parser key "data": Expected a path but it is none. {NUMBER}',
            f"--data {WHOLE}",
        ),
        (NUMBER, NUMBER),
        ("the following arguments are required: lr", "lr is missing; --help says what it is"),
        ("Group 'fit' does not accept option 'lrr'", "there is no flag --lrr; --help lists them all"),
    ],
)
def test_reports_without_a_flag_or_with_a_path(message, said):
    assert shorten(message, [], []) == said


def test_only_the_flag_that_the_parser_names_lacks_its_value():
    line = CommandLine(["--data", "--model.optim.lr"])
    report = "argument --model: expected one argument"
    assert parser_errors.bare_flag(report, line) == "--model.optim.lr has no value; --help says what it takes"
    assert parser_errors.bare_flag("argument --trainer: expected one argument", line) is None
    assert parser_errors.bare_flag("something else", line) is None


def test_a_class_of_a_model_is_sought_among_models():
    for flag in ("model", "model.init_args"):
        said = parser_errors.unknown_class(flag, "Clasifier", ["Pets"], ["MaskedPatch", "Classifier"])
        assert said == "--model Clasifier: no such model; did you mean Classifier? (known: Classifier, MaskedPatch)"
