"""What the words of a run verb name before they are parsed, and which settings stand before them."""

import json
from pathlib import Path

import pytest
import torch

from vit_lightning.cli import run_words as module
from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.run_words import DEFAULT_DATA, read_words, take_settings
from vit_lightning.errors import InputError

CONFIG = "data: {class_path: Synthetic, init_args: {num_classes: 4}}\nmodel: {init_args: {loss: sigmoid}}\n"


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs/trial/0"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.yaml").write_text(CONFIG)
    for name in ("last", "best"):
        torch.save({"name": name}, folder / f"checkpoints/{name}.ckpt")
    return folder


def line(*words: object) -> CommandLine:
    return CommandLine(map(str, words))


def test_words_without_a_run_are_an_experiment_below_runs(run):
    named = read_words(line("fit", "--data", "Digits"))
    assert named == ({}, [], [], None, None, "default", Path("runs"))


def test_files_name_experiment_folder_and_checkpoint(run):
    Path("one.yaml").write_text("trainer: {default_root_dir: kept}\nckpt_path: last\n")
    Path("part.yaml").write_text("max_epochs: 3\n")
    typed = line("fit", "-c", "one.yaml", "--trainer", "part.yaml")
    named = read_words(typed)
    own = {"trainer": {"default_root_dir": "kept"}, "ckpt_path": "last"}
    assert named.configs == {Path("one.yaml"): own}
    assert named.contents == [own, {"trainer": {"max_epochs": 3}}]
    assert (named.experiment, named.root) == ("one", Path("kept")) and typed.value("--ckpt_path") == "last"
    assert read_words(line("fit", "-c", "one.yaml", "--trainer.default_root_dir", "typed")).root == Path("typed")


def test_a_run_stands_behind_its_verb_and_its_words_are_images(run):
    typed = line("predict", "runs/trial/0", "a.png")
    named = read_words(typed)
    assert named.run == (run, Path("runs/trial/0/checkpoints/best.ckpt"), True) and named.lender is None
    assert named.experiment == "trial" and typed.value("--data.files") == '["a.png"]'


def test_other_weights_are_probed_on_a_run_s_images(run):
    named = read_words(line("probe", "runs/trial/0", "--model.weights", "w.npz"))
    assert named.lender == run and named.run.folder == run
    assert read_words(line("probe", "runs/trial/0")).lender is None


def test_members_of_an_average_are_typed_for_its_parser(run):
    typed = line("average", "runs/trial/0", "b.ckpt", "c d.ckpt", "--out", "o.ckpt")
    assert read_words(typed).members == ["b.ckpt", "c d.ckpt"]
    assert json.loads(typed.value("--members")) == ["b.ckpt", "c d.ckpt"]
    typed = line("test", "runs/trial/0", "b.ckpt")
    assert read_words(typed).members == ["b.ckpt"] and not typed.has("--members")


def test_a_file_with_its_verb_as_a_key_is_refused(run):
    Path("one.yaml").write_text("model: {}\n")
    Path("two.yaml").write_text("fit: {model: {}}\n")
    with pytest.raises(InputError, match=r"-c two.yaml has the key 'fit'; write model, data and trainer without it"):
        read_words(line("fit", "-c", "one.yaml", "-c", "two.yaml"))
    assert read_words(line("test", "-c", "two.yaml")).configs


def test_what_the_data_tell_is_refused_in_any_file(run):
    Path("one.yaml").write_text("trainer: {}\n")
    Path("model.yaml").write_text("num_classes: 3\n")
    with pytest.raises(InputError, match=r"model.num_classes comes from the data"):
        read_words(line("fit", "-c", "one.yaml", "--model", "model.yaml"))


def test_plug_ins_named_in_words_and_files_are_loaded(run, monkeypatch):
    seen: list[str] = []
    monkeypatch.setattr(module, "load_plugins", seen.append)
    Path("one.yaml").write_text("data: InAFile\n")
    read_words(line("fit", "-c", "one.yaml", "--trainer.devices", 3))
    assert "InAFile" in seen[0] and "--trainer.devices=3" in seen[0]


def test_flags_of_data_typed_early_stand_behind_their_class(run):
    typed = line("fit", "--data.batch_size", 4, "--model.loss", "sigmoid", "--data", "Digits", "--model", "Classifier")
    read_words(typed)
    expected = ["fit", "--data=Digits", "--data.batch_size=4", "--model=Classifier", "--model.loss=sigmoid"]
    assert typed.words() == expected


# Settings ------------------------------------------------------------------------------------------------------------

TRAINED = {"hyper_parameters": {"image_size": 24}}


def taken(typed: CommandLine, checkpoint: str | None = None, trained: dict | None = None) -> list[str]:
    take_settings(typed, read_words(typed), checkpoint and Path(checkpoint), trained or {})
    return typed.words()


def test_the_default_data_are_those_that_nobody_chooses(run):
    assert taken(line("fit")) == ["fit", f"--data={DEFAULT_DATA}"]
    assert taken(line("fit", "--data", "Synthetic")) == ["fit", "--data=Synthetic"]
    Path("one.yaml").write_text("data: Synthetic\n")
    assert taken(line("fit", "-c", "one.yaml")) == ["fit", "-c", "one.yaml"]


def test_a_run_s_settings_stand_before_what_is_typed(run):
    typed = line("test", "runs/trial/0", "--data.num_classes", 5)
    verb, first, *rest = taken(typed, "runs/trial/0/checkpoints/best.ckpt", TRAINED)
    assert verb == "test" and first.startswith("--config=")
    own = json.loads(first.removeprefix("--config="))
    assert own["model"] == {"init_args": {"loss": "sigmoid"}} and own["data"]["init_args"] == {"num_classes": 4}
    assert rest == ["--data.num_classes=5", "--data.image_size=24"]


def test_a_fit_takes_no_size_of_its_checkpoint(run):
    words = taken(line("fit", "runs/trial/0"), "runs/trial/0/checkpoints/last.ckpt", TRAINED)
    assert not any("image_size" in word for word in words)


@pytest.mark.parametrize("stated", [("--data.image_size", "8"), ("-c", "sized.yaml")])
def test_a_size_that_is_stated_stays(run, stated):
    Path("sized.yaml").write_text("data: {init_args: {image_size: 8}}\n")
    words = taken(line("test", "runs/trial/0", *stated), "runs/trial/0/checkpoints/best.ckpt", TRAINED)
    assert "--data.image_size=24" not in words


def test_a_checkpoint_that_a_run_s_own_config_names_is_not_gone_on_from(run):
    Path("one.yaml").write_text("data: Synthetic\nckpt_path: old.ckpt\n")
    (run / "config.yaml").write_text(CONFIG + "ckpt_path: old.ckpt\n")
    typed = line("fit", "-c", "runs/trial/0/config.yaml")
    assert taken(typed)[-1] == "--ckpt_path=null"
    named = read_words(typed := line("fit", "-c", "one.yaml"))
    take_settings(typed, named, Path("runs/trial/0/checkpoints/last.ckpt"), {})
    assert typed.values("--ckpt_path") == ["old.ckpt"]


def test_members_are_checked_beside_the_first_alone(run, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "check_brought_to_size", lambda line, *facts: asked.append(facts))
    best = Path("runs/trial/0/checkpoints/best.ckpt")
    taken(line("test", "runs/trial/0", "b.ckpt"), str(best))
    taken(line("test", "runs/trial/0"), str(best))
    assert asked == [(best, ["b.ckpt"])]
