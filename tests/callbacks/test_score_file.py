"""The file of scores beside a run, from facts made by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from datamodules.synthetic import Synthetic
from vit_lightning.callbacks.score_file import ScoreFile
from vit_lightning.callbacks.score_names import stem
from vit_lightning.classifier import Classifier
from vit_lightning.training.members import Alone
from vit_lightning.training.metrics import WeightedMean


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
        "sets": {},
    }
    assert date.utcoffset() == timedelta(0) and abs(datetime.now(UTC) - date) < timedelta(days=1)


def test_further_sets_stand_with_their_own_number_of_images(tmp_path):
    trainer, model = scored("test")
    model.further_sets = ["night", "unseen"]
    model.scores["test"]["night"] = WeightedMean()
    model.scores["test"]["night"].update(torch.ones(9), (torch.arange(9) > 0).float())
    model.scores["test"]["night"].compute()
    ScoreFile(tmp_path, "a.ckpt").on_test_end(trainer, model)
    facts = json.loads((tmp_path / "test.json").read_text())
    assert facts["further_images"] == {"night": 8} and facts["images"] == 5


def test_several_nets_stand_with_the_scores_of_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer, model = scored("test")
    model.answering.members = SimpleNamespace(paths=["b.ckpt", "hf://group/net"])
    model.answering.prepare(fits=False)
    model.answering.names["member1"] = "~/a.ckpt"
    alone = {f"member{number}": Alone(str(number), {"top1": number / 4}) for number in (1, 2, 3)}
    model.answering.alone = {"test": alone}
    ScoreFile(tmp_path, "a.ckpt", {"root": "pets"}).on_test_end(trainer, model)
    facts = json.loads((tmp_path / "test.mean.json").read_text())
    paths = [str(Path("~/a.ckpt").expanduser()), str(tmp_path / "b.ckpt"), "hf://group/net"]
    expected = [
        {"checkpoint": path, "scores": {"test/top1": number / 4}} for path, number in zip(paths, (1, 2, 3), strict=True)
    ]
    assert facts["members"] == expected and facts["source"] == {"root": "pets"}
    assert not {"flip", "checkpoint"} & facts.keys()


def test_a_mirrored_view_stands_beside_the_net_without_it(tmp_path):
    trainer, model = scored("validate")
    model.hparams["flip"] = True
    model.answering.alone = {"val": {"member1": Alone("without flip", {"top1": 0.25, "loss": 2.0})}}
    ScoreFile(tmp_path, "a.ckpt").on_validation_end(trainer, model)
    facts = json.loads((tmp_path / "validate.json").read_text())
    assert facts["without flip"] == {"val/top1": 0.25, "val/loss": 2.0}
    assert facts["checkpoint"].endswith("/a.ckpt") and "source" not in facts and facts["flip"] is True


def test_files_of_other_data_and_other_nets_have_numbers(tmp_path):
    """The first free one, or that of the same nets on the same data."""
    trainer, model = scored("test")
    for source in ("x", "y", "x", "z"):
        ScoreFile(tmp_path, None, {"root": source}, is_own=False).on_test_end(trainer, model)
    found = {path.name: json.loads(path.read_text())["source"]["root"] for path in tmp_path.iterdir()}
    assert found == {"test-2.json": "x", "test-3.json": "y", "test-4.json": "z"}
    for members, own, name in ((["a"], True, "test.mean"), (["a"], False, "test.mean-2"), ([], True, "test")):
        assert stem(tmp_path, "test", members, {}, own) == name
    (tmp_path / "test.mean.json").write_text(json.dumps({"members": [{"checkpoint": "a"}]}))
    assert stem(tmp_path, "test", ["a"], {}, True) == "test.mean"
    assert stem(tmp_path, "test", ["a", "b"], {}, True) == "test.mean-2"
    (tmp_path / "test.mean-2.json").write_text("{")
    (tmp_path / "test.mean-3.json").mkdir()
    assert stem(tmp_path, "test", ["a", "b"], {}, True) == "test.mean-4"


def test_scores_that_a_later_call_lacks_are_put_aside(tmp_path):
    trainer, model = scored("test")
    calls = ({"test/ece": 0.5, "test/top1": 0.5}, {"test/top1": 0.5}, {"test/auroc": 1.0}, {"test/auroc": 0.75})
    kept = []
    for metrics in calls:
        trainer.callback_metrics = {name: torch.tensor(value) for name, value in metrics.items()}
        file = ScoreFile(tmp_path, None)
        file.on_test_end(trainer, model)
        kept += file.kept
    found = {path.name: json.loads(path.read_text())["scores"] for path in tmp_path.iterdir()}
    assert found == {"test.earlier-1.json": calls[0], "test.earlier-2.json": calls[1], "test.json": calls[3]}
    assert kept == [f"kept     test.json of an earlier call as {tmp_path}/test.earlier-{n}.json" for n in (1, 2)]


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
