"""What stands behind a verb, and what of a run's settings it takes, from folders made by hand."""

import os
from pathlib import Path

import pytest
import torch

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.named_run import (
    check_name,
    config_of,
    experiment_name,
    lends_data,
    named_run,
    no_such_run,
    settings_of,
    take_checkpoint,
    take_files,
    take_members,
)
from vit_lightning.errors import InputError

CONFIG = """
ckpt_path: before.ckpt
at_least: {top1: 0.5}
weights_only: true
name: first
model: {class_path: Classifier, init_args: {net: {variant: mu/8}, loss: sigmoid}}
data:
  class_path: datamodules.synthetic.Synthetic
  init_args: {image_size: 16, augment: {evaluation: center, zoom: 1.5, hflip: 0.5}}
trainer: {max_epochs: 2, accelerator: gpu, devices: 8, num_nodes: 2, strategy: ddp, precision: bf16-mixed}
"""


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    """A run with two checkpoints."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs/trial/0"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.yaml").write_text(CONFIG)
    for name in ("last", "best"):
        torch.save({"name": name}, folder / f"checkpoints/{name}.ckpt")
    torch.save({}, "soup.ckpt")
    return folder


def line(*words: object) -> CommandLine:
    return CommandLine(map(str, words))


@pytest.mark.parametrize(
    ("verb", "words", "name"),
    [
        ("test", (), "best"),
        ("fit", (), "last"),
        ("probe", ("--ckpt_path", "last"), "last"),
        ("fit", ("--ckpt_path", "best"), "best"),
    ],
)
def test_a_run_s_best_is_scored_and_its_last_goes_on(run, verb, words, name):
    typed = line(verb, "--seed", 1, "runs/trial/0", *words)
    assert named_run(typed) == (run, Path(f"runs/trial/0/checkpoints/{name}.ckpt"), True)
    assert typed.words() == [verb, "--seed=1", *(["=".join(words)] if words else [])]


def test_a_checkpoint_belongs_to_the_run_that_it_lies_in(run):
    inside = named_run(line("test", "runs/trial/0/checkpoints/last.ckpt"))
    assert inside == (run, Path("runs/trial/0/checkpoints/last.ckpt"), False) and not inside.lends
    assert named_run(line("test", "soup.ckpt")) == (None, Path("soup.ckpt"), False)
    other = named_run(line("test", "runs/trial/0", "--ckpt_path", "soup.ckpt"))
    assert other == (run, Path("soup.ckpt"), True) and other.lends
    assert not named_run(line("test", "runs/trial/0", "--ckpt_path", run / "checkpoints/last.ckpt")).lends


def test_words_that_are_no_run_are_left_to_the_parser_or_refused(run):
    for words in (("sweep", "runs/trial/0"), ("test",), ("test", "--ckpt_path", "last"), ("test", "stray")):
        typed = line(*words)
        assert named_run(typed) is None and typed.words()[0] == words[0] and len(typed.arguments) <= 2
    for words, said in (
        (("test", "gone.ckpt"), "test gone.ckpt: no such file or folder"),
        (("test", "a/b"), "test a/b: no such file or folder"),
        (("test", "runs"), r"newest run is .*runs/trial/0"),
        (("test", "soup.ckpt", "--ckpt_path", "last"), "soup.ckpt and --ckpt_path last both name a checkpoint"),
        (("fit", "runs/trial/0", "--ckpt_path", "soup.ckpt"), "and --ckpt_path soup.ckpt both name a checkpoint"),
    ):
        with pytest.raises(InputError, match=said):
            named_run(line(*words))


def test_the_newest_run_is_named_in_place_of_one_that_is_not(run):
    later = run.parents[1] / "other/3"
    (later / "checkpoints").mkdir(parents=True)
    torch.save({}, later / "checkpoints/last.ckpt")
    os.utime(run / "checkpoints/last.ckpt", (1, 1))
    assert f"such as the newest, {later}," in no_such_run(line("test", "gone"), Path("runs").resolve(), [])
    assert no_such_run(line("test", "gone"), Path("nowhere"), []).endswith("; give a run folder, or a checkpoint")
    for words in (("sweep", "gone"), ("test",), ("test", "--x", "y"), ("test", "known"), ("test", "runs")):
        assert no_such_run(line(*words), Path("runs"), ["known"]) is None


@pytest.mark.parametrize(
    ("words", "members", "left"),
    [
        (("test", "a", "b", "c"), ["b", "c"], ["test", "a"]),
        (("validate", "a", "--ckpt_path", "x", "--ckpt_path", "y"), ["y"], ["validate", "a", "--ckpt_path=x"]),
        (("test", "a", "b", "--ckpt_path", "last"), ["b"], ["test", "a", "--ckpt_path=last"]),
        (("predict", "a", "img.png", "--ckpt_path", "x", "--ckpt_path", "y"), ["y"], None),
        (("fit", "a", "b"), [], ["fit", "a", "b"]),
        (("average", "--out", "o", "a", "b"), ["b"], ["average", "--out=o", "a"]),
    ],
)
def test_further_nets_leave_the_line_in_their_order(words, members, left):
    typed = line(*words)
    assert take_members(typed) == members
    assert typed.words() == (left or ["predict", "a", "img.png", "--ckpt_path=x"])


def test_nets_are_words_or_flags_and_not_both():
    with pytest.raises(InputError, match=r"a, b and --ckpt_path x\.ckpt all name nets"):
        take_members(line("test", "a", "b", "--ckpt_path", "x.ckpt"))


@pytest.mark.parametrize("verb", ["predict", "inspect"])
def test_words_behind_a_run_are_images(run, verb):
    typed = line(verb, "--trainer.devices", 1, "b.png", "a b.png", "--split", "val")
    take_files(typed)
    expected = [verb, "--trainer.devices=1", "--split=val", "--data=Images", '--data.files=["b.png", "a b.png"]']
    assert typed.words() == expected
    for words, said in (
        (("x.png", "runs/trial/0"), "is a run, not images"),
        (("x.png", "--data", "A"), "both say what"),
    ):
        with pytest.raises(InputError, match=said):
            take_files(line(verb, *words))
    other = line("test", "x.png")
    take_files(other)
    assert other.words() == ["test", "x.png"]


@pytest.mark.parametrize(
    ("verb", "words", "lends"),
    [
        ("probe", ("--model.weights", "w"), True),
        ("probe", (), False),
        ("fit", ("--model.weights", "w"), False),
        ("test", ("--model.weights", "w"), None),
        ("probe", ("--model.weights", "w", "--ckpt_path", "last"), None),
    ],
)
def test_a_run_lends_its_images_to_a_probe_alone(run, verb, words, lends):
    typed = line(verb, "runs/trial/0", *words)
    found = named_run(typed)
    if lends is None:
        with pytest.raises(InputError, match=f"{run} and --model.weights w both name a net"):
            lends_data(typed, found)
    else:
        assert lends_data(typed, found) == lends
    assert not lends_data(typed, None)


def test_a_verb_takes_what_the_run_was_told_and_not_what_began_it(run):
    scored, further = config_of(run, "test"), config_of(run, "probe")
    assert not scored.keys() & {"ckpt_path", "at_least"} and scored["name"] == "first"
    assert scored["weights_only"] is True and "weights_only" not in further  # Lightning's verbs alone have it
    assert scored["trainer"] == further["trainer"] == {"max_epochs": 2}
    assert config_of(run, "fit")["trainer"]["devices"] == 8 and config_of(None, "fit") == {}


BEST = "runs/trial/0/checkpoints/best.ckpt"


def settings(typed: CommandLine, checkpoint: str | None = BEST, configs: tuple = ()) -> dict:
    return settings_of(typed, named_run(typed), checkpoint and Path(checkpoint), list(configs))


def test_a_run_gives_model_data_and_trainer_and_its_checkpoint_data_alone(run):
    whole = settings(line("test", "runs/trial/0"))
    assert whole == config_of(run, "test") and whole["model"]["init_args"]["loss"] == "sigmoid"
    assert set(settings(line("test", "--ckpt_path", BEST))) == {"data"}
    assert settings(line("test", BEST))["data"] == whole["data"]
    lent = settings(line("test", "runs/trial/0", "--ckpt_path", "soup.ckpt"), "soup.ckpt")
    assert lent["model"]["init_args"] == {"loss": "sigmoid"} and lent["data"] == whole["data"]
    probed = settings(line("probe", "runs/trial/0", "--model.weights", "w"), None)
    assert "model" not in probed and probed["data"] == whole["data"]


def test_what_chooses_data_takes_them_from_nowhere_else(run):
    assert settings(line("test", "--ckpt_path", "soup.ckpt", "--data", "Digits"), "soup.ckpt") == {}
    assert settings(line("test", "--ckpt_path", "soup.ckpt"), "soup.ckpt", [{"data": "Digits"}]) == {}
    assert settings(line("fit"), None) == {}
    for words, checkpoint, said in (
        (("test", "soup.ckpt"), "soup.ckpt", "soup.ckpt lies in no run folder that says them"),
        (("test", "--model.weights", "w"), None, "weights say none"),
    ):
        with pytest.raises(InputError, match=f"test needs data: give --data NAME, or -c FILE; {said}"):
            settings(line(*words), checkpoint)


def test_other_data_are_brought_to_size_as_the_run_s_were(run):
    typed = line("test", "runs/trial/0", "--data", "Digits", "--data.batch_size", 4)
    assert "data" not in settings(typed)
    assert typed.words() == [
        *("test", "--data=Digits", "--data.augment.zoom=1.5", "--data.augment.evaluation=center"),
        "--data.batch_size=4",
    ]
    same = line("test", "runs/trial/0", "--data", "Synthetic")
    assert settings(same)["data"]["init_args"]["image_size"] == 16 and same.words() == ["test", "--data=Synthetic"]
    fit = line("fit", "runs/trial/0", "--data", "Digits")
    assert "data" not in settings(fit) and fit.words() == ["fit", "--data=Digits"]


def test_a_file_s_checkpoint_counts_as_typed(run):
    Path("a.yaml").write_text("ckpt_path: x.ckpt\n")
    configs = {Path("a.yaml"): {"ckpt_path": "x.ckpt"}}
    typed = line("test", "-c", "a.yaml")
    take_checkpoint(typed, configs)
    assert typed.value("--ckpt_path") == "x.ckpt"
    typed = line("test", "-c", "a.yaml", "--ckpt_path", "y.ckpt")
    take_checkpoint(typed, configs)
    assert typed.values("--ckpt_path") == ["y.ckpt"]
    typed = line("test", "--ckpt_path", "y.ckpt", "-c", "a.yaml")
    take_checkpoint(typed, configs)
    assert typed.values("--ckpt_path") == ["y.ckpt", "x.ckpt"]


@pytest.mark.parametrize(
    ("words", "configs", "name"),
    [
        ((), {}, "default"),
        (("-c", "one.yaml", "-c", "two.yaml"), {"one.yaml": {}, "two.yaml": {}}, "one"),
        (("-c", "hardware/gpu.yaml", "-c", "two.yaml"), {"hardware/gpu.yaml": {}, "two.yaml": {}}, "two"),
        (("-c", "one.yaml"), {"one.yaml": {"name": "own"}}, "own"),
        (("-c", "one.yaml", "--name", "typed"), {"one.yaml": {"name": "own"}}, "typed"),
        (("-c", "runs/trial/0/config.yaml"), {"runs/trial/0/config.yaml": {"name": "first"}}, "trial"),
    ],
)
def test_an_experiment_is_called_by_its_name_or_its_first_file(run, words, configs, name):
    files = {Path(path): content for path, content in configs.items()}
    assert experiment_name(line("fit", *words), files, None) == name


def test_a_run_that_goes_on_keeps_its_name(run):
    typed = line("fit", "runs/trial/0")
    assert experiment_name(typed, {Path("one.yaml"): {}}, named_run(typed)) == "trial"
    typed = line("fit", "runs/trial/0", "--name", "other")
    assert experiment_name(typed, {}, named_run(typed)) == "other"
    check_name(line("fit", "--name", "trial"), run / "checkpoints/last.ckpt")
    check_name(line("fit", "--name", "other"), Path("soup.ckpt"))
    check_name(line("fit"), run / "checkpoints/last.ckpt")
    for verb, anew in (("fit", True), ("test", False)):
        with pytest.raises(InputError, match=r"--name other: .* belongs to the run .*/runs/trial/0") as told:
            check_name(line(verb, "--name", "other"), run / "checkpoints/last.ckpt")
        assert ("begin a run of that name" in str(told.value)) == anew
