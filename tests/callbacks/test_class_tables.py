"""Tables by class, of few classes and of many, and when they are written."""

import csv
import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset

from vit_lightning.callbacks import class_tables
from vit_lightning.callbacks.class_tables import ClassTables, class_table, confusion_table, mistake_table, scored_keys
from vit_lightning.classifier import Classifier
from vit_lightning.data.sampling import EvalSampler
from vit_lightning.evaluation import confusion as confusions
from vit_lightning.evaluation.confusion import Confusion, Mistakes
from vit_lightning.evaluation.ranking import Ranking
from vit_lightning.training.scoring import Summed

NAMES = ["ant", "=bee", "cow"]
TRUE, PREDICTED = np.array([0, 0, 0, 2]), np.array([0, 2, 2, 2])


def rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode())))


def summed(ranking: Ranking | None = None) -> Summed:
    confusion = Confusion.of(TRUE, PREDICTED, 3)
    return Summed({}, confusion.counts, confusion, ranking, {})


def test_a_class_has_its_images_and_shares_and_what_is_of_no_image_is_empty():
    assert rows(class_table(summed(), NAMES)) == [
        ["class", "support", "precision", "recall", "f1"],
        ["ant", "3", "1.000000", "0.333333", "0.500000"],
        ["'=bee", "0", "", "", ""],
        ["cow", "1", "0.333333", "1.000000", "0.500000"],
    ]


def test_rankings_stand_behind():
    ranking = Ranking(np.array([0.25, np.nan, 1]), np.array([0.5, np.nan, 0.75]), 0.5)
    table = rows(class_table(summed(ranking), NAMES))
    assert [row[5:] for row in table] == [
        ["average_precision", "auroc"],
        ["0.250000", "0.500000"],
        ["", ""],
        ["1.000000", "0.750000"],
    ]


def test_a_row_is_the_true_class_and_a_column_the_predicted_one(monkeypatch):
    square = [["true", "ant", "'=bee", "cow"], ["ant", "1", "0", "2"], ["'=bee", "0", "0", "0"], ["cow", "0", "0", "1"]]
    monkeypatch.setattr(class_tables, "MOST_IN_A_SQUARE", 3)
    assert rows(confusion_table(summed().confusion, NAMES)) == square


def test_of_many_classes_the_entries_that_are_not_0_are_listed(monkeypatch):
    monkeypatch.setattr(class_tables, "MOST_IN_A_SQUARE", 2)
    entries = [["true", "predicted", "images"], ["ant", "ant", "1"], ["ant", "cow", "2"], ["cow", "cow", "1"]]
    assert rows(confusion_table(summed().confusion, NAMES)) == entries


def test_mistakes_are_the_wrong_images_the_most_confident_first(monkeypatch):
    images, confidence = np.array([2, 3, 5, 8]), np.array([0.9, 0.5, 0.75, 0.99])
    table = mistake_table(Mistakes.of(images, TRUE, PREDICTED, confidence), NAMES, "abcd=f")
    assert rows(table) == [
        ["image", "label", "predicted", "probability"],
        ["f", "ant", "cow", "0.750000"],
        ["d", "ant", "cow", "0.500000"],
    ]
    monkeypatch.setattr(confusions, "MOST_MISTAKES", 1)
    assert Mistakes.of(images, TRUE, PREDICTED, confidence).images.tolist() == [5]


def test_of_equal_confidence_the_first_images_come_first():
    found = Mistakes.of(np.arange(4), TRUE, TRUE + 1, np.full(4, 0.5))
    assert found.images.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("scores", "folder", "checkpoint", "written"),
    [
        (None, "run", "kept/net.ckpt", "run"),
        (None, None, "kept/net.ckpt", None),  # nobody asked
        (["macro_f1"], "run", None, None),
        (["classes", "confusion"], None, "kept/net.ckpt", "kept"),
        (["classes", "confusion"], "run", "kept/net.ckpt", "run"),
        (["classes", "confusion"], None, None, "."),
    ],
)
def test_tables_lie_in_the_run_or_where_asked_for_beside_the_checkpoint(
    tmp_path, monkeypatch, scores, folder, checkpoint, written
):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "kept"):
        Path(name).mkdir()
    monkeypatch.setattr(class_tables, "find_spec", lambda name: None)
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8, scores=scores)
    model.class_names = NAMES
    model.split_scores["test"].summed = summed()
    trainer = SimpleNamespace(is_global_zero=True, state=SimpleNamespace(fn="test"))
    tables = ClassTables(folder and Path(folder), checkpoint)
    tables.on_test_end(trainer, model)
    expected = [Path(written, f"test.{name}.csv") for name in ("classes", "confusion")] if written else []
    assert tables.written == expected == sorted(Path().rglob("*.csv"))
    if expected:
        assert expected[0].read_bytes() == class_table(summed(), NAMES)
        assert expected[1].read_bytes() == confusion_table(summed().confusion, NAMES)


@pytest.mark.parametrize("scores", [["classes"], ["macro_f1"]])
def test_tables_of_an_earlier_call_are_put_aside_and_named(tmp_path, monkeypatch, capsys, scores):
    """They neither lie beside the scores of a call that they are not of, nor are lost."""
    monkeypatch.setattr(class_tables, "find_spec", lambda name: None)
    trainer = SimpleNamespace(is_global_zero=True, state=SimpleNamespace(fn="validate"))
    for name in ("validate.confusion.png", "test.classes.csv"):
        (tmp_path / name).touch()
    table = confusion_table(summed().confusion, NAMES)
    kept = []
    for chosen in (None, scores, None, scores):
        model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8, scores=chosen)
        model.class_names = NAMES
        model.split_scores["val"].summed = summed()
        tables = ClassTables(tmp_path, None)
        tables.on_validation_end(trainer, model)
        kept += tables.kept
    left = {path.name for path in tmp_path.iterdir()}
    aside = {"validate.confusion.earlier-1.png", "validate.confusion.earlier-1.csv", "validate.confusion.earlier-2.csv"}
    classes = {f"validate.classes.earlier-{number}.csv" for number in (1, 2)}
    assert left == {"test.classes.csv"} | aside | ({"validate.classes.csv"} if scores == ["classes"] else classes)
    assert all((tmp_path / name).read_bytes() == table for name in aside if name.endswith("csv"))
    said = f"kept     validate.confusion.csv of an earlier call as {tmp_path}/validate.confusion.earlier-1.csv"
    assert said in kept and not capsys.readouterr().out  # ScoreTable says it, once all files are written


@pytest.mark.parametrize(("fn", "main", "count"), [("validate", True, 2), ("fit", True, 0), ("validate", False, 0)])
def test_a_validation_of_a_fit_and_other_processes_write_nothing(tmp_path, monkeypatch, fn, main, count):
    monkeypatch.setattr(class_tables, "find_spec", lambda name: None)
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8)
    model.split_scores["val"].summed = summed()
    trainer = SimpleNamespace(is_global_zero=main, state=SimpleNamespace(fn=fn))
    ClassTables(tmp_path, None).on_validation_end(trainer, model)
    assert len(list(tmp_path.glob("validate.*"))) == count
    assert len(list(tmp_path.iterdir())) == count


@pytest.mark.parametrize(("fn", "listed"), [("test", False), ("test", True), ("validate", True)])
@pytest.mark.parametrize("scores", [None, ["mistakes"], ["classes"]])
def test_mistakes_are_named_by_the_data_that_are_scored(tmp_path, monkeypatch, fn, listed, scores):
    monkeypatch.setattr(class_tables, "find_spec", lambda name: None)
    split, begins = {"test": ("test", "test"), "validate": ("val", "validate")}[fn]
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8, scores=scores)
    mistakes = Mistakes.of(np.array([2, 3, 5, 8]), TRUE, PREDICTED, np.array([0.9, 0.5, 0.75, 0.99]))
    model.split_scores[split].summed = summed()._replace(mistakes=mistakes)
    loaders = {name: loader_of([f"{name}{number}" for number in range(9)]) for name in ("test", "val")}
    loaders = {f"{name}_dataloaders": [one, None] if listed else one for name, one in loaders.items()}
    trainer = SimpleNamespace(is_global_zero=True, state=SimpleNamespace(fn=fn), **loaders)
    tables = ClassTables(tmp_path, None)
    getattr(tables, {"test": "on_test_end", "validate": "on_validation_end"}[fn])(trainer, model)
    file = tmp_path / f"{begins}.mistakes.csv"
    assert file.exists() == (scores != ["classes"])
    if file.exists():
        assert [row[0] for row in rows(file.read_bytes())] == ["image", f"{split}5", f"{split}3"]


def loader_of(keys: list[str]) -> DataLoader:
    images = Images(keys)
    return DataLoader(images, sampler=EvalSampler(images))


class Images(Dataset):
    """Images of which the names alone are known."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)


def test_images_whose_order_is_unknown_have_no_names():
    state = SimpleNamespace(fn="validate")
    for loader in (DataLoader(Images(["a"])), [Images(["a"])]):
        assert scored_keys(SimpleNamespace(state=state, val_dataloaders=loader)) is None


def test_how_files_begin_is_asked_once(tmp_path, monkeypatch):
    """It reads the scores of every earlier call."""
    asked: list[Path] = []
    monkeypatch.setattr(class_tables, "stem", lambda folder, *facts: asked.append(folder) or "test-2")
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8)
    model.split_scores["test"].summed = summed()
    trainer = SimpleNamespace(is_global_zero=True, state=SimpleNamespace(fn="test"))
    ClassTables(tmp_path, None, is_own=False).on_test_end(trainer, model)
    assert asked == [tmp_path] and (tmp_path / "test-2.classes.csv").is_file()


def test_the_picture_shows_shares_of_the_true_class_a_row_each(monkeypatch):
    axes = pytest.importorskip("matplotlib.axes").Axes
    imshow = axes.imshow
    shown: list[np.ndarray] = []
    monkeypatch.setattr(axes, "imshow", lambda self, drawn, **how: shown.append(drawn) or imshow(self, drawn, **how))
    picture = class_tables.confusion_picture(summed().confusion, NAMES)
    assert picture.startswith(b"\x89PNG")
    np.testing.assert_allclose(shown, [[[1 / 3, 0, 2 / 3], [0, 0, 0], [0, 0, 1]]])


def test_the_picture_shows_names_that_a_person_can_read(monkeypatch):
    axes, labels = pytest.importorskip("matplotlib.axes").Axes, []
    monkeypatch.setattr(axes, "set_yticks", lambda self, ticks, names, **how: labels.extend(names))
    class_tables.confusion_picture(summed().confusion, ["a" * 24, "b" * 25, "owl\x1b[2J\u202e"])
    assert labels == ["a" * 24, "b" * 23 + "…", r"owl\x1b[2J\u202e"]
