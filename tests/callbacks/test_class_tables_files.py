"""Which tables are written of how many classes, in which bytes, and what is said of those that cannot be."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.callbacks.test_class_tables import NAMES, loader_of, summed
from vit_lightning.callbacks import class_tables
from vit_lightning.callbacks.class_tables import ClassTables, class_table
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.evaluation.confusion import Mistakes


def model(**facts: object) -> Classifier:
    made = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8, **facts)
    made.split_scores["test"].summed = summed()
    return made


def tables(folder: Path | None, made: Classifier, loaders: object = None) -> ClassTables:
    trainer = SimpleNamespace(is_global_zero=True, state=SimpleNamespace(fn="test"), test_dataloaders=loaders)
    found = ClassTables(folder, None)
    found.on_test_end(trainer, made)
    return found


@pytest.mark.parametrize(("most", "drawn"), [(3, True), (2, False)])
def test_a_square_of_many_classes_is_not_drawn(tmp_path, monkeypatch, most, drawn):
    monkeypatch.setattr(class_tables, "MOST_IN_A_SQUARE", most)
    monkeypatch.setattr(class_tables, "find_spec", lambda name: object())
    monkeypatch.setattr(class_tables, "confusion_picture", lambda confusion, names: b"picture")
    tables(tmp_path, model())
    expected = {"test.classes.csv", "test.confusion.csv"} | ({"test.confusion.png"} if drawn else set())
    assert {path.name for path in tmp_path.iterdir()} == expected


def test_classes_without_names_are_numbers(tmp_path):
    tables(tmp_path, model(scores=["classes"]))
    lines = (tmp_path / "test.classes.csv").read_bytes().decode().split("\n")
    assert [line.split(",")[0] for line in lines] == ["class", "0", "1", "2", ""]  # no carriage return, an end


def test_a_name_that_is_no_utf_8_keeps_its_bytes():
    assert class_table(summed(), [*NAMES[:2], "\udcff"]).endswith(b"\n\xff,1,0.333333,1.000000,0.500000\n")


def test_a_table_that_cannot_be_written_is_said_and_ends_nothing(tmp_path, monkeypatch):
    def full(path: Path, content: bytes) -> None:
        if path.name == "test.confusion.csv":
            raise InputError(f"{path.name} cannot be written: no space left")
        path.write_bytes(content)

    monkeypatch.setattr(class_tables, "write_atomically", full)
    with pytest.warns(UserWarning, match=r"test\.confusion\.csv cannot be written: no space left"):
        found = tables(tmp_path, model())
    assert found.written == [tmp_path / "test.classes.csv"]


def test_what_was_written_and_kept_is_that_of_the_last_call(tmp_path, monkeypatch):
    monkeypatch.setattr(class_tables, "find_spec", lambda name: None)
    found, trainer = ClassTables(tmp_path, None), SimpleNamespace(is_global_zero=True, state=SimpleNamespace(fn="test"))
    found.on_test_end(trainer, model())
    found.on_test_end(trainer, model(scores=["classes"]))
    assert [path.name for path in found.written] == ["test.classes.csv"] and len(found.kept) == 1
    found.on_test_end(trainer, model(scores=["macro_f1"]))
    assert found.written == [] and len(found.kept) == 1


def test_mistakes_of_images_whose_order_is_unknown_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(class_tables, "find_spec", lambda name: None)
    made = model(scores=["mistakes", "classes"])
    ones = Mistakes.of(np.arange(2), np.array([0, 1]), np.array([1, 0]), np.array([0.5, 0.75]))
    made.split_scores["test"].summed = summed()._replace(mistakes=ones)
    tables(tmp_path, made, loaders=[["a", "b"]])
    assert [path.name for path in tmp_path.iterdir()] == ["test.classes.csv"]
    tables(tmp_path, made, loaders=loader_of(["a", "b"]))
    lines = (tmp_path / "test.mistakes.csv").read_text().splitlines()
    assert lines == ["image,label,predicted,probability", "b,1,0,0.750000", "a,0,1,0.500000"]
