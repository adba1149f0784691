"""What ScoreTable prints of sets, images, files and time, from facts made by hand."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from tests.callbacks.test_score_table import cells
from vit_lightning.callbacks import score_table as module
from vit_lightning.callbacks.class_tables import ClassTables
from vit_lightning.callbacks.score_file import ScoreFile
from vit_lightning.callbacks.score_table import ScoreTable
from vit_lightning.classifier import Classifier
from vit_lightning.training.members import Alone
from vit_lightning.training.metrics import WeightedMean

SCORES = {"loss": 0.5, "top1": 0.25, "top5": 0.75}


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def mean(images: int) -> WeightedMean:
    made = WeightedMean()
    made.update(torch.ones(images), torch.ones(images))
    made.compute()
    return made


def classifier(classes: int = 6, images: int = 7, **further: int) -> Classifier:
    """A model that has scored so many test images, and those of further sets."""
    model = Classifier({"variant": "mu/8"}, num_classes=classes, image_size=8)
    model.further_sets = list(further)
    for name in SCORES:
        model.scores["test"][name] = mean(images)
        model.scores["val"][name] = mean(images + 1)
    for name, count in further.items():
        model.scores["test"][name] = mean(count)
    return model


def fit(fn: str = "test", values: dict[str, float] | None = None, **facts: object) -> SimpleNamespace:
    split = {"test": "test", "validate": "val"}[fn]
    logged = {f"{split}/{name}": torch.tensor(value) for name, value in (values or SCORES).items()}
    usual = {"world_size": 1, "is_global_zero": True, "state": SimpleNamespace(fn=fn), "ckpt_path": None}
    usual |= {"callbacks": [], "callback_metrics": logged}
    return SimpleNamespace(**usual | facts)


def shown(capsys, trainer: SimpleNamespace, model, clock, seconds: float = 2.0) -> list[list[str]]:
    table, fn = ScoreTable(), {"validate": "validation"}.get(trainer.state.fn, "test")
    clock.now += 50
    getattr(table, f"on_{fn}_start")(trainer, model)
    clock.now += seconds
    getattr(table, f"on_{fn}_end")(trainer, model)
    return cells(capsys.readouterr().out)


@pytest.mark.parametrize(("fn", "name", "images"), [("test", "test", 7), ("validate", "validation", 8)])
def test_each_verb_has_its_own_set_and_time(capsys, clock, fn, name, images):
    assert shown(capsys, fit(fn), classifier(), clock) == [
        ["set", "images", "loss", "top-1", "top-5"],
        [name, str(images), "0.5", "25.00 %", "75.00 %"],
        ["time", f"2.0 s, {images / 2:.3g} images/s on 1 device"],
    ]


@pytest.mark.parametrize(("classes", "says"), [(5, False), (6, True)])
def test_five_guesses_of_five_classes_say_nothing(capsys, clock, classes, says):
    header, *_ = shown(capsys, fit(), classifier(classes), clock)
    assert ("top-5" in header) == says


def test_speed_counts_the_images_of_all_sets_once(capsys, clock):
    model = classifier(night=9, rain=4)
    rows = shown(capsys, fit(values=SCORES | {"night": 0.5, "rain": 1.0}, world_size=2), model, clock, seconds=10.0)
    assert rows[2:4] == [["night", "9", "50.00 %"], ["rain", "4", "100.00 %"]]
    assert rows[-1] == ["time", "10 s, 2 images/s on 2 devices"]  # 7, 9 and 4


def test_nets_that_answer_together_stand_below_with_their_own_scores(capsys, clock):
    model = classifier()
    model.answering.alone = {
        "test": {"a": Alone("a.ckpt", {"top1": 0.5, "loss": 2.0}), "b": Alone("b.ckpt", {"top1": 0.125})},
        "val": {"c": Alone("c.ckpt", {"top1": 1.0})},
    }
    rows = shown(capsys, fit(ckpt_path="net.ckpt"), model, clock)
    assert rows[2:4] == [["a.ckpt", "7", "2", "50.00 %"], ["b.ckpt", "7", "12.50 %"]]


def test_what_was_scored_written_and_kept_is_named_in_order(capsys, clock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = classifier()
    model.split_scores["test"].notes = ["one", "two"]
    model.split_scores["val"].notes = ["of another set"]
    file, tables = ScoreFile(None, None), ClassTables(None, None)
    file.kept, tables.kept = ["kept     x"], ["kept     y"]
    tables.written = [Path("run/a.csv"), Path("run/b.csv")]
    trainer = fit(ckpt_path=str(tmp_path / "net.ckpt"), callbacks=[SimpleNamespace(kept=["z"]), tables, file])
    assert shown(capsys, trainer, model, clock)[2:-1] == [
        ["note", "one"],
        ["note", "two"],
        ["scored", "net.ckpt"],
        ["kept", "y"],
        ["kept", "x"],
        ["tables", "run/a.csv, b.csv"],
    ]
    model.answering.members = SimpleNamespace(paths=["b.ckpt"])
    model.answering.prepare(fits=False)
    model.answering.names["member1"] = "a.ckpt"
    assert not any(row[0] == "scored" for row in shown(capsys, trainer, model, clock))


def test_other_processes_and_those_that_want_none_say_nothing(capsys, clock):
    assert shown(capsys, fit(is_global_zero=False), classifier(), clock) == []
    table, loops = ScoreTable(), {"test_loop": SimpleNamespace(verbose=False)}
    loops["validate_loop"] = SimpleNamespace(verbose=True)
    trainer = fit(**loops)
    table.setup(trainer, classifier(), "test")
    table.on_test_end(trainer, classifier())
    assert capsys.readouterr().out == ""
    table.setup(trainer, classifier(), "validate")
    assert loops["validate_loop"].verbose is False  # Lightning's own table is not printed
    table.on_test_end(trainer, classifier())
    assert capsys.readouterr().out != ""


@pytest.mark.parametrize("hook", ["test", "validation"])
def test_images_of_a_second_call_are_counted_anew(clock, hook):
    trainer, table = fit(world_size=3), ScoreTable()
    for _ in range(2):
        getattr(table, f"on_{hook}_start")(trainer, BoringModel())
        for place, size in ((0, 4), (0, 2), (1, 5)):
            getattr(table, f"on_{hook}_batch_end")(trainer, BoringModel(), None, [torch.zeros(size, 2)], 0, place)
        assert table._images == Counter({0: 18, 1: 15})


def test_a_set_without_a_metric_has_a_row_and_sets_stand_in_order():
    table = module.foreign_table("test", {"f1/dataloader_idx_10": 0.5, "f1/dataloader_idx_2": 0.25}, Counter({1: 3}))
    assert [list(column.cells) for column in table.columns] == [
        ["test 2", "test 3", "test 11"],
        ["3", "0", "0"],
        ["", "0.25", "0.5"],
    ]
