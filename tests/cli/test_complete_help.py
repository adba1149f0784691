"""The complete help shows every flag, also those of the data and model that are chosen; scores say what they need."""

from pathlib import Path

import pytest

from vit_lightning.cli.help import OUR_SENTENCES, page
from vit_lightning.cli.help_sentences import read_flags
from vit_lightning.evaluation.scores import SCORES
from vit_lightning.training.scoring import CHOICES


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ((), ("--data.fraction",)),
        (("--data", "ImageFolder"), ("--data.also", "--data.split_file", "--data.root")),
        (("--data=Manifest",), ("--data.group_column", "--data.augment.flip")),
        (("--data", "datamodules.vtab.VTAB"), ("--data.task",)),
        (("-c", "mine.yaml"), ("--data.task", "--model.target")),
        (("--model", "MaskedPatch"), ("--model.target",)),
    ],
)
def test_all_flags_are_those_of_the_classes_chosen(app, words, flags):
    Path("mine.yaml").write_text("model: {class_path: MaskedPatch}\ndata: VTAB\n")
    for order in ((*words, "--help", "all"), ("--help", "all", *words)):
        done = app("test", *order)
        assert done.code == 0, done.err
        assert all(f"  {flag} " in done.out for flag in flags)


def test_what_another_class_alone_has_is_not_shown(app):
    text = app("fit", "--help", "all").out
    assert "--data.group_column" not in text and "--model.target" not in text


def test_every_score_and_table_is_named_with_what_it_costs():
    short, long = OUR_SENTENCES["model.scores"][0], read_flags("classifier", "Classifier")[1]["scores"]
    for name in CHOICES:
        assert name in short, name
        is_costly = name in SCORES and not SCORES[name].is_cheap
        assert (f"{name}*" in short) == is_costly
    assert long.sentence.startswith("Scores beside loss, top-1 and top-5")
    assert "mean_class_accuracy" in page("test")


@pytest.mark.parametrize("words", [("--data.help", "Synthetic"), ("--model.help", "MaskedPatch")])
def test_the_help_of_a_class_begins_with_one_line_of_usage(app, words):
    first, second, *rest = app("fit", *words).out.splitlines()
    assert (first, second) == ("usage: python -m vit_lightning VERB [--flag value ...]", "")
    assert any(line.startswith(f"  {words[0].removesuffix('.help')}.") for line in rest)
