"""Scores of other images, or of another state of the net, are not taken for those of the run."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from vit_lightning.commands.report import comparison, sources, wording
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.page import page_of_runs
from vit_lightning.runs.checkpoint_names import fingerprint

TESTED = {"split": {"published": False, "sha256": "a" * 64}, "night": {"published": False, "sha256": "b" * 64}}
FACTS = {
    "scores": {"test/top1": 0.8, "test/night": 0.5, "test/night/loss": 0.9},
    "images": 30,
    "further_images": {"night": 12},
    "data": "datamodules.folder.ImageFolder",
    "source": {"root": "/pets", "train": "t.csv", "also.night": "/night"},
    "sets": TESTED,
}


def scored(folder: Path, top1: float, **changes) -> None:
    facts = json.loads(json.dumps(FACTS)) | changes
    facts["scores"] |= {"test/top1": top1, "test/night": top1 - 0.25}
    (folder / "test.json").write_text(json.dumps(facts))


def compared(runs) -> dict[str, list[bool]]:
    return {row.name: [cell.is_best for cell in row.cells] for row in comparison.scores(runs)}


@pytest.mark.parametrize(
    ("changes", "own", "night", "why"),
    [
        ({}, True, True, []),
        ({"source": FACTS["source"] | {"train": "few.csv"}}, True, True, []),
        (
            {"source": FACTS["source"] | {"also.night": "/dusk"}},
            True,
            False,
            ["also.night is /night in pets/0, /dusk in pets/1"],
        ),
        ({"source": FACTS["source"] | {"root": "/dogs"}}, False, True, ["root is /pets in pets/0, /dogs in pets/1"]),
        ({"images": 29}, False, True, ["number of images is 30 in pets/0, 29 in pets/1"]),
        (
            {"data": "datamodules.Manifest"},
            False,
            False,
            ["data is ImageFolder in pets/0, Manifest in pets/1"],
        ),
        (
            {"sets": TESTED | {"split": {"published": False, "sha256": "c" * 64}}},
            False,
            True,
            [f"names and labels of the images is {'a' * 12} in pets/0, {'c' * 12} in pets/1"],
        ),
    ],
)
def test_a_best_is_marked_among_equal_images_alone(make_run, changes, own, night, why):
    folders = [make_run("pets/0"), make_run("pets/1")]
    scored(folders[0], 0.75)
    scored(folders[1], 0.875, **changes)
    runs = [collect(folder) for folder in folders]
    found = compared(runs)
    assert found["test top-1 accuracy"] == [False, own]
    assert found["test on night top-1 accuracy"] == [False, night]
    said = comparison.without_best(comparison.scores(runs))
    assert len(said) == len(why) and all(reason in line for reason, line in zip(why, said, strict=True))
    assert all(line.startswith("No best is marked of test ") for line in said)


def test_the_page_says_why_there_is_no_best(make_run, page):
    folders = [make_run("pets/0"), make_run("pets/1")]
    scored(folders[0], 0.75)
    scored(folders[1], 0.875, images=29)
    text = page(page_of_runs([collect(folder) for folder in folders])).text
    assert (
        "No best is marked of test top-1 accuracy, which are of different images: number of images is 30 in pets/0, "
        "29 in pets/1." in text
    )


def test_an_older_file_says_nothing_of_its_images_and_is_no_equal(make_run):
    folders = [make_run("pets/0"), make_run("pets/1")]
    scored(folders[0], 0.75)
    facts = {name: value for name, value in FACTS.items() if name != "sets"}
    (folders[1] / "test.json").write_text(json.dumps(facts))
    runs = [collect(folder) for folder in folders]
    assert compared(runs)["test top-1 accuracy"] == [False, False]
    assert "record of the images is not stated in pets/0, none in pets/1" in comparison.scores(runs)[0].unlike


@pytest.mark.parametrize(("published", "is_marked"), [(True, True), (False, False)])
def test_published_images_are_the_same_wherever_they_lie(make_run, published, is_marked):
    folders = [make_run("pets/0"), make_run("pets/1")]
    tested = {"split": {"published": published, "sha256": None}}
    for number, folder in enumerate(folders):
        scored(folder, 0.5 + number / 4, sets=tested, source={"root": f"/data{number}"})
    assert compared([collect(folder) for folder in folders])["test top-1 accuracy"] == [False, is_marked]


@pytest.mark.parametrize(
    ("field", "value", "is_marked"),
    [("batch_size", 16, True), ("root", "/other", False), ("val", "other.csv", False), ("split_seed", 7, False)],
)
def test_validation_images_are_known_by_the_settings_of_the_data(make_run, field, value, is_marked):
    runs = [collect(make_run("pets/0")), collect(make_run("pets/1", **{f"data__init_args__{field}": value}))]
    runs[1].curves["val/top1"] = [(19, 0.875)]
    assert compared(runs)["last validation top-1 accuracy"] == [False, is_marked]


def test_a_training_table_does_not_change_the_images_of_a_validation_table():
    told = {"class_path": "Manifest", "init_args": {"root": "/pets", "val": "v.csv", "train": "t.csv"}}
    found = []
    for train in ("t.csv", "few.csv"):
        told["init_args"]["train"] = train
        found.append(sources.of_validation(sources.Run(Path(), [json.loads(json.dumps({"data": told}))])))
    assert found[0] == found[1] == (("data", "Manifest"), ("root", "/pets"), ("val", "v.csv"))


def checkpoint(folder: Path, value: float) -> Path:
    path = folder / "checkpoints/best.ckpt"
    torch.save({"weight": torch.full((9,), value)}, path)
    return path


def test_a_test_of_an_earlier_state_does_not_speak_for_the_run(make_run):
    folder = make_run()
    path = checkpoint(folder, 1.0)
    scored(folder, 0.8, checkpoint=str(path), fingerprint=fingerprint(path))
    run = collect(folder)
    assert wording.outdated(run) == [] and wording.main_score(run).of == "test, 30 images"
    checkpoint(folder, 2.0)  # as a resume that has become better does
    run = collect(folder)
    assert wording.score_rows(run)[0].of == "test (of another best.ckpt), 30 images"
    assert wording.main_score(run).of == "last validation"
    assert "test top-1" not in wording.sentence(run)
    (said,) = wording.outdated(run)
    assert said.startswith("test.json is of another best.ckpt than the run has now, and so are the tables beside it; ")
    assert f"python -m vit_lightning test {folder} scores what it has." in said


def test_a_run_that_was_moved_keeps_its_scores(make_run, tmp_path):
    folder = make_run()
    path = checkpoint(folder, 1.0)
    scored(folder, 0.8, checkpoint=str(path), fingerprint=fingerprint(path))
    shutil.copytree(folder, tmp_path / "copies/pets/0")
    checkpoint(folder, 2.0)
    assert wording.outdated(collect(tmp_path / "copies/pets/0")) == []
    shutil.rmtree(folder)
    assert wording.main_score(collect(tmp_path / "copies/pets/0")).of == "test, 30 images"


def test_a_file_of_another_run_is_named_as_such(make_run):
    own, other = make_run("pets/0"), make_run("pets/1")
    checkpoint(own, 1.0)
    path = checkpoint(other, 2.0)
    for facts in ({}, {"fingerprint": fingerprint(path)}):
        scored(own, 0.8, checkpoint=str(path), **facts)
        run = collect(own)
        assert wording.main_score(run).of == "last validation"
        assert wording.outdated(run)[0].startswith(f"test.json is of {path}, which is no checkpoint of this run; ")


def test_an_ensemble_of_earlier_states_says_so(make_run):
    own, other = make_run("pets/0"), make_run("pets/1")
    paths = [checkpoint(own, 1.0), checkpoint(other, 2.0)]
    members = [{"checkpoint": str(path), "fingerprint": fingerprint(path), "scores": {}} for path in paths]
    (own / "test.mean.json").write_text(json.dumps({"scores": {"test/top1": 0.9}, "members": members, "flip": True}))
    of = {row.of for row in wording.score_rows(collect(own))}
    assert "test (test.mean.json) (flipped too)" in of
    checkpoint(other, 3.0)
    run = collect(own)
    assert "test (test.mean.json) (of another best.ckpt) (flipped too)" in {row.of for row in wording.score_rows(run)}
    assert wording.outdated(run)[0].startswith("test.mean.json is of another best.ckpt than ")


def test_scores_of_validation_stand_in_the_order_of_those_of_a_test(make_run):
    run = collect(make_run())
    run.scores = {}
    run.curves = {f"val/{name}": [(19, 0.5)] for name in ("ece", "loss", "macro_f1", "own", "top1")}
    names = [row.name for row in wording.score_rows(run) if row.of == "last validation"]
    assert names == ["loss", "top-1 accuracy", "macro F1", "expected calibration error", "own"]


def test_of_a_run_without_its_checkpoint_nothing_is_said(make_run):
    own, copy = make_run("pets/0"), make_run("copies/0")
    path = checkpoint(own, 1.0)
    for facts in ({}, {"fingerprint": fingerprint(path)}):
        scored(copy, 0.8, checkpoint=str(path), **facts)
        assert wording.outdated(collect(copy)) == []
