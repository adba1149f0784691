"""Which callbacks are on without being asked for."""

from pathlib import Path

import pytest
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import RichProgressBar

from vit_lightning.callbacks.defaults import DEFAULTS, Setting, default_callbacks

FIT = [
    *("PlainProgress", "TimelyEnd", "SkippedImages", "Monitors", "RunPlan", "FinalValidation", "RandomState"),
    *("Throughput", "Record", "SplitRecord", "HyperParameters", "LearningRates", "FiniteGuard"),
    *("TrainingPictures", "RunSummary"),
]
LOGGING = ("HyperParameters", "LearningRates", "TrainingPictures")


class Record(Callback):
    """Stands for the one that writes config.yaml."""


def names(
    verb: str, given: tuple[Callback, ...] = (), logs: bool = True, pictures: bool = True, **trainer: object
) -> list[str]:
    facts = Path("runs/x/0"), Path("predictions.csv"), logs, {}, (), Record
    setting = Setting(verb, trainer, given, *facts, pictures=pictures)
    return [type(callback).__name__ for callback in default_callbacks(setting)]


def test_a_fit_has_all_but_predictions():
    assert names("fit") == FIT


@pytest.mark.parametrize("verb", ["benchmark", "prepare"])
def test_what_does_not_train_has_progress_and_skipped_images(verb):
    assert names(verb) == ["PlainProgress", "TimelyEnd", "SkippedImages"]


@pytest.mark.parametrize("verb", ["doctor", "plan"])
def test_what_begins_a_fit_has_what_refuses_one_beside_them(verb):
    assert names(verb) == ["PlainProgress", "TimelyEnd", "SkippedImages", "Monitors", "RunPlan"]


@pytest.mark.parametrize("verb", ["validate", "test"])
def test_scoring_leaves_its_scores(verb):
    assert names(verb) == ["PlainProgress", "TimelyEnd", "SkippedImages", "ScoreFile", "ClassTables", "ScoreTable"]


def test_predict_writes_predictions():
    assert names("predict") == ["PlainProgress", "TimelyEnd", "SkippedImages", "Predictions"]


def test_flags_turn_some_off():
    assert names("fit", given=(RichProgressBar(),)) == FIT[1:]
    assert names("fit", pictures=False) == [name for name in FIT if name != "TrainingPictures"]
    assert names("fit", logs=False) == [name for name in FIT if name not in LOGGING]
    kept = ("Record", "SplitRecord", "RunSummary", *LOGGING)
    assert names("fit", fast_dev_run=True) == [name for name in FIT if name not in kept]


def test_each_says_why_it_is_on():
    assert all(default.why for default in DEFAULTS)


def test_without_a_bar_a_terminal_has_the_lines_of_a_log(monkeypatch):
    monkeypatch.setattr("vit_lightning.callbacks.defaults.is_live", lambda: True)
    assert names("fit")[0] == "RunBar"
    assert names("fit", enable_progress_bar=False) == FIT


def made(verb: str, folder: str | None = "runs/x/0", **facts: object) -> dict[str, Callback]:
    places = folder and Path(folder), Path("p.csv"), True
    setting = Setting(verb, {}, (), *places, {"checkpoint": Record()}, ("checkpoint",), Record, **facts)
    return {type(callback).__name__: callback for callback in default_callbacks(setting)}


@pytest.mark.parametrize("verb", ["validate", "test"])
def test_files_of_scores_know_what_was_scored_on_which_data(verb):
    found = made(verb, checkpoint="x.ckpt", source={"root": "pets"}, is_own=False)
    for name in ("ScoreFile", "ClassTables"):
        writer = found[name]
        assert (writer.folder, writer.checkpoint, writer.source, writer.is_own) == (
            Path("runs/x/0"),
            "x.ckpt",
            {"root": "pets"},
            False,
        )
    assert "ScoreFile" not in made(verb, None) and made(verb, None)["ClassTables"].folder is None


def test_each_default_has_its_place():
    found = made("fit")
    assert found["FiniteGuard"].folder == found["RunSummary"].folder == found["RunPlan"].folder == Path("runs/x/0")
    assert found["RunPlan"].kept == Path("runs/x/0/plan.txt") and made("plan")["RunPlan"].kept is None
    assert found["SplitRecord"].path == Path("runs/x/0/splits.json")
    assert list(found["Monitors"].flags.values()) == ["checkpoint"] and found["Monitors"].undirected == ("checkpoint",)
    assert {"SplitRecord", "RunSummary"}.isdisjoint(made("fit", None))
    answers = made("predict", checkpoint="x.ckpt")["Predictions"]
    assert (answers.path, answers.checkpoint, answers.top) == (Path("p.csv"), "x.ckpt", 5)


@pytest.mark.parametrize(("live", "name"), [(True, "RunBar"), (False, "PlainProgress")])
def test_a_bar_needs_a_terminal(monkeypatch, live, name):
    monkeypatch.setattr("vit_lightning.callbacks.defaults.is_live", lambda: live)
    assert name in made("fit")
