"""What is predicted of images of several labels, as a person reads it in every form of a file."""

import csv
import json
import logging

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image

from tests.commands.test_predict import save
from vit_lightning.classifier import Classifier
from vit_lightning.files import write_atomically

NAMES = ["effusion", "fibrosis", "nodule"]
LABELS = ["effusion;nodule", "", "fibrosis"]


@pytest.fixture
def predicted(app, tmp_path, caplog):
    """Predict three films with a net that finds effusion at 0.9, fibrosis at 0.35 and nodule at 0.2, in one form."""
    caplog.set_level(logging.INFO)
    for number in range(3):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
    rows = [f"{number}.png,{label}" for number, label in enumerate(LABELS)]
    write_atomically(tmp_path / "films.csv", "\n".join(["path,label", *rows]) + "\n")
    write_atomically(tmp_path / "names.txt", "\n".join(NAMES))
    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8, channels=3, loss="sigmoid", threshold=0.3)
    model.configure_model()
    torch.nn.init.zeros_(model.net.head.weight)
    with torch.no_grad():
        model.net.head.bias.copy_(torch.tensor([0.9, 0.35, 0.2]).logit())
    save(model, tmp_path / "net.ckpt", NAMES)
    words = ("predict", "net.ckpt", "--data", "Manifest", "--data.root", ".", "--data.train", "null")
    words += ("--data.test", "films.csv", "--data.multi_label", "true", "--data.class_map", "names.txt")
    words += ("--data.image_size", 8, "--data.num_workers", 0, "--data.cache", "cache", "--trainer.accelerator", "cpu")

    def run(out: str):
        done = app(*words, "--top", 1, "--out", out)
        assert done.code == 0, done.err
        return done.out + done.err + caplog.text

    return run


def test_names_above_the_threshold_stand_in_one_cell_and_the_set_is_told(predicted):
    assert "predict  test set, 3 images" in predicted("p.csv")
    with open("p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["image", "label", "predicted", "class1", "probability1", "error"]
    assert [row["predicted"] for row in rows] == ["effusion | fibrosis"] * 3
    assert [row["label"] for row in rows][::2] == ["effusion | nodule", "fibrosis"]


def test_other_forms_hold_lists(predicted):
    predicted("p.jsonl")
    with open("p.jsonl") as file:
        assert [json.loads(line)["predicted"] for line in file] == [["effusion", "fibrosis"]] * 3
    predicted("p.parquet")
    assert parquet.read_table("p.parquet")["predicted"].to_pylist() == [["effusion", "fibrosis"]] * 3
