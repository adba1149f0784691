"""Scores of other images, or of another state of the net, are not taken for those of the run."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from vit_lightning.commands.report import comparison, scores, sources, wording
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
    said = comparison.unlike_images(comparison.scores(runs))
    assert len(said) == len(why) and all(reason in line for reason, line in zip(why, said, strict=True))
    assert all(line.startswith("No best is marked: test ") for line in said)


def test_the_page_says_why_there_is_no_best(make_run, page):
    folders = [make_run("pets/0"), make_run("pets/1")]
    scored(folders[0], 0.75)
    scored(folders[1], 0.875, images=29)
    text = page(page_of_runs([collect(folder) for folder in folders])).text
    assert (
        "No best is marked: test top-1 accuracy is of different images (number of images is 30 in pets/0, 29 in "
        "pets/1)." in text
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


def table(folder: Path, *validating: str, header: str = "file,class,split") -> None:
    rows = [f"{name},{name.partition('/')[0]},val" for name in validating]
    (folder / "split.csv").write_text("\n".join([header, "cat/0.jpg,cat,train", *rows, "cat/9.jpg,cat,test"]) + "\n")


def validated(run) -> dict[str, str]:
    return dict(sources.of_validation(run))


@pytest.mark.parametrize(
    ("first", "second", "is_marked", "why"),
    [
        (("cat/1.jpg", "dog/1.jpg"), ("dog/1.jpg", "cat/1.jpg"), True, ""),
        (("cat/1.jpg", "dog/1.jpg"), ("cat/1.jpg",), False, "number of images is 2 in pets/0, 1 in pets/1"),
        (("cat/1.jpg", "dog/1.jpg"), ("cat/1.jpg", "dog/2.jpg"), False, "names and classes of the images is "),
    ],
)
def test_validation_images_are_those_of_the_runs_own_tables(make_run, first, second, is_marked, why):
    """One was drawn, the other had the table of the first, and the folder may have changed in between."""
    drawn = make_run("pets/0", data__init_args__split_seed=3)
    told = make_run("pets/1", data__init_args__split_file=str(drawn / "split.csv"))
    for folder, names in ((drawn, first), (told, second)):
        table(folder, *names)
    runs = [collect(drawn), collect(told)]
    runs[1].curves["val/top1"] = [(19, 0.875)]
    assert compared(runs)["last validation top-1 accuracy"] == [False, is_marked]
    said = "; ".join(sources.differences([sources.of_validation(run) for run in runs], ["pets/0", "pets/1"]))
    assert said == "" if is_marked else said.startswith(why)


def test_a_table_says_nothing_of_the_images_of_another_root(make_run):
    folders = [make_run(f"pets/{number}", data__init_args__root=f"/data{number}") for number in (0, 1)]
    for folder in folders:
        table(folder, "cat/1.jpg")
    first, second = (validated(collect(folder)) for folder in folders)
    assert {name for name in first if first[name] != second[name]} == {"root"}


def test_a_table_without_validation_images_or_a_damaged_one_leaves_the_settings(make_run):
    folder = make_run(data__init_args__split_seed=3)
    table(folder)
    assert validated(collect(folder)) == {"data": "Synthetic", "split_seed": "3"}
    table(folder, "cat/1.jpg", header="file,class")
    run = collect(folder)
    assert validated(run) == {"data": "Synthetic", "split_seed": "3"}
    assert any("split.csv is damaged" in note for note in run.notes)


@pytest.mark.parametrize(
    ("images", "sha256", "is_marked"), [(30, "a" * 64, True), (30, "b" * 64, False), (33, "a" * 64, False)]
)
def test_a_fit_that_has_no_table_has_recorded_its_validation_images(make_run, images, sha256, is_marked):
    runs = []
    for number, facts in enumerate(({"images": 30, "sha256": "a" * 64}, {"images": images, "sha256": sha256})):
        folder = make_run(f"pets/{number}", data__init_args__split_seed=number)
        (folder / "splits.json").write_text(json.dumps({"val": {"published": False, **facts}}))
        runs.append(collect(folder))
    runs[1].curves["val/top1"] = [(19, 0.875)]
    assert compared(runs)["last validation top-1 accuracy"] == [False, is_marked]


@pytest.mark.parametrize(("limit", "is_all"), [(1.0, True), (None, True), (1, False), (0.5, False)])
def test_some_batches_are_not_all_validation_images(make_run, limit, is_all):
    run = collect(make_run(trainer={"limit_val_batches": limit}))
    assert ("limit_val_batches" not in validated(run)) == is_all


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
    assert scores.outdated(run) == [] and scores.main_score(run).of == "test, 30 images"
    checkpoint(folder, 2.0)  # as a resume that has become better does
    run = collect(folder)
    assert scores.score_rows(run)[0].of == "test (of another best.ckpt), 30 images"
    assert scores.main_score(run).of == "best validation"
    assert "test top-1" not in wording.sentence(run)
    (said,) = scores.outdated(run)
    assert said.startswith("test.json is of another best.ckpt than the run has now, and so are the tables beside it; ")
    assert "python -m vit_lightning test runs/pets/0 scores what it has." in said


def test_a_run_that_was_moved_keeps_its_scores(make_run, tmp_path):
    folder = make_run()
    path = checkpoint(folder, 1.0)
    scored(folder, 0.8, checkpoint=str(path), fingerprint=fingerprint(path))
    shutil.copytree(folder, tmp_path / "copies/pets/0")
    checkpoint(folder, 2.0)
    assert scores.outdated(collect(tmp_path / "copies/pets/0")) == []
    shutil.rmtree(folder)
    assert scores.main_score(collect(tmp_path / "copies/pets/0")).of == "test, 30 images"


def test_a_file_of_another_run_is_named_as_such(make_run):
    own, other = make_run("pets/0"), make_run("pets/1")
    checkpoint(own, 1.0)
    path = checkpoint(other, 2.0)
    for facts in ({}, {"fingerprint": fingerprint(path)}):
        scored(own, 0.8, checkpoint=str(path), **facts)
        run = collect(own)
        assert scores.main_score(run).of == "best validation"
        said = "test.json is of pets/1/checkpoints/best.ckpt, which is no checkpoint of this run; "
        assert scores.outdated(run)[0].startswith(said)


def test_an_ensemble_of_earlier_states_says_so(make_run):
    own, other = make_run("pets/0"), make_run("pets/1")
    paths = [checkpoint(own, 1.0), checkpoint(other, 2.0)]
    members = [{"checkpoint": str(path), "fingerprint": fingerprint(path), "scores": {}} for path in paths]
    (own / "test.mean.json").write_text(json.dumps({"scores": {"test/top1": 0.9}, "members": members, "flip": True}))
    of = {row.of for row in scores.score_rows(collect(own))}
    assert "test (test.mean.json) (flipped too)" in of
    checkpoint(other, 3.0)
    run = collect(own)
    assert "test (test.mean.json) (of another best.ckpt) (flipped too)" in {row.of for row in scores.score_rows(run)}
    assert scores.outdated(run)[0].startswith("test.mean.json is of another best.ckpt than ")


def test_scores_of_validation_stand_in_the_order_of_those_of_a_test(make_run):
    run = collect(make_run())
    run.scores = {}
    run.curves = {f"val/{name}": [(19, 0.5)] for name in ("ece", "loss", "macro_f1", "own", "top1")}
    names = [row.name for row in scores.score_rows(run) if row.of == "best validation"]
    assert names == ["loss", "top-1 accuracy", "macro F1", "expected calibration error", "own"]


def test_of_a_run_without_its_checkpoint_nothing_is_said(make_run):
    own, copy = make_run("pets/0"), make_run("copies/0")
    path = checkpoint(own, 1.0)
    for facts in ({}, {"fingerprint": fingerprint(path)}):
        scored(copy, 0.8, checkpoint=str(path), **facts)
        assert scores.outdated(collect(copy)) == []
