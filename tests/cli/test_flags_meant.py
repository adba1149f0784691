"""Which flag or class was meant, told from those that there are."""

import pytest

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.parser_errors import bare_flag, bare_word, shorten, unknown_class, unknown_flag

FLAGS = [
    "model.optim.lr",
    "model.optim.name",
    "model.schedule.decay",
    "model.averaging.decay",
    "data.root",
    "c",
    "seed",
]


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("model.lrr", "there is no flag --model.lrr; did you mean --model.optim.lr?"),
        ("lr", "there is no flag --lr; did you mean --model.optim.lr?"),
        ("model.averaging.decai", "there is no flag --model.averaging.decai; did you mean --model.averaging.decay?"),
        ("model.schedule.decai", "there is no flag --model.schedule.decai; did you mean --model.schedule.decay?"),
        ("decai", "there is no flag --decai; did you mean --model.schedule.decay?"),
        ("model.optim.zzz", "there is no flag --model.optim.zzz; model.optim has lr, name"),
        ("zzz", "there is no flag --zzz; the verb has c, seed"),
        ("x.zzz", "there is no flag --x.zzz; --help lists them all"),
        ("q", "there is no flag -q; the verb has c, seed"),
        ("data.root", "there is no flag --data.root; --help lists them all"),
    ],
)
def test_the_nearest_last_word_counts_and_among_equals_the_group(flag, said):
    assert unknown_flag(flag, FLAGS) == said


@pytest.mark.parametrize(("count", "more"), [(12, False), (13, True)])
def test_no_more_than_twelve_neighbours_are_shown(count, more):
    said = unknown_flag("g.zzzz", [f"g.a{number}" for number in range(count)])
    assert said.endswith("a11, ..." if more else "a11") and said.count(", ") == 11 + more


@pytest.mark.parametrize(
    ("word", "said"),
    [("seed", "seed lacks its dashes; type --seed"), ("sed", "sed stands where a flag is expected; a flag begins")],
)
def test_a_word_without_dashes(word, said):
    assert bare_word(word, FLAGS).startswith(said)
    assert shorten(f"unrecognized arguments: {word}", FLAGS, []).startswith(said)


@pytest.mark.parametrize(
    ("key", "name", "reason", "said"),
    [
        ("data", "Pest", "", "--data Pest: no such datamodule; did you mean Pets? (known: Birds, Pets)"),
        ("data.init_args", "zzz", "", "--data zzz: no such datamodule (known: Birds, Pets)"),
        ("model", "Clasifier", "", "--model Clasifier: no such model; did you mean Classifier? (known: Classifier)"),
        ("trainer.logger", "Nope", "", "--trainer.logger Nope: no such class; give its full class path"),
        ("trainer.logger", "a.Nope", "no module a", "--trainer.logger a.Nope: no such class (no module a)"),
        ("data", "a.Nope", "no module a", "--data a.Nope: no such datamodule (known: Birds, Pets)"),
    ],
)
def test_a_class_that_nobody_knows(key, name, reason, said):
    assert unknown_class(key, name, ["Pets", "Birds"], ["Classifier"], reason) == said


@pytest.mark.parametrize(
    ("words", "message", "said"),
    [
        ("fit --model.net.depth", "argument --model: expected one argument", "--model.net.depth has no value"),
        ("fit --data x --model", "argument --model: expected one argument", "--model has no value"),
        ("fit --a --b", "argument --b: expected one argument", "--b has no value; --help says what it takes"),
        ("fit --model x", "argument --model: expected one argument", None),
        ("fit --model", "something else", None),
    ],
)
def test_the_flag_that_has_no_value_is_the_one_that_was_typed(words, message, said):
    found = bare_flag(message, CommandLine(words.split()))
    assert found is None if said is None else found.startswith(said)


KEY = 'Parser key "{}":\n'


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            KEY.format("model.optim.lr") + "Expected a <class 'float'>. Got value: x",
            "--model.optim.lr x: expected a number, such as 0.5",
        ),
        (
            KEY.format("a") + "Expected a <class 'int'>. Got value: x\nExpected a <class 'NoneType'>. Got value: x",
            "--a x: expected a whole number, such as 8, or null",
        ),
        (
            KEY.format("a") + "Expected a <class 'bool'>. Got value: 3\nExpected a <class 'float'>. Got value: 3",
            "--a 3: expected true or false, or a number, such as 0.5",
        ),
        (
            KEY.format("a") + "Expected a typing.Literal['x', 'y']. Got value: z",
            "--a z: expected x, y",
        ),
        (
            KEY.format("a") + "Expected a <class 'dict'>. Got value: top1=0.9",
            "--a top1=0.9: expected names and values in braces, such as '{top1: 0.9}'",
        ),
        (
            KEY.format("a") + "Expected a <class 'dict'>. Got value: night",
            "--a night: expected names and values in braces, such as '{NAME: VALUE}'",
        ),
        (
            KEY.format("a") + "Expected a tuple with 2 elements. Got value: 1",
            "--a 1: expected 2 values in brackets, such as [2, 10]",
        ),
        (
            KEY.format("a") + "Expected a <class 'my.pkg.Thing'>. Got value: 1",
            "--a 1: expected Thing",
        ),
        (
            KEY.format("model") + "Import path does not correspond to a subclass of LightningModule\nGiven value: a.B",
            "--model a.B: that is no LightningModule",
        ),
        (
            KEY.format("a") + "Expected a path but str was given. Got value: x\nExpected a <class 'int'>. Got value: x",
            "--a x: expected a whole number, such as 8",
        ),
        (
            KEY.format("a") + f"Expected a <class 'int'>. Got value: {'y' * 200}\nGiven value: {'z' * 199}",
            f"--a {'z' * 199}: expected a whole number, such as 8",
        ),
        ("one\n - two\n\nthree\nfour", "one two three"),
        ("x" * 500, "x" * 400),
    ],
)
def test_what_was_expected_is_said_in_words(message, said):
    assert shorten(message, FLAGS, []) == said


FORMATS = ["onnx", "torch_export", "safetensors", "huggingface"]


@pytest.mark.parametrize(
    ("given", "choices", "meant"),
    [
        *(("hf", FORMATS, "huggingface"), ("Transformers", FORMATS, "huggingface"), ("ONNX", FORMATS, "onnx")),
        *(("torchscript", FORMATS, "torch_export"), ("pt2", FORMATS, "torch_export")),
        *(("pytorch", FORMATS, "safetensors"), ("pytorch", ["npz", "checkpoint"], "checkpoint")),
        *(("safetensor", FORMATS, "safetensors"), ("hf", ["npz", "checkpoint"], None), ("tflite", FORMATS, None)),
    ],
)
def test_the_likeliest_of_some_words_is_named(given, choices, meant):
    said = shorten(f"{KEY.format('to')}Expected a typing.Literal{choices}. Got value: {given}", [], [])
    assert said == f"--to {given}: expected {', '.join(choices)}" + (f"; did you mean {meant}?" if meant else "")


def test_of_values_that_are_no_words_none_is_named():
    message = KEY.format("a") + "Expected a <class 'float'>. Got value: flot"
    assert shorten(message, FLAGS, []) == "--a flot: expected a number, such as 0.5"


def test_a_run_is_no_stray_word(tmp_path):
    run = tmp_path / "own/0"
    run.mkdir(parents=True)
    (run / "config.yaml").touch()
    assert bare_word(str(run), FLAGS) == f"{run} is a run, whose settings this verb takes as -c {run}/config.yaml"


def test_flags_of_a_class_of_ones_own_are_known(app, monkeypatch, tmp_path):
    (tmp_path / "hospital.py").write_text(
        "from vit_lightning.data import ImageDataModule\n\n\nclass Own(ImageDataModule):\n    num_classes = 2\n\n"
        "    def __init__(self, group_column: str = '', **kwargs):\n        super().__init__(**kwargs)\n\n"
        "    def setup(self, stage): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own.yaml").write_text("data: {class_path: hospital.Own}\n")
    for words in (("--data", "hospital.Own"), ("-c", tmp_path / "own.yaml")):
        done = app("fit", *words, "--data.group_colum", "patient")
        assert "there is no flag --data.group_colum; did you mean --data.group_column?" in done.err
