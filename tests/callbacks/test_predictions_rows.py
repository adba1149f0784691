"""Rows of predictions: other batches, several labels, all classes, features alone, and where a call goes on."""

import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.callbacks.test_predictions import BEST, Images, written
from vit_lightning.callbacks import predictions as module
from vit_lightning.callbacks.prediction_files import Answer, Columns, PartFile, _best, check_ending, shown
from vit_lightning.callbacks.predictions import Predictions, _answers, _label
from vit_lightning.data.sampling import BROKEN
from vit_lightning.errors import InputError


def test_more_classes_than_images_of_a_batch_are_written(tmp_path):
    batches = [(BEST[:1], [0]), (BEST[1:2], [0]), (BEST, [0, 0, 0])]
    found = written(tmp_path, batches, None, top=2)
    assert [row[1:5:2] for row in found[1:]] == [[*"12"], [*"03"], [*"12"], [*"03"], [*"32"]]
    assert found[1] == ["a", "1", "0.600000", "2", "0.250000", ""]


def test_all_classes_stand_in_their_order(tmp_path):
    found = written(tmp_path, [(BEST, [0] * 3), (BEST, [0] * 3)], ["w", "x", "y", "z"], top=None)
    assert found[0] == ["image", *(f"probability:{name}" for name in "wxyz"), "error"]
    assert found[1] == ["a", "0.1", "0.6", "0.25", "0.05", ""] and found[5] == ["e", "0.5", "0.1", "0.1", "0.3", ""]


@pytest.mark.parametrize(
    ("label", "names"),
    [(1, "b"), (0, "a"), (-1, None), ([0.0, 1.0, 0.75], ["b", "c"]), ([0.5, 0.0, 0.0], []), ([-1.0, -1.0, -1.0], None)],
)
def test_labels_have_their_names_and_hidden_ones_none(label, names):
    assert _label(label, ["a", "b", "c"]) == names


def test_rows_of_labels_tell_broken_images_and_stand_beside_their_own_image():
    dataset = Images("abcde")
    labels = torch.tensor([[1.0, 0.0], [BROKEN, BROKEN], [1.0, 1.0]])
    taken = module.Batch(torch.tensor([[0.75], [0.5], [0.25]]), torch.tensor([[1], [0], [0]]), labels, None)
    columns = Columns(["x", "y"], 1, has_labels=True)
    assert _answers(taken, labels[:, 0] == BROKEN, columns, dataset, 2) == [
        Answer("c", ["x"], {"y": 0.75}),
        Answer("d", None, {}, "=broken d"),
        Answer("e", ["x", "y"], {"x": 0.25}),
    ]
    hidden = Columns(["x", "y"], 1, has_labels=False)
    assert [answer.label for answer in _answers(taken, labels[:, 0] == BROKEN, hidden, dataset, 2)] == [None] * 3


def trainer_of(images: Images, **facts: object) -> SimpleNamespace:
    loaders = SimpleNamespace(dataset=images, batch_sampler=SimpleNamespace(seen_batch_indices=[1, 2]))
    usual = {"is_global_zero": True, "datamodule": images, "predict_dataloaders": loaders, "callbacks": []}
    usual |= {"world_size": 1, "precision": "32-true", "strategy": SimpleNamespace(broadcast=lambda value: value)}
    return SimpleNamespace(**usual | facts)


def headless() -> SimpleNamespace:
    settings = type("Settings", (dict,), {"num_classes": 0})(num_classes=0)
    return SimpleNamespace(hparams=settings, class_names=None, wants_features=False)


def test_a_net_without_classes_writes_features_alone(tmp_path, capsys):
    images, model = Images("abcd"), headless()
    with pytest.raises(InputError, match="the net has no classes; give --features FILE"):
        Predictions(tmp_path / "p.csv").setup(trainer_of(images), model, "predict")
    callback, trainer = Predictions(tmp_path / "p.csv", features=tmp_path / "f.npz"), trainer_of(images)
    callback.setup(trainer, model, "predict")
    for number, labels in enumerate(([0, BROKEN, 0], [0, 0, 0])):
        features = torch.arange(6.0).reshape(3, 2) + 10 * number
        batch = (None, torch.tensor(labels))
        callback.on_predict_batch_end(trainer, model, (torch.zeros(3, 0), features), batch, number)
    callback.on_predict_epoch_end(trainer, model)
    with np.load(tmp_path / "f.npz") as found:
        np.testing.assert_array_equal(found["features"], [[0, 1], [np.nan, np.nan], [4, 5], [10, 11]])
    assert [path.name for path in tmp_path.iterdir()] == ["f.npz"]
    assert capsys.readouterr().out == f"wrote    {tmp_path / 'f.npz'}: features of 4 images\n"


@pytest.mark.parametrize("several", [False, True])
def test_features_and_ensembles_do_not_go_together(tmp_path, several):
    model = headless()
    model.hparams["num_classes"] = 2
    model.answering = SimpleNamespace(members=SimpleNamespace(paths=["b.ckpt"] if several else []))
    callback = Predictions(tmp_path / "p.csv", features=tmp_path / "f.npz")
    if several:
        with pytest.raises(InputError, match=r"f\.npz are of one net; give one --ckpt_path"):
            callback._want_features(model)
    else:
        callback._want_features(model)
        assert model.wants_features
    Predictions(tmp_path / "p.csv")._want_features(model)
    assert not model.wants_features


def test_a_second_call_says_where_it_goes_on_and_its_rows_go_with_their_features(tmp_path, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(module, "rank_zero_info", said.append)
    model = headless()
    model.hparams = type("Settings", (dict,), {"num_classes": 4})(num_classes=4)
    files = tmp_path / "p.csv", None, 1, tmp_path / "f.npz"
    images = Images("abcde")

    def call(batches: list[tuple[int, int]], stop: bool) -> None:
        callback, trainer = Predictions(*files), trainer_of(images)
        callback.setup(trainer, model, "predict")
        first = images.predict_from
        for number, (start, end) in enumerate(batches):
            values = torch.nn.functional.one_hot(torch.arange(start, end) % 4, 4).float()
            features = torch.arange(start, end)[:, None].float()
            labels = torch.zeros(end - start, dtype=torch.int64)
            callback.on_predict_batch_end(trainer, model, (values, features), (None, labels), number)
        assert first == batches[0][0]
        if stop:
            callback.on_exception(trainer, model, RuntimeError())
        else:
            callback.on_predict_epoch_end(trainer, model)
        callback.teardown(trainer, model, "predict")

    call([(0, 2), (2, 4)], stop=True)  # the second batch waits and is lost
    (part,) = tmp_path.glob("*.part.csv")
    assert said == [f"{each} holds 2 images; the same command goes on after them" for each in (part, *parts(tmp_path))]
    said.clear()
    call([(2, 4), (4, 5)], stop=False)
    assert said == [f"goes on after the 2 images of {part}"]
    rows = list(csv.reader((tmp_path / "p.csv").open()))
    assert [row[:2] for row in rows[1:]] == [["a", "0"], ["b", "1"], ["c", "2"], ["d", "3"], ["e", "0"]]
    with np.load(tmp_path / "f.npz") as found:
        assert found["features"][:, 0].tolist() == [0, 1, 2, 3, 4] and found["keys"].tolist() == list("abcde")


def test_images_read_before_a_stop_count_where_all_that_follow_are_broken(tmp_path):
    """What was written stays, and is no call of which no image could be read."""
    model = headless()
    model.hparams = type("Settings", (dict,), {"num_classes": 4})(num_classes=4)
    images = Images("abcd")
    for first, label, stop in ((0, 0, True), (2, BROKEN, False)):
        callback, trainer = Predictions(tmp_path / "p.csv", None, 1), trainer_of(images)
        callback.setup(trainer, model, "predict")
        for number in (0, 1) if stop else (0,):
            labels = torch.full((2,), label)
            callback.on_predict_batch_end(trainer, model, (torch.eye(4)[:2], None), (None, labels), number)
        if stop:
            callback.on_exception(trainer, model, RuntimeError())
        else:
            assert images.predict_from == first
            callback.on_predict_epoch_end(trainer, model)
        callback.teardown(trainer, model, "predict")
    rows = list(csv.reader((tmp_path / "p.csv").open()))[1:]
    assert [(row[0], row[1] == "") for row in rows] == [("a", False), ("b", False), ("c", True), ("d", True)]


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.glob("f.*") if path.name != "f.npz"]


def test_notes_of_lightning_on_records_do_not_pile_up(tmp_path):
    images, model = Images("abcde"), headless()
    model.hparams = type("Settings", (dict,), {"num_classes": 4})(num_classes=4)
    callback, trainer = Predictions(tmp_path / "p.csv"), trainer_of(images)
    callback.setup(trainer, model, "predict")
    callback.on_predict_batch_end(trainer, model, torch.tensor(BEST), (None, torch.tensor([0, 0, 0])), 0)
    assert trainer.predict_dataloaders.batch_sampler.seen_batch_indices == []


@pytest.mark.parametrize(("images", "printed"), [(10, True), (11, False)])
def test_best_classes_of_few_images_are_printed(tmp_path, capsys, images, printed):
    names = [f"{number:02}.png" for number in range(images)]
    batches = [(BEST, [0, 0, 0])] * 4
    written(tmp_path, batches, None, images=names)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == (images + 1 if printed else 1) and lines[-1].endswith(f": {images} images")


# Files ---------------------------------------------------------------------------------------------------------------


def test_lines_of_json_have_seven_digits_and_null_where_nothing_is_known(tmp_path):
    file = PartFile(tmp_path / "x.jsonl")
    columns = Columns(["a", "b"], 2, has_labels=True)
    file.add_answers([Answer("1.png", "b", {"b": 1 / 3, "a": 1e-9}), Answer("2.png", None, {}, "broken")], columns)
    file.finish(tmp_path / "out.jsonl", columns)
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [
        {"image": "1.png", "label": "b", "probabilities": {"b": 0.3333333, "a": 1e-9}, "error": None},
        {"image": "2.png", "label": None, "probabilities": None, "error": "broken"},
    ]
    assert list(shown(tmp_path / "out.jsonl")) == ["1.png  b 33.3 %\n", "2.png  broken\n"]


def test_json_lines_are_kept_by_the_image_and_csv_has_a_head(tmp_path):
    columns = Columns(["a"], 1, has_labels=False)
    for ending, first in (("jsonl", []), ("csv", ["image,class1,probability1,error"])):
        path = tmp_path / f"x.{ending}"
        file = PartFile(path)
        file.add_answers([Answer(f"{number}", None, {"a": 0.5}) for number in range(3)], columns)
        assert len(path.read_text().splitlines()) == 3 + len(first)
        file.close()
        again = PartFile(path)
        assert again.images == 3
        again.keep(2)
        again.add_answers([Answer("new", None, {"a": 0.25})], columns)
        again.close()
        kept = path.read_text().splitlines()
        assert kept[: len(first)] == first and len(kept) == 3 + len(first)
        assert "1" in kept[-2] and "new" in kept[-1]
        last = PartFile(path)
        last.keep(0)
        last.close()
        assert not path.exists()


@pytest.mark.parametrize("left", ["image,class1,probability1,error\n", "image,class1,probability1,error\n0,a,0.5"])
def test_a_file_of_which_no_row_is_kept_begins_with_its_head_again(tmp_path, left):
    path, columns = tmp_path / "x.csv", Columns(["a"], 1, has_labels=False)
    path.write_text(left)
    file = PartFile(path)
    file.keep(0)
    file.add_answers([Answer("0", None, {"a": 0.25})], columns)
    file.close()
    assert path.read_text().splitlines() == ["image,class1,probability1,error", "0,a,0.250000,"]


@pytest.mark.parametrize("several", [False, True])
def test_a_parquet_file_holds_every_group_of_rows(tmp_path, monkeypatch, several):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("vit_lightning.callbacks.prediction_files.ROWS_AT_ONCE", 2)
    file, columns = PartFile(tmp_path / "x.jsonl"), Columns(["a", "\udcff"], None, has_labels=True)
    labels = [["a"], [], ["a", "\udcff"], None, ["a"]] if several else ["a", "\udcff", None, "a", "a"]
    answers = [Answer(f"{n}\udcfe", label, {"a": n / 8, "\udcff": 1.0}) for n, label in enumerate(labels)]
    file.add_answers([*answers, Answer("5", None, {}, "broken")], columns)
    file.finish(tmp_path / "out.parquet", columns, several)
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.column_names == ["image", "label", "probability:a", "probability:\\xff", "error"]
    rows = found.to_pylist()
    assert [row["image"] for row in rows] == [*(f"{n}\\xfe" for n in range(5)), "5"]
    assert [row["probability:a"] for row in rows] == [0.0, 0.125, 0.25, 0.375, 0.5, None]
    assert rows[2]["label"] == (["a", "\\xff"] if several else None) and rows[5]["error"] == "broken"
    assert rows[0]["error"] is None and [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_the_best_of_all_classes_is_found_in_every_form():
    assert _best({"class1": "a", "probability1": "0.125"}) == "a 12.5 %"
    assert _best({"image": "x", "probability:a": "0.25", "probability:b:c": "0.5", "error": ""}) == "b:c 50.0 %"
    assert _best({"probabilities": {"a": 0.75, "b": 0.25}}) == "a 75.0 %"


def test_a_cut_line_of_json_is_dropped_and_no_other(tmp_path):
    path = tmp_path / "x.jsonl"
    lines = [json.dumps({"image": f"{number}\n.png"}) + "\n" for number in range(3)]
    path.write_text("".join(lines) + '{"image": "3')
    file = PartFile(path)
    assert (file.rows, file.images) == (3, 3)
    file.keep(3)
    file.close()
    assert path.read_text() == "".join(lines)


def test_a_disk_that_is_full_is_said(tmp_path, monkeypatch):
    def full(text: bytes) -> None:
        raise OSError(28, "No space left on device")

    for ending in ("csv", "jsonl"):
        file = PartFile(tmp_path / f"x.{ending}")
        real, file._file = file._file, SimpleNamespace(write=full, tell=lambda: 0)
        with pytest.raises(InputError, match=rf"x\.{ending} cannot be written: no space left"):
            file.add_answers([Answer("a", None, {"x": 0.5})], Columns(["x"], 1, has_labels=False))
        real.close()


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet", "x.txt", "x"])
def test_the_name_says_the_form_and_needs_its_library(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    if name in ("x.csv", "x.jsonl"):
        return check_ending(Path(name))
    said = r"--out x\.parquet needs pyarrow" if name == "x.parquet" else f"--out {name} ends in none of"
    with pytest.raises(InputError, match=said):
        check_ending(Path(name))


def test_what_was_finished_may_be_closed_again(tmp_path):
    file, columns = PartFile(tmp_path / "x.csv"), Columns(["a"], 1, has_labels=False)
    file.add_answers([Answer("0", None, {"a": 0.5})], columns)
    file.finish(tmp_path / "out.csv", columns)
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
