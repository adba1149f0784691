"""What chooses the best checkpoint of images of several labels."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.callbacks import monitors
from vit_lightning.callbacks.monitors import Monitors, own_metric
from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.masked_patch import MaskedPatch

FILMS = ("--data", "Manifest", "--data.root", "films", "--data.train", "labels.csv", "--data.val_fraction", 0.5)
FIT = ("--data.multi_label", "true", "--model.loss", "sigmoid", "--model.net.variant", "mu/8", "--data.num_workers", 0)
SIZE = ("--data.image_size", 8, "--data.batch_size", 8, "--trainer.accelerator", "cpu", "--trainer.max_epochs", 2)


class OwnMonitor(Classifier):
    monitor = ("val/own", "min")


def test_one_right_guess_chooses_no_checkpoint_of_several_labels():
    assert own_metric(Classifier, False) == ("val/top1", "max")
    assert own_metric(Classifier, True) == ("val/mean_auroc", "max")
    assert own_metric(OwnMonitor, True) == ("val/own", "min")
    assert own_metric(MaskedPatch, True) == ("val/loss", "min")
    assert own_metric(object, True) is None


@pytest.fixture
def films() -> None:
    Path("films").mkdir()
    shades = np.random.default_rng(0).integers(0, 255, 40)
    labels = ("dark", "bright", "dark;odd", "bright;odd", "")
    for number, shade in enumerate(shades):
        Image.new("L", (8, 8), int(shade)).save(f"films/{number}.png")
    rows = [f"{number}.png,{labels[number % 5]}\n" for number in range(len(shades))]
    Path("films/labels.csv").write_text("path,label\n" + "".join(rows))


def test_the_mean_auroc_chooses_that_of_a_table_of_several_labels(app, films):
    done = app("fit", *FILMS, *FIT, *SIZE)
    assert done.code == 0, done.err
    checkpoint = torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)
    state = next(state for name, state in checkpoint["callbacks"].items() if name.startswith("ModelCheckpoint"))
    assert state["monitor"] == "val/mean_auroc"
    header, *rows = [row.split(",") for row in Path("runs/default/0/metrics.csv").read_text().splitlines()]
    areas = [float(row[header.index("val/mean_auroc")]) for row in rows if row[header.index("val/mean_auroc")]]
    assert len(areas) == 2 and float(state["best_model_score"]) == pytest.approx(max(areas))
    assert "best     runs/default/0/checkpoints/best.ckpt (AUROC " in done.out


def test_a_trial_of_a_batch_asks_for_no_ranking_of_it(app, films):
    rows = [f"{number}.png,bright\n" for number in range(40)]
    Path("films/labels.csv").write_text("path,label\n" + "".join(rows))
    done = app("fit", *FILMS, *FIT, *SIZE, "--trainer.fast_dev_run", "true")
    assert done.code == 0, done.err


def test_a_ranking_without_a_value_names_the_way_out(app, films):
    rows = [f"{number}.png,bright\n" for number in range(40)]
    Path("films/labels.csv").write_text("path,label\n" + "".join(rows))
    done = app("fit", *FILMS, *FIT, *SIZE)
    assert done.code == 1
    assert "mean_auroc has no value" in done.err and "give --checkpoint.monitor val/loss" in done.err


@pytest.mark.parametrize(("most", "part", "is_refused"), [(11, 1.0, True), (12, 1.0, False), (11, 0.5, False)])
def test_a_ranking_that_is_too_large_is_told_before_the_first_step(monkeypatch, most, part, is_refused):
    monkeypatch.setattr(monitors, "MOST_RANKED", most)

    class Films(ImageDataModule):
        class_names = ("a", "b", "c")
        num_classes = 3

        def setup(self, stage):
            self.val_set = [0, 1, 2, 3]

    data = Films()
    data.setup("fit")
    checkpoint = SimpleNamespace(monitor="val/mean_auroc")
    trainer = SimpleNamespace(callbacks=[checkpoint], datamodule=data, limit_val_batches=part)
    watching = Monitors({"checkpoint": checkpoint}, ())
    if is_refused:
        with pytest.raises(InputError, match=r"4 images by 3 .* than 11; give --checkpoint.monitor val/loss"):
            watching.on_fit_start(trainer, torch.nn.Linear(1, 1))
    else:
        watching.on_fit_start(trainer, torch.nn.Linear(1, 1))
