"""A run is scored on data of another place: no training table and no split of the run's are needed for them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.files import write_atomically

NET = ("--model.net.variant", "mu/8", "--model.optim.lr", 0.01, "--trainer.accelerator", "cpu")
SHAPE = ("--data.image_size", 16, "--data.batch_size", 8, "--data.num_workers", 0)
COLOURS = {"fibrosis": (200, 0, 0), "nodule": (0, 200, 0), "normal": (0, 0, 200)}


def draw(folder: Path, seed: int, count: int = 8) -> list[tuple[str, str, int]]:
    """Write images of each class with a colour of its own; return name, class and patient of each."""
    chance = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    rows = []
    for number in range(count):
        for name, colour in COLOURS.items():
            pixels = np.clip(chance.integers(0, 56, (16, 16, 3)) + np.array(colour), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{name}{number}.png")
            rows.append((f"{name}{number}.png", name, number // 2))
    return rows


def write(table: Path, rows: list[tuple[str, str, int]], order: list[str]) -> None:
    """Write a table with a column of 0 and 1 for each class, in some order."""
    lines = [",".join(("path", "patient", *order))]
    lines += [f"{path},{patient},{','.join(str(int(each == name)) for each in order)}" for path, name, patient in rows]
    write_atomically(table, "\n".join(lines) + "\n")


@pytest.fixture
def run(app, tmp_path) -> Path:
    """A run on the table of one site, which holds out patients of its own."""
    write(tmp_path / "site1/train.csv", draw(tmp_path / "site1", 0), ["fibrosis", "nodule", "normal"])
    told = ("--data.label_column", "[fibrosis,nodule,normal]", "--data.group_column", "patient")
    fractions = ("--data.val_fraction", 0.25, "--data.test_fraction", 0.25)
    data = ("--data", "Manifest", "--data.root", "site1", *told, *fractions, "--data.cache", tmp_path / "cache")
    done = app("fit", *NET, *data, *SHAPE, "--name", "site", "--trainer.max_epochs", 8)
    assert done.code == 0, done.err
    return tmp_path / "runs/site/0"


def scores(path: Path) -> dict:
    return json.loads(path.read_text())


def test_a_table_of_another_site_is_scored_whole(app, run, tmp_path):
    assert app("test", run).code == 0
    own = (run / "test.json").read_bytes()
    write(tmp_path / "site2/labels.csv", draw(tmp_path / "site2", 1), ["normal", "fibrosis", "nodule"])
    other = ("--data.root", "site2", "--data.test", "labels.csv", "--data.label_column", "[normal,fibrosis,nodule]")
    done = app("test", run, *other)
    assert done.code == 0, done.err
    assert (run / "test.json").read_bytes() == own
    written = scores(run / "test-2.json")
    assert written["images"] == 24 and written["scores"]["test/top1"] > 0.9
    assert written["source"] == {"root": str(tmp_path / "site2"), "test": "labels.csv"}
    assert (run / "test-2.classes.csv").is_file()
    torch.save(torch.load(run / "checkpoints/best.ckpt", weights_only=True), "alone.ckpt")
    alone = ("--data", "Manifest", *SHAPE[2:], "--data.cache", "cache", "--data.split_file", "null")
    done = app("test", "alone.ckpt", *alone, "--data.train", "null", *other)
    assert done.code == 0 and " 24 " in done.out and "100.00 %" in done.out, done
    assert app("predict", run, *other).code == 0


def test_images_that_were_trained_on_are_not_scored_by_accident(app, run, tmp_path):
    site2 = draw(tmp_path / "site2", 1)
    for file in ("nodule1.png", "normal1.png", "fibrosis5.png"):
        (tmp_path / "site2" / file).write_bytes((tmp_path / "site1" / file).read_bytes())
    write(tmp_path / "site2/labels.csv", site2, [*COLOURS])
    done = app("test", run, "--data.root", "site2", "--data.test", "labels.csv")
    assert done.code == 1 and "is among the test images, and the checkpoint was trained on it" in done.err, done


def test_folders_of_another_site_are_scored_whole(app, tmp_path):
    """The image size is the checkpoint's, and the run's split says nothing of them."""
    for site, seed in (("site1", 0), ("site2", 1)):
        for name, label, _ in draw(tmp_path / "all" / site, seed):
            (tmp_path / site / label).mkdir(parents=True, exist_ok=True)
            (tmp_path / "all" / site / name).rename(tmp_path / site / label / f"{site}{name}")
    done = app("fit", *NET, "--data", "ImageFolder", "--data.root", "site1", *SHAPE, "--trainer.max_epochs", 1)
    assert done.code == 0, done.err
    for words in (
        ("runs/default/0", "--data.root", "site2"),
        ("--ckpt_path", "best", "--data", "ImageFolder", "--data.root", "site2", "--data.split_file", "null"),
    ):
        done = app("test", *words)
        assert done.code == 0, done.err
        assert (
            scores(Path("runs/default/0/test-2.json"))["images"] == 24 and not Path("runs/default/0/test.json").exists()
        )
    done = app("test", "runs/default/0", "--data.split_file", "null")
    assert done.code == 1 and "the checkpoint was trained on it" in done.err
    done = app("test", "runs/default/0")
    assert done.code == 0 and scores(Path("runs/default/0/test.json"))["images"] == 3, done.err


def test_a_run_finds_its_data_from_another_folder(app, run, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").rename(tmp_path / "elsewhere/moved")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert app("test", "moved/site/0").code == 0
    (tmp_path / "site1").rename(tmp_path / "site0")
    done = app("test", "moved/site/0")
    said = f"lie in site1, which is neither in {tmp_path}, where it was started, nor in {Path.cwd()}; give --data.root"
    assert done.code == 1 and said in done.err, done
    done = app("test", "moved/site/0", "--data.root", "../site0")
    assert done.code == 0 and sorted(path.name for path in Path("moved/site/0").glob("test*.json")) == ["test.json"]


def test_a_run_reads_its_own_copy_of_a_split(app, run, tmp_path):
    told = ("--data.label_column", "[fibrosis,nodule,normal]", "--data.cache", "cache", "--name", "again")
    data = ("--data", "Manifest", "--data.root", "site1", "--data.split_file", "split.csv", *told)
    (run / "split.csv").rename("split.csv")
    assert app("fit", *NET, *data, *SHAPE, "--trainer.max_epochs", 1).code == 0
    Path("split.csv").unlink()
    done = app("test", "runs/again/0")
    assert done.code == 0 and scores(Path("runs/again/0/test.json"))["images"] == 6, done.err


def test_doctor_names_a_patient_in_two_splits(app, tmp_path):
    rows = draw(tmp_path / "site1", 0)
    write(tmp_path / "site1/train.csv", rows, [*COLOURS])
    splits = [f"{path},{'test' if path == 'nodule1.png' else 'train'}" for path, _, _ in rows]
    Path("split.csv").write_text("\n".join(["file,split", *splits]) + "\n")
    told = (
        "--data.label_column",
        "[fibrosis,nodule,normal]",
        "--data.group_column",
        "patient",
        "--data.cache",
        "cache",
    )
    data = ("--data", "Manifest", "--data.root", "site1", "--data.split_file", "split.csv", *told, *SHAPE)
    for verb in ("doctor", "fit"):
        done = app(verb, *NET, *data)
        said = "nodule1.png in test in row 5, which are both of '0' in --data.group_column"
        assert done.code == 1 and said in " ".join((done.out + done.err).split()), done
    assert not list(Path("runs").glob("*/*"))


def test_images_seen_otherwise_than_in_training_leave_the_runs_own_scores(app, run):
    assert app("test", run).code == 0
    own = {name: (run / name).read_bytes() for name in ("test.json", "test.classes.csv")}
    done = app("test", run, "--data.mean", "[0.1,0.2,0.3]", "--data.std", "[1,1,1]")
    assert done.code == 0, done.err
    assert {name: (run / name).read_bytes() for name in own} == own
    assert (
        scores(run / "test-2.json")["source"].items() >= {"mean": "[0.1, 0.2, 0.3]", "std": "[1.0, 1.0, 1.0]"}.items()
    )
    assert (run / "test-2.classes.csv").is_file()
