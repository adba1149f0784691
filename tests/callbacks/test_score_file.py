"""The file of scores beside a run, from facts made by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from datamodules.synthetic import Synthetic
from vit_lightning.callbacks.score_file import ScoreFile
from vit_lightning.classifier import Classifier


def scored(fn: str, main: bool = True) -> tuple[SimpleNamespace, Classifier]:
    """A trainer and a model that has scored 5 validation and 7 test images, of which 2 have no label."""
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8)
    for split, images in (("val", 5), ("test", 7)):
        model.scores[split]["loss"].update(torch.ones(images), (torch.arange(images) > 1).float())
        model.scores[split]["loss"].compute()
    metrics = {"val/top1": torch.tensor(0.5), "test/top1": torch.tensor(0.25)}
    state = SimpleNamespace(fn=fn)
    return SimpleNamespace(is_global_zero=main, state=state, callback_metrics=metrics, datamodule=Synthetic()), model


@pytest.mark.parametrize(("verb", "images"), [("validate", 3), ("test", 5)])
def test_scores_stand_with_what_they_are_of(tmp_path, monkeypatch, verb, images):
    monkeypatch.chdir(tmp_path)
    trainer, model = scored(verb)
    file = ScoreFile(tmp_path, "some/net.ckpt")
    (file.on_validation_end if verb == "validate" else file.on_test_end)(trainer, model)
    assert [path.name for path in tmp_path.iterdir()] == [f"{verb}.json"]
    facts = json.loads((tmp_path / f"{verb}.json").read_text())
    date = datetime.fromisoformat(facts.pop("date"))
    assert facts == {
        "verb": verb,
        "scores": {"val/top1": 0.5, "test/top1": 0.25},
        "images": images,
        "checkpoint": str(tmp_path / "some/net.ckpt"),
        "data": "datamodules.synthetic.Synthetic",
    }
    assert date.utcoffset() == timedelta(0) and abs(datetime.now(UTC) - date) < timedelta(days=1)


@pytest.mark.parametrize(("fn", "main"), [("fit", True), ("validate", False)])
def test_a_validation_of_a_fit_and_other_processes_write_nothing(tmp_path, fn, main):
    ScoreFile(tmp_path, None).on_validation_end(*scored(fn, main))
    assert not list(tmp_path.iterdir())


def test_without_a_folder_or_a_count_of_images(tmp_path):
    trainer, model = scored("test")
    ScoreFile(None, None).on_test_end(trainer, model)
    ScoreFile(tmp_path, None).on_test_end(trainer, torch.nn.Identity())
    assert json.loads((tmp_path / "test.json").read_text())["images"] is None


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "test.json").mkdir()
    (tmp_path / "test.json" / "full").touch()
    with pytest.warns(UserWarning, match=r"test\.json cannot be written"):
        ScoreFile(tmp_path, None).on_test_end(*scored("test"))
    assert Path(tmp_path / "test.json" / "full").exists()
