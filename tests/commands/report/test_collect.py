"""Reading a run folder, whole or damaged."""

import fcntl
import os

import pytest
import torch
import yaml

from tests.commands.report.conftest import NAMES, metrics, write_csv
from vit_lightning.commands.report.collect import METRICS, collect, run_folder
from vit_lightning.errors import InputError
from vit_lightning.runs.differences import differences
from vit_lightning.runs.lock import LOCK, is_held, locked


def test_a_whole_run_is_read_without_a_note(make_run):
    run = collect(make_run())
    assert run.notes == [] and run.name == "pets/0" and run.steps == 20
    assert run.curves["train/loss"][:2] == [(0, 2.0), (2, 2.0 / 3)] and run.last("val/top1") == 0.75
    assert run.part("model")["optim"]["lr"] == 0.001 and run.class_of("data") == "Synthetic"
    assert [row.name for row in run.classes] == list(NAMES) and run.classes[1].shares["recall"] is None
    assert run.confusion.names == list(NAMES)
    assert run.confusion.entries == [(0, 0, 7), *((i, j, 7 if i == j else i) for i in (1, 2) for j in range(3))]
    assert run.mistakes[0].image == "dog.jpg" and run.mistakes[0].probability == 0.91
    assert run.scores["test"]["scores"]["test/top1"] == 0.8 and run.tables_of == "test"


def test_the_plan_is_that_of_the_last_part(make_run):
    folder = make_run()
    assert collect(folder).plan == []
    (folder / "plan.txt").write_bytes(b"net      S/16\n\nnet      B/16, big\nclasses  2: \xff, b\n")
    run = collect(folder)
    assert run.plan == [("net", "B/16, big"), ("classes", "2: \udcff, b")] and run.notes == []


def test_validation_stands_in_where_nothing_was_tested(make_run):
    folder = make_run()
    for path in folder.glob("test*"):
        path.rename(folder / path.name.replace("test", "validate"))
    assert collect(folder).tables_of == "validate"


@pytest.mark.parametrize("names", [("=1+1", "'=x", "@b"), ("a,b", 'c"d', "e\nf"), ("x", "x", "y")])
def test_names_come_back_as_they_were(make_run, names):
    run = collect(make_run(classes=names))
    assert run.notes == [] and run.confusion.names == list(names)
    assert [row.name for row in run.classes] == list(names)
    assert [mistake.label for mistake in run.mistakes] == list(names[1:])


def test_a_confusion_matrix_of_many_classes_lists_its_entries(make_run):
    folder = make_run()
    write_csv(
        folder / "test.confusion.csv", [["true", "predicted", "images"], ["7", "7", 3], ["7", "9", 1], ["9", "9", 2]]
    )
    found = collect(folder).confusion
    assert found.names == ["7", "9"] and found.entries == [(0, 0, 3), (0, 1, 1), (1, 1, 2)]


def test_two_classes_may_be_called_as_the_columns_are(make_run):
    found = collect(make_run(classes=("predicted", "images"))).confusion
    assert found.names == ["predicted", "images"] and (1, 1, 7) in found.entries


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.yaml", "model: [", "config.yaml"),
        ("env.json", "{", "env.json is damaged"),
        ("env.json", "[]", "env.json is damaged (it holds no object)"),
        ("test.json", "\x00\x01", "test.json is damaged"),
        ("test.classes.csv", "class,support,f1\ncat,many,0.5\n", "test.classes.csv is damaged"),
        ("test.confusion.csv", "true,cat,dog\ncat,1\n", "test.confusion.csv is damaged (it is no square of 2 classes)"),
        ("test.confusion.csv", "", "test.confusion.csv is damaged"),
        ("test.mistakes.csv", "image,label\nx,y\n", "test.mistakes.csv is damaged"),
        ("metrics.csv", "", "metrics.csv holds no row yet"),
        (
            "metrics.csv",
            "lr,step\n0.1,0\n0.1,x\n0.1\n0.1,1,2\n",
            "metrics.csv is damaged: 3 rows could not be read, and are left out.",
        ),
    ],
)
def test_what_is_damaged_is_left_out_in_one_line(make_run, name, content, said):
    folder = make_run()
    (folder / name).write_text(content)
    run = collect(folder)
    assert any(said in note for note in run.notes) and all("\n" not in note for note in run.notes)


def test_what_is_no_regular_file_is_left_out(make_run):
    folder = make_run()
    (folder / "test.json").unlink()
    os.mkfifo(folder / "test.json")
    (folder / "metrics.csv").unlink()
    (folder / "metrics.csv").mkdir()
    notes = collect(folder).notes
    assert any("FIFO" in note for note in notes) and any("metrics.csv" in note for note in notes)


def test_a_folder_that_holds_a_config_alone(make_run):
    folder = make_run()
    for path in folder.glob("*.*"):
        if path.name != "config.yaml":
            path.unlink()
    run = collect(folder)
    assert run.notes == ["There is no metrics.csv, so there are no curves."] and run.steps == 0


def test_numbers_that_are_none_are_no_points(make_run):
    folder = make_run()
    write_csv(folder / METRICS, [*metrics(), ["nan", "", "", 30, "inf", "", ""]])
    assert collect(folder).curves["train/loss"][-1][0] == 18


def test_a_run_that_still_trains_says_so_and_is_left_alone(make_run):
    folder = make_run()
    assert not is_held(folder)
    with (folder / LOCK).open("w") as held:
        held.write("process 1 on here\n")
        held.flush()
        assert not is_held(folder)
        fcntl.flock(held, fcntl.LOCK_EX)
        assert collect(folder).notes == ["The run still trains: this is what it has come to so far."]
        assert (folder / LOCK).read_text() == "process 1 on here\n"
    assert collect(folder).notes == []


def test_the_run_of_this_process_is_held_by_no_other(make_run):
    with locked(folder := make_run()):
        assert not is_held(folder)


def test_a_checkpoint_names_its_run(make_run):
    folder = make_run()
    (folder / "checkpoints" / "best.ckpt").touch()
    assert run_folder(str(folder / "checkpoints" / "best.ckpt")) == folder


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nowhere", "no such file or folder.*; give a run folder, such as runs/pets/0, the newest there"),
        (
            "runs/pets",
            "the folder of an experiment, whose newest run is runs/pets/0; .*, such as that one",
        ),
        (
            "empty",
            "a folder without config.yaml and checkpoints.*; give a run folder, such as runs/pets/0, the newest there",
        ),
        ("file", "neither a folder nor a regular file.*; give a run folder, such as runs/pets/0, the newest there"),
    ],
)
def test_what_is_no_run_is_refused(make_run, tmp_path, monkeypatch, word, said):
    make_run()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=f"report {word}: {said}"):
        run_folder(word)


def test_a_run_that_went_on_began_with_its_first_parts_weights(make_run):
    """A resumed part names the whole net of its checkpoint and no weights; what else it was told counts."""
    folder = make_run(model__init_args__weights="s14.safetensors")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    whole = {"variant": "Ti/16", "patch": 8, "pool": "gap", "width": 192, "depth": 12}
    config["model"]["init_args"] |= {"weights": None, "net": whole, "weights_head": "keep", "optim": {"lr": 0.5}}
    (folder / "config.resume-1.yaml").write_text(yaml.safe_dump(config))
    found = collect(folder)
    model = found.part("model")
    assert (model["weights"], model["net"]) == ("s14.safetensors", {"variant": "Ti/16", "patch": 8, "pool": "gap"})
    assert "weights_head" not in model and model["optim"] == {"lr": 0.5}
    assert all("net." not in line for line in differences(*found.configs).values())


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        ((), None),
        (("last",), "last.ckpt is damaged: it does not hold what was written."),
        (("best",), "best.ckpt is damaged: it does not hold what was written."),
        (
            ("last", "previous"),
            "last.ckpt is damaged: it does not hold what was written, and previous.ckpt is taken in its place.",
        ),
    ],
)
def test_checkpoints_that_are_cut_are_named_in_one_line(make_run, cut, said):
    folder = make_run()
    for name in ("best", "last", *(["previous"] if "previous" in cut else [])):
        path = folder / "checkpoints" / f"{name}.ckpt"
        torch.save({"state_dict": {"a": torch.ones(1000)}}, path)
        if name in cut and name != "previous":
            path.write_bytes(path.read_bytes()[:900])
    assert [note for note in collect(folder).notes if ".ckpt" in note] == ([said] if said else [])


def test_a_row_that_may_lack_digits_is_left_out(make_run):
    folder = make_run()
    whole = collect(folder).curves["val/top1"]
    path = folder / "metrics.csv"
    path.write_bytes(path.read_bytes().rstrip()[:-1])
    found = collect(folder)
    assert "metrics.csv is damaged: 1 row could not be read, and is left out." in found.notes
    assert found.curves.get("val/top1", []) in (whole, whole[:-1])
    assert all(points[-1][0] < 20 for points in found.curves.values())
