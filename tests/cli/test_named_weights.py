"""Weights or a program behind a verb: what they are told by, and which flags they become."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.augment import Augment
from vit_lightning.cli import named_weights
from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.named_weights import PROGRAM, probabilities_of, take_weights
from vit_lightning.errors import InputError

SCORING = ("validate", "test", "predict", "probe", "average")
ENDINGS = (".safetensors", ".npz", ".pth", ".pt", ".bin")


def line_of(*words: object) -> CommandLine:
    return CommandLine(list(map(str, words)))


def taken(*words: object) -> list[str]:
    """Words after weights were taken off the line; the same if there were none."""
    line = line_of(*words)
    assert take_weights(line) == (line.words() != line_of(*words).words())
    return line.words()


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("verb", SCORING)
@pytest.mark.parametrize("word", ["hf://timm/vit", "https://x.y/z", *(f"net{ending}" for ending in ENDINGS)])
def test_weights_become_a_flag_whether_they_are_there_or_not(verb, word):
    assert taken(verb, "--data", "X", word, "-c", "y") == [verb, "--data=X", "-c", "y", f"--model.weights={word}"]


@pytest.mark.parametrize("verb", ["fit", "benchmark", "doctor", "prepare"])
def test_other_verbs_take_no_weights(verb):
    assert taken(verb, "net.npz") == [verb, "net.npz"]


@pytest.mark.parametrize("word", ["net.ckpt", "x.jpg", "npz", "runs/digits/0", "net.npz.bak"])
def test_other_words_are_left(word):
    assert taken("test", word) == ["test", word]
    assert taken("test") == ["test"]


def test_the_first_word_behind_the_verb_counts_and_values_of_flags_do_not():
    assert taken("predict", "x.jpg", "net.npz") == ["predict", "x.jpg", "net.npz"]
    assert taken("predict", "net.npz", "x.npz") == ["predict", "x.npz", "--model.weights=net.npz"]
    assert taken("predict", "--features", "net.npz") == ["predict", "--features=net.npz"]


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"]
)
def test_a_folder_of_weights_is_told_by_its_files(name):
    Path("folder").mkdir()
    assert taken("test", "folder") == ["test", "folder"]
    Path("folder", name).touch()
    assert taken("test", "folder") == ["test", "--model.weights=folder"]


@pytest.mark.parametrize("ending", [*ENDINGS, ".onnx"])
def test_a_folder_is_no_file_whatever_its_name_ends_in(ending):
    Path(f"net{ending}").mkdir()
    assert taken("test", f"net{ending}") == ["test", f"net{ending}"]


def test_a_run_folder_is_no_folder_of_weights():
    Path("0/checkpoints").mkdir(parents=True)
    Path("0/model.safetensors").touch()
    assert taken("test", "0") == ["test", "0"]


@pytest.mark.parametrize("flag", ["--ckpt_path", "--model.weights"])
def test_two_nets_are_one_too_many(flag):
    line = line_of("test", "a.npz", flag, "b")
    with pytest.raises(InputError, match=rf"^a\.npz and {flag} b both name a net; give one of them$"):
        take_weights(line)


@pytest.fixture
def program(monkeypatch):
    """Programs that say how images are brought to size."""
    said = SimpleNamespace(evaluation=Augment())
    monkeypatch.setattr(named_weights, "ExportedProgram", lambda file: said)
    Path("made").mkdir()
    Path("made/model.onnx").touch()
    return said


@pytest.mark.parametrize("word", ["made", "made/model.onnx"])
def test_a_program_is_the_model_and_brings_images_to_size_as_it_says(program, word):
    end = [f"--model={PROGRAM}", "--model.file=made/model.onnx"]
    assert PROGRAM == "vit_lightning.weights.exported.ExportedProgram"
    assert taken("predict", word, "x.jpg") == ["predict", "x.jpg", *end]
    program.evaluation = Augment(evaluation="center", zoom=1.5)
    line = line_of("predict", word, "x.jpg")
    take_weights(line)
    assert line.value("--data.augment.evaluation") == "center" and line.value("--data.augment.zoom") == "1.5"
    assert line.verb == "predict" and line.words()[-2:] == end
    line = line_of("predict", word, "--data.augment.zoom", "2")
    take_weights(line)
    assert line.value("--data.augment.zoom") == "2"  # what is typed wins


@pytest.mark.parametrize("verb", ["validate", "test", "probe", "average"])
def test_a_program_only_predicts(program, verb):
    with pytest.raises(InputError, match=rf"^{verb} made/model\.onnx: an ONNX program only predicts"):
        taken(verb, "made")


def test_a_program_that_is_not_there_is_looked_for_by_name():
    with pytest.raises(InputError, match=r"^predict no\.onnx: no such file in .*; give a program of the verb export$"):
        taken("predict", "no.onnx")


@pytest.mark.parametrize("verb", [*SCORING, "fit"])
@pytest.mark.parametrize("flags", [(), ("--model.weights", "w"), ("--model.weights", "w", "--model", "X")])
def test_the_loss_is_read_of_weights_that_are_scored_by_the_default_model(monkeypatch, verb, flags):
    monkeypatch.setattr(named_weights, "open_weights", lambda source: SimpleNamespace(loss=f"loss of {source}"))
    expected = "loss of w" if verb in SCORING and len(flags) == 2 else None
    assert probabilities_of(line_of(verb, *flags)) == expected
