"""The words of a command line: pairs of flags and values, their order, negative numbers, lists and switches."""

import json

import pytest
import yaml
from jsonargparse import auto_cli

from vit_lightning.cli.arguments import Argument, CommandLine, for_function
from vit_lightning.cli.file_verb_parser import FileVerbParser

TYPED = "fit --a b --c=d=e -c f.yaml --g -1e-5 --h -inf --i --j= --k+=x word"


def test_words_are_paired_once_and_spelled_again():
    line = CommandLine(TYPED.split())
    assert line.arguments == [
        *(Argument("", "fit"), Argument("--a", "b"), Argument("--c", "d=e"), Argument("-c", "f.yaml")),
        *(Argument("--g", "-1e-5"), Argument("--h", "-inf"), Argument("--i", None), Argument("--j", "")),
        *(Argument("--k+", "x"), Argument("", "word")),
    ]
    assert line.verb == "fit"
    assert line.words() == [
        "fit",
        "--a=b",
        "--c=d=e",
        "-c",
        "f.yaml",
        "--g=-1e-5",
        "--h=-inf",
        "--i",
        "--j=",
        "--k+=x",
        "word",
    ]
    assert CommandLine(line.words()).arguments == line.arguments


@pytest.mark.parametrize(
    "typed", ["--ckpt_path a --ckpt_path=b", "--ckpt_path=a --ckpt_path b", "--ckpt_path=a=b --ckpt_path b"]
)
def test_of_a_flag_typed_twice_the_last_counts(typed):
    assert CommandLine(typed.split()).value("--ckpt_path") == "b"


def test_of_a_checkpoint_typed_twice_the_last_is_opened(app):
    done = app("fit", "--ckpt_path", "first.ckpt", "--ckpt_path=second.ckpt")
    assert done.code == 1 and "--ckpt_path second.ckpt: no such file" in done.err


def test_a_flag_that_is_not_typed_has_no_value():
    assert CommandLine(["fit", "--a"]).value("--a") is None and CommandLine([]).verb is None
    assert CommandLine(["--a", "fit"]).verb is None


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        ("fit --data.root X --data A --data.y 1", "fit --data A --data.root X --data.y 1"),
        ("fit --data.root=X -c f --data.z -1 --data=A", "fit -c f --data=A --data.root=X --data.z -1"),
        ("fit --data.root X", "fit --data.root X"),
        ("fit --data A --data.x 1 --data B", "fit --data A --data.x 1 --data B"),
        ("fit --data.help A --data.flag --data B", "fit --data.help A --data B --data.flag"),
        ("fit --database 1 --data", "fit --database 1 --data"),
    ],
)
def test_flags_of_a_class_follow_it(words, moved):
    line = CommandLine(words.split())
    line.move_behind_class("--data")
    assert line.arguments == CommandLine(moved.split()).arguments


def test_flags_may_come_before_their_class(app):
    words = ("--data.root", "X", "--data.batch_size=7", "--model.target", "pixels", "--model", "MaskedPatch")
    done = app("fit", *words, "--data", "CIFAR10", "--print_config")
    assert done.code == 0, done.err
    config = yaml.safe_load(done.out)
    assert (config["data"]["init_args"]["root"], config["data"]["init_args"]["batch_size"]) == ("X", 7)
    assert config["model"]["init_args"]["target"] == "pixels"


def test_negative_numbers_are_no_flags(app):
    done = app("fit", "--data", "Synthetic", "--model.optim.lr", "-1e5")
    assert done.code == 1 and "--model.optim.lr is -100000.0; it must not be negative" in done.err


def verb(files: list[str], count: int = 1, set: list[str] | None = None, dry: bool = False) -> tuple:
    """Take a list, a number, another list and a switch."""
    return files, count, set, dry


def other(src: str, dst: str, mean: tuple[float, ...] | None = None, raw: bool = False) -> tuple:
    """Take no list."""
    return src, dst, mean, raw


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("a b", (["a", "b"], 1, None, False)),
        ("[a,b]", (["a", "b"], 1, None, False)),
        ("--count 2 a --dry", (["a"], 2, None, True)),
        ("--count=3 a", (["a"], 3, None, False)),
        ("--count -1 a", (["a"], -1, None, False)),
        ("--dry a --set x=1 y=2", (["a"], 1, ["x=1", "y=2"], True)),
        ("a --set [x=1,y=2]", (["a"], 1, ["x=1", "y=2"], False)),
        ("a --set=x=1 --set y=2 --dry false b", (["a", "b"], 1, ["x=1", "y=2"], False)),
    ],
)
def test_lists_and_switches_of_a_file_verb(typed, wanted):
    words = for_function(typed.split(), verb)
    assert auto_cli(verb, args=words, parser_class=FileVerbParser) == wanted


def test_a_verb_without_lists_keeps_its_words():
    words = for_function(["x", "y", "--mean", "[-1,2]", "--raw"], other)
    assert auto_cli(other, args=words, parser_class=FileVerbParser) == ("x", "y", (-1.0, 2.0), True)


def test_help_is_kept_for_the_parser():
    assert for_function(["--help"], verb) == ["--help"]


@pytest.mark.parametrize(
    "words", [["[a]", "--count", "-1e1"], ["a", "b"], ["[a]", "--dry"], ["[a]", "--set", "x", "y"]]
)
def test_jsonargparse_does_none_of_it_by_itself(words):
    """Once it does, `for_function` can go."""
    with pytest.raises(SystemExit):
        auto_cli(verb, args=words)


@pytest.mark.parametrize("value", ["[train,nope]", "train,nope"])
def test_a_run_verbs_list_may_stand_in_brackets(app, value):
    done = app("benchmark", "--data", "Synthetic", "--trainer.accelerator", "cpu", "--measure", value)
    assert done.code == 1 and "--measure nope: choose from train, inference, fit, data" in done.err


def test_a_flag_can_be_typed_first_and_last():
    line = CommandLine(["fit", "--a", "1", "word", "--a", "2", "-c", "x", "--config=y"])
    assert line.values("--a") == ["1", "2"] and line.values("-c", "--config") == ["x", "y"]
    line.set("--a", "3")
    line.set_first("--b", "4")
    assert line.words() == ["fit", "--b=4", "--a=1", "word", "--a=2", "-c", "x", "--config=y", "--a=3"]
    assert line.value("--a") == "3"


@pytest.mark.parametrize("value", ["[a", "a]", "a[b]c", "]["])
def test_what_has_one_bracket_is_one_value_of_a_list(value):
    assert for_function([value, "--set", value], verb) == [json.dumps([value]), f"--set+={value}"]
    assert for_function(["[a,b]", "--set", "[a,b]"], verb) == ["[a,b]", "--set=[a,b]"]
