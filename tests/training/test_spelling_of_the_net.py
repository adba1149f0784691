"""Tables and predictions name classes as the net does, whatever a table that is scored writes."""

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vit_lightning.files import write_atomically
from vit_lightning.weights.class_names import spelt

FIT = ("fit", "--data", "Manifest", "--data.root", "site1", "--data.train", "labels.csv", "--data.multi_label", "true")
FIT += ("--data.image_size", 16, "--data.batch_size", 4, "--data.num_workers", 0, "--data.cache", "cache")
FIT += ("--model.net.variant", "mu/8", "--model.loss", "sigmoid", "--trainer.accelerator", "cpu")
FIT += ("--trainer.max_epochs", 1, "--name", "site")


def site(folder: Path, names: list[str], seed: int) -> None:
    folder.mkdir()
    rows = ["path,label"]
    for number in range(24):
        pixels = np.random.default_rng((seed, number)).integers(0, 255, (16, 16, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        rows.append(f"{number}.png,{names[number % len(names)]}")
    write_atomically(folder / "labels.csv", "\n".join(rows) + "\n")


@pytest.mark.parametrize("names", [["Effusion", "Nodule"], ["NODULE"]])
def test_another_site_s_spelling_heads_no_column(app, tmp_path, names):
    site(tmp_path / "site1", ["effusion", "nodule"], 0)
    site(tmp_path / "site2", names, 1)
    assert app(*FIT).code == 0
    other = ("--data.root", "site2", "--data.test", "labels.csv")
    for words in (("test", "runs/site/0"), ("predict", "runs/site/0", "--top", "all", "--out", "said.csv")):
        done = app(*words, *other)
        assert done.code == 0, done.err
    known = [name.lower() for name in names]
    with open("said.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [name for name in rows[0] if ":" in name] == [f"probability:{name}" for name in known]
    (table,) = Path("runs/site/0").glob("test*.classes.csv")
    assert [row["class"] for row in csv.DictReader(table.open())] == known


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (["Blue_Jay", "ant"], ["blue jay", "Ant"], ["blue jay", "Ant"]),
        (["tench"], ["tench, Tinca tinca"], ["tench"]),
        (["a", "b"], ["a"], ["a", "b"]),
        (["a"], [], ["a"]),
    ],
)
def test_names_that_differ_in_spelling_are_the_head_s(ours, theirs, expected):
    assert spelt(ours, theirs) == expected
