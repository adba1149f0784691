"""YAML files on the command line: odd ones, merged keys, plain strings."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.config_files import (
    PARTS,
    chooses_data,
    config_files,
    models_named,
    nested_files,
    place_of,
    read_config,
    refuse_data_facts,
)
from vit_lightning.errors import InputError

ODD = {
    "empty": (b"", "must hold a mapping such as `model: ...`, not nothing"),
    "scalar": (b"hello", "not str"),
    "list": (b"- 1", "not list"),
    "tab": (b"model:\n\toptim: 1\n", "not valid YAML in line 2: found character '\\t'"),
    "twice": (b"model:\n  loss: softmax\n  loss: sigmoid\n", "not valid YAML in line 3: 'loss' is written twice"),
    "latin": (b"model: \xe9", "is not UTF-8 text"),
    "zero": (b"a: \x00", "special characters are not allowed"),
    "date": (b"x: 2021-99-99", "month must be in 1..12"),
    "number": (b"1: 2", "has the key 1"),
    "python": (b"model: !!python/object:os.system {}", "could not determine a constructor"),
    "null": (b"model:\noptim: 1\n", "must hold a mapping below model, not nothing"),
    "model": (b"model: 5", "must hold a mapping below model, not int"),
    "data": (b"data: [1]", "must hold a mapping below data, not list"),
    "checkpoint": (b"checkpoint: 3", "below checkpoint, not int"),
    "trainer": (b"trainer: cpu", "--trainer cpu: expected keys and values below it"),
    "optim": (b"model: {optim: fast}", "--model.optim fast: expected keys and values below it"),
    "init_args": (b"model: {class_path: Classifier, init_args: [1]}", "expected keys and values below it"),
    "class_path": (b"model: {class_path: 3}", "expected a class, or a mapping of class_path and init_args"),
    "verb": (b"fit: {model: Classifier}", "has the key 'fit'; write model, data and trainer without it"),
    "bomb": (
        b"a0: &a0 ["
        + b"x, " * 9
        + b"x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 9)),
        "its aliases (*) make more than 100,000 values of it",
    ),
    "itself": (b"a: &a [*a]", "its aliases (*) make more than"),
    "seed": (b"seed_everything: -1", "--seed_everything -1 must lie between 0 and 4294967295"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_get_one_sentence(app, name):
    content, said = ODD[name]
    Path("odd.yaml").write_bytes(content)
    done = app("fit", "-c", "odd.yaml")
    assert done.code == 1 and said in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("flag", ["--model", "--data", "--trainer"])
def test_odd_files_of_one_part_get_one_sentence(app, flag):
    Path("odd.yaml").write_bytes(b"a: 1\na: 2\n")
    done = app("fit", flag, "odd.yaml")
    assert (done.code, done.err) == (1, f"error: {flag} odd.yaml is not valid YAML in line 2: 'a' is written twice\n")


@given(st.binary(max_size=60) | st.text(alphabet="-:[]{}&*!|>'\"#%@ \n\tab1", max_size=40).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(content)
    with suppress(InputError):
        assert isinstance(read_config(file), dict)


def test_merged_keys_may_be_overridden(tmp_path):
    file = tmp_path / "merged.yaml"
    file.write_text("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  x: 3\n")
    assert read_config(file)["b"] == {"x": 3, "y": 2}


@pytest.mark.parametrize("content", ["vit_lightning.masked_patch.MaskedPatch", "MaskedPatch"])
def test_a_model_may_be_a_plain_string(app, content):
    Path("plain.yaml").write_text(yaml.safe_dump({"model": content}))
    done = app("fit", "-c", "plain.yaml", "--print_config")
    assert done.code == 0, done.err
    assert yaml.safe_load(done.out)["model"]["class_path"] == "vit_lightning.masked_patch.MaskedPatch"


def line(words: str) -> CommandLine:
    return CommandLine(words.split())


def test_files_are_read_in_the_order_in_which_they_are_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        Path(f"{name}.yaml").write_text(f"seed_everything: {ord(name)}\n")
    found = config_files(line("fit -c c.yaml --trainer b.yaml --config=a.yaml --model.x a"))
    assert list(found.items()) == [(Path(f"{name}.yaml"), {"seed_everything": ord(name)}) for name in "ca"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_a_file_of_one_part_stands_below_its_name(tmp_path, monkeypatch, part, ending):
    monkeypatch.chdir(tmp_path)
    Path(f"x.{ending}").write_text("a: 1\n")
    words = (
        f"fit --{part} x.{ending} --{part} gone.{ending} --{part}.a x.{ending} --other x.{ending} --{part} x --{part}"
    )
    assert nested_files(line(words)) == [{part: {"a": 1}}]


@pytest.mark.parametrize(
    ("words", "configs", "chooses"),
    [
        ("fit", [], False),
        ("fit --data Digits", [], True),
        ("fit --data.root x", [{"data": {"root": "x"}}], False),
        ("fit", [{"data": "Digits"}, {"model": "x"}], True),
        ("fit", [{"model": {"class_path": "x"}}], False),
        ("fit", [{}, {"data": {"class_path": "x"}}], True),
    ],
)
def test_data_are_chosen_by_a_flag_or_a_file(words, configs, chooses):
    assert chooses_data(line(words), configs) == chooses


def test_models_are_named_by_flags_and_files():
    configs = [{"model": "A"}, {"model": {"class_path": "B"}}, {"model": {"net": 1}}, {"data": "C"}]
    words = "fit --model D --model E --model.class_path F --model.net G"
    assert models_named(line(words), configs) == ["A", "B", "E", "F"]


@pytest.mark.parametrize("fact", ["num_classes", "image_size", "channels", "window", "mean", "std"])
def test_what_comes_from_the_data_is_refused_wherever_it_is_typed(fact):
    for words, configs in (
        (f"fit --model.{fact} 3", []),
        (f"fit --model.init_args.{fact}=3", []),
        ("fit", [{}, {"model": {fact: 3}}]),
        ("fit", [{"model": {"class_path": "x", "init_args": {fact: 3}}}]),
    ):
        with pytest.raises(InputError, match=rf"^model.{fact} comes from the data, .* data.{fact} for it; drop it"):
            refuse_data_facts(line(words), configs)
    allowed = [{"data": {fact: 3}, "model": {"net": {fact: 3}}}, {"model": "x"}, {"model": {"init_args": {"net": 3}}}]
    refuse_data_facts(line(f"fit --data.{fact} 3 --model.net.{fact} 3 --{fact} 3"), allowed)


def test_files_that_cannot_be_read_are_named_with_the_one_that_was_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("digits.yaml").write_text("seed_everything: 1\n")
    with pytest.raises(InputError, match=r"^-c folder is a folder; name a file in it$"):
        config_files(line("fit -c digits.yaml -c folder"))
    with pytest.raises(InputError, match=r"^-c digit\.yaml: no such file in .*; did you mean digits\.yaml\?$"):
        config_files(line("fit -c digits.yaml --config digit.yaml"))
    with pytest.raises(InputError, match=r"^-c /nowhere/x\.yaml: no such file$"):
        config_files(line("fit -c /nowhere/x.yaml"))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_a_mapping_or_a_name(tmp_path, part):
    for content, said in (("[1]", "list"), ("3", "int"), ("null", "nothing"), ("true", "bool")):
        (tmp_path / "x.yaml").write_text(f"{part}: {content}\n")
        hint = f"; indent what belongs to {part}, by two spaces" * (said == "nothing")
        with pytest.raises(
            InputError, match=rf"^--{part} .*x\.yaml must hold a mapping below {part}, not {said}{hint}$"
        ):
            read_config(tmp_path / "x.yaml", f"--{part}")
    for content in ("{a: 1}", "name"):
        (tmp_path / "x.yaml").write_text(f"{part}: {content}\nother: [1]\n")
        assert read_config(tmp_path / "x.yaml").keys() == {part, "other"}


@pytest.mark.parametrize("part", PARTS)
def test_nothing_waits_for_what_is_given_for_one_part(tmp_path, part):
    os.mkfifo(tmp_path / "x.yaml")
    with pytest.raises(InputError, match=rf"^--{part} {tmp_path}/x\.yaml is a FIFO, not a regular file"):
        nested_files(line(f"fit --{part} {tmp_path}/x.yaml"))
    with pytest.raises(InputError, match=rf"^-c {tmp_path}/x\.yaml is a FIFO, not a regular file"):
        config_files(line(f"fit -c {tmp_path}/x.yaml"))


def test_of_files_that_state_one_flag_the_last_is_named(tmp_path):
    files = tmp_path / "a.yaml", tmp_path / "b.yaml"
    for file, lines in zip(files, ("trainer: {max_steps: 1}\n", "\ntrainer:\n  max_steps: 0\n"), strict=True):
        file.write_text(lines)
    for first, last, row in ((*files, 3), (*files[::-1], 1)):
        words = line(f"fit -c {first} -c {last}")
        said = place_of(words, config_files(words), "--trainer.max_steps is 0")
        assert said == f"-c {last}, line {row}: "
    words = line(f"fit -c {files[0]} --trainer.max_steps 0")
    assert place_of(words, config_files(words), "--trainer.max_steps is 0") == ""


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("model: {optim: {lrr: 1}}\n", "-c b.yaml, line 1: there is no flag --model.optim.lrr; did you mean"),
        ("trainer:\n  max_epochs: many\n", "-c b.yaml, line 2: --trainer.max_epochs many: expected a whole number"),
    ],
)
def test_a_fault_of_one_of_several_files_names_file_and_line(app, second, said):
    Path("a.yaml").write_text("model: {optim: {lr: 0.1}}\ntrainer: {max_steps: 1}\n")
    Path("b.yaml").write_text(second)
    done = app("fit", "-c", "a.yaml", "-c", "b.yaml")
    assert done.code == 1 and f"error: {said}" in done.err, done.err
    done = app("fit", "-c", "a.yaml", "--model.optim.lrr", 1)
    assert done.code == 1 and "error: there is no flag --model.optim.lrr; did you mean" in done.err


def test_a_value_that_its_class_refuses_is_found_in_its_file(app):
    """What only building the data tells, and the way out is one that the command line has."""
    Path("few.yaml").write_text("data:\n  class_path: Digits\n  init_args:\n    augment:\n      rand_augment: [2, 9]\n")
    done = app("fit", "-c", "few.yaml", "--data.window", "[0,4095]")
    assert done.code == 1 and done.err.splitlines()[-1].startswith(
        "error: -c few.yaml, line 5: --data.augment.rand_augment changes 8-bit colours or grey, and images of "
        "--data.window have more: give --data.augment.rand_augment null, and vary the images by crop"
    )
    done = app("plan", "-c", "few.yaml", "--data.window", "[0,4095]", "--data.augment.rand_augment", "null")
    assert "rand_augment" not in done.err
