"""The table of scores that validate and test print."""

import io
import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from rich.console import Console
from rich.table import Table

from vit_lightning.callbacks.score_table import ScoreTable, foreign_table, score_table, upright

DATA = ("--data", "Synthetic", "--data.eval_size", 24, "--data.batch_size", 16, "--data.num_workers", 0)
FIT = ("fit", *DATA, "--data.train_size", 32, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
SCORING = ("--trainer.accelerator", "cpu", "--ckpt_path", "last")


def cells(text: str) -> list[list[str]]:
    """Rows of a table, header first."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "──" not in line]
    return [re.split(r" {2,}", line) for line in lines]


def shown(table: Table) -> list[list[str]]:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(table)
    return cells(console.export_text())


@pytest.mark.parametrize(("verb", "name"), [("validate", "validation"), ("test", "test")])
def test_one_table_has_images_percentages_and_time(app, verb, name):
    assert app(*FIT, "--data.eval_size", 8).code == 0
    done = app(verb, *DATA, *SCORING)
    assert done.code == 0, done.err
    header, row, scored, wrote, tables, time = cells(done.out)
    files = ", ".join(f"{verb}.{name}" for name in ("classes.csv", "confusion.csv", "confusion.png", "mistakes.csv"))
    assert tables == ["tables", f"runs/default/0/{files}"]
    assert scored == ["scored", "runs/default/0/checkpoints/last.ckpt"]
    assert wrote == ["wrote", f"runs/default/0/{verb}.json"]
    assert header == ["set", "images", "loss", "top-1", "top-5", "per-class", "macro F1", "ECE"]
    assert row[:2] == [name, "24"] and re.fullmatch(r"[\d.]+", row[2])
    assert all(re.fullmatch(r"\d+\.\d\d %", cell) for cell in row[3:])
    assert time[0] == "time" and re.fullmatch(r"[\d.]+ (m?s|min \d\d s), [\d,.]+ images/s on 1 device", time[1])
    assert "DataLoader" not in done.out


def test_verbose_false_prints_none(app):
    assert app(*FIT).code == 0
    done = app("test", *DATA, *SCORING, "--verbose", "false")
    assert done.code == 0 and done.out == "", done.err


def test_scoring_says_nothing_of_what_bears_on_training_alone(app, tmp_path):
    assert app(*FIT).code == 0
    recipe = ("--model.schedule.warmup_steps", 7, "--model.optim.lr", 1, "--model.label_smoothing", 0.1)
    recipe += ("--model.averaging.decay", 0.5, "--model.net.dropout", 0.1)
    done = app("test", *DATA, *SCORING, *recipe)
    assert done.code == 0 and "differs" not in done.out + done.err, done.err
    done = app("test", *DATA, *SCORING, "--model.loss", "sigmoid")
    assert "differs from the checkpoint: model.loss: softmax -> sigmoid" in done.err


def test_further_sets_are_rows_under_their_names():
    values = {"loss": 0.4321, "top1": 0.98354, "top5": 1.0, "real": 0.862, "mine": 0.5}
    counted = {"loss": 50_000, "top1": 50_000, "top5": 50_000, "real": 46_837, "mine": 9}
    assert shown(score_table("validation", values, counted, ["real", "mine"], several=False)) == [
        ["set", "images", "loss", "top-1", "top-5"],
        ["validation", "50,000", "0.4321", "98.35 %", "100.00 %"],
        ["ReaL labels", "46,837", "86.20 %"],
        ["mine", "9", "50.00 %"],
    ]


OWN = """
import torch
from lightning.pytorch import Callback
from vit_lightning.classifier import Classifier


class Mine(Classifier):
    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        super().validation_step(batch, batch_idx, dataloader_idx)
        self.log("val/auc", torch.tensor(0.25), on_epoch=True)

    def test_step(self, batch, batch_idx, dataloader_idx=0):
        super().test_step(batch, batch_idx, dataloader_idx)
        self.log("test/auc", torch.tensor(0.5), on_epoch=True)


class Logs(Callback):
    def on_test_epoch_end(self, trainer, pl_module):
        pl_module.log("test/kappa", torch.tensor(0.125))
"""


def test_scores_of_ones_own_stand_in_the_table_the_file_and_the_line_of_an_epoch(app, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    done = app(*FIT, "--model", "mine.Mine")
    assert done.code == 0 and "val auc 0.25" in done.out, done.err
    done = app("test", *DATA, *SCORING, "--model", "mine.Mine", "--trainer.callbacks", "mine.Logs")
    assert done.code == 0, done.err
    header, row = cells(done.out)[:2]
    assert header[-2:] == ["auc", "kappa"] and row[-2:] == ["0.5", "0.125"]
    scores = json.loads((tmp_path / "runs/default/0/test.json").read_text())["scores"]
    assert scores["test/auc"] == 0.5 and scores["test/kappa"] == 0.125


def test_what_is_no_score_of_the_set_is_no_column():
    values = {"loss": 1.0, "mine": 0.5, "mine/loss": 2.0, "perf/images_per_s": 9.0, "auc": 0.5}
    header, row, _ = shown(score_table("test", values, {"loss": 4, "mine": 4}, ["mine"], several=False))
    assert header == ["set", "images", "loss", "auc"] and row == ["test", "4", "1", "0.5"]


def test_scores_of_several_labels_have_their_own_names():
    values = {"loss": 30560.7, "top1": 0.5, "top5": 0.75}
    header, row = shown(score_table("test", values, dict.fromkeys(values, 4), [], several=True))
    assert header == ["set", "images", "loss", "precision at 1", "hit at 5"]
    assert row == ["test", "4", "30,561", "50.00 %", "75.00 %"]


def test_sets_of_a_model_from_elsewhere_are_rows():
    values = {"accuracy/dataloader_idx_0": 0.5, "accuracy/dataloader_idx_1": 0.25, "f1/dataloader_idx_1": 0.125}
    assert shown(foreign_table("test", values, Counter({0: 8, 1: 4}))) == [
        ["set", "images", "accuracy", "f1"],
        ["test 1", "8", "0.5"],
        ["test 2", "4", "0.25", "0.125"],
    ]
    assert shown(foreign_table("test", {"f1": 0.5}, Counter({0: 8}))) == [["set", "images", "f1"], ["test", "8", "0.5"]]


def test_images_of_a_model_from_elsewhere_are_those_of_all_processes(capsys):
    facts = {"world_size": 2, "is_global_zero": True, "state": SimpleNamespace(fn="test"), "ckpt_path": None}
    facts |= {
        "callbacks": [],
        "callback_metrics": {"f1": torch.tensor(0.5)},
        "test_loop": SimpleNamespace(verbose=True),
    }
    trainer, table = SimpleNamespace(**facts), ScoreTable()
    table.setup(trainer, BoringModel(), "test")
    table.on_test_start(trainer, BoringModel())
    for place, batch in enumerate((torch.zeros(3, 32), (torch.zeros(1, 32), torch.zeros(1)))):
        table.on_test_batch_end(trainer, BoringModel(), None, batch, place)
    table.on_test_end(trainer, BoringModel())
    assert cells(capsys.readouterr().out)[:2] == [["set", "images", "f1"], ["test", "8", "0.5"]]


MULTI = """
import torch
from datamodules.synthetic import Synthetic


class Several(Synthetic):
    def setup(self, stage):
        images = torch.zeros(4, 3, 16, 16, dtype=torch.uint8)
        self.train_set = self.val_set = self.test_set = list(zip(images, torch.ones(4, 6)))
"""


def test_images_of_several_labels_are_known_by_their_labels(app, tmp_path: Path, monkeypatch):
    (tmp_path / "two_each.py").write_text(MULTI)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("--data", "two_each.Several", "--data.num_classes", 6, "--data.image_size", 16, "--data.batch_size", 4)
    words += ("--data.num_workers", 0, "--trainer.accelerator", "cpu")
    done = app("fit", *words, "--model.net.variant", "mu/8", "--model.loss", "sigmoid")
    assert done.code == 0, done.err
    assert "precision at 1 100.0 %" in done.out and "best.ckpt (precision at 1 100.00 %)" in done.out
    done = app("test", *words, "--ckpt_path", "last")
    names = ["precision at 1", "hit at 5", "macro F1", "ECE", "mAP", "micro mAP", "micro F1", "exact match"]
    assert cells(done.out)[0] == ["set", "images", "loss", *names], done.out + done.err
    assert "note     mean_auroc is left out: every class is shown by all images or by none" in done.out


@pytest.mark.parametrize("several", [True, False])
def test_a_further_set_does_not_say_how_many_labels_those_of_the_set_have(several):
    trainer, table, images = SimpleNamespace(world_size=1), ScoreTable(), torch.zeros(2, 3, 8, 8)
    labels = {True: torch.ones(2, 4), False: torch.ones(2, dtype=torch.int64)}
    for number, kind in enumerate((several, not several)):
        table.on_validation_batch_end(trainer, BoringModel(), None, (images, labels[kind]), 0, number)
    assert table._several is several and table._images == {0: 2, 1: 2}


def test_a_table_too_wide_for_its_terminal_stands_upright():
    values = {"loss": 0.5, "top1": 0.25, "macro_f1": 0.125}
    table = upright(score_table("test", values, dict.fromkeys(values, 4), [], several=False))
    assert shown(table) == [
        ["set", "test"],
        ["images", "4"],
        ["loss", "0.5"],
        ["top-1", "25.00 %"],
        ["macro F1", "12.50 %"],
    ]


def test_numbered_and_measured_figures_are_no_columns():
    values = {"loss": 1.0, "auc/dataloader_idx_1": 0.5, "perf/x": 1.0, "auc": 0.25}
    header, row = shown(score_table("test", values, {"loss": 4}, [], several=False))
    assert header == ["set", "images", "loss", "auc"] and row == ["test", "4", "1", "0.25"]
