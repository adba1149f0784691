"""Splits that data may state where they are not read, which a run and doctor say."""

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from datamodules.folder import ImageFolder
from datamodules.reading import parquet_splits
from datamodules.reading.unread_columns import may_state, said_of_columns
from datamodules.reading.unread_splits import said_of_lists, said_of_paths
from tests.datamodules.test_folder import put
from tests.datamodules.test_manifest_split import ready, write


@pytest.fixture
def root(tmp_path) -> Path:
    for number in range(12):
        put(tmp_path / "set" / f"{number}.png", number)
    return tmp_path / "set"


FLAGS = [
    ("is_valid", [False, True], "'{False: train, True: val}'"),
    ("split", [0, 1, 2], "'{0: train, 1: val, 2: test}'"),
    ("partition", [0, 1], "'{0: train, 1: test}'"),
    ("is_training_image", [0, 1], "'{0: test, 1: train}'"),
    ("is_test", ["no", "yes"], '\'{"no": train, "yes": test}\''),
    ("is_train", [True, False], "'{False: test, True: train}'"),
    ("train", [1, 0], "'{0: test, 1: train}'"),
    ("test", [1, 0], "'{0: train, 1: test}'"),
]


@pytest.mark.parametrize(("name", "cells", "pairs"), FLAGS)
def test_a_column_of_flags_is_said(name, cells, pairs):
    assert may_state(name)
    (said,) = said_of_columns("t.csv", [name], [(cell,) for cell in cells])
    assert f"t.csv has the column {name!r} of " in said and "may state each image's split and is left alone" in said
    assert f"give --data.split_column {name} and --data.split_names {pairs}, or what" in said


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("is_valid", [True, True]),
        ("test", ["positive", "negative"]),
        ("test", [0, 1, 2]),
        ("train", [8, 15, 4, 23]),
        ("split", [1, 2, 3, 4, 5]),
        ("split", [0, 0]),
        ("set", ["lego", "duplo"]),
        ("set", [None, None]),
    ],
)
def test_other_columns_are_not_said(name, cells):
    assert said_of_columns("t.csv", [name], [(cell,) for cell in cells]) == []


@pytest.mark.parametrize("name", ["fold", "label", "is_cat", "age", "trained_by", "test_result", "path"])
def test_other_names_are_not_said(name):
    assert not may_state(name)


@pytest.mark.parametrize(
    "paths",
    [
        ["train/a.png", "test/b.png"],
        ["images/train/a.png", "images/val/b.png"],
        ["set\\train2017\\a.png", "set\\val2017\\b.png"],
        ["train_images/0.png", "test_images/1.png"],
    ],
)
def test_paths_in_folders_of_splits_are_said(paths):
    said = said_of_paths("t.csv", paths)
    assert said and f"t.csv lists {paths[0]} and {paths[1]}, in folders called as splits are" in said


@pytest.mark.parametrize(
    "paths",
    [
        ["train/a.png", "train/b.png"],
        ["train/a.png", "bus/b.png"],
        ["train.png", "test.png"],
        ["train_1.png", "test_1.png", "car_1.png"],
        ["train_1.png", "train_2.png"],
        ["val_1.png", "test_1.png"],
        ["tested1.png", "trains1.png"],
        ["tr/0.png", "te/1.png"],
        ["test_tube/0.png", "train_station/1.png"],
        ["test/train/0.png", "test/train/1.png"],
        ["0.png"],
    ],
)
def test_other_paths_are_not_said(paths):
    assert said_of_paths("t.csv", paths) is None


def test_lists_beside_folders(tmp_path):
    assert said_of_lists(tmp_path, ["val", "test"]) is None
    for name in ("train.csv", "validation.csv", "test.csv", "classes.txt"):
        (tmp_path / name).touch()
    said = said_of_lists(tmp_path, ["val", "test"])
    assert said and said.startswith(f"{tmp_path / 'validation.csv'} and {tmp_path / 'test.csv'} may list a split's")
    assert (
        f"give --data Manifest --data.train {tmp_path / 'train.csv'} --data.val {tmp_path / 'validation.csv'}" in said
    )
    assert said_of_lists(tmp_path, []) is None
    (tmp_path / "test.csv").rename(tmp_path / "test.txt")
    said = said_of_lists(tmp_path, ["test"])
    assert said and "test.txt may list a split's images and is not read" in said and "Manifest" not in said


@pytest.mark.parametrize(("name", "cells", "pairs"), FLAGS)
def test_the_flags_of_a_notice_are_taken(root, name, cells, pairs):
    rows = [f"{number}.png,{'ab'[number // 3 % 2]},{cells[number % len(cells)]}" for number in range(12)]
    write(root / "train.csv", f"path,label,{name}", rows)
    (said,) = [text for text in ready(root).notices if "may state each image's split" in text]
    assert f"--data.split_names {pairs}" in said
    given = dict(pair.replace('"', "").split(": ") for pair in pairs.strip("'{}").split(", "))
    data = ready(root, split_column=name, split_names=given)
    assert len(data.train_set) < 12 and not data.notices
    assert not any("may state" in text for text in ready(root, split_column=False).notices)


def test_flags_in_parquet_tables_and_files(root, app):
    columns = {"path": [f"{n}.png" for n in range(12)], "label": list("ab") * 6, "is_valid": [False, False, True] * 4}
    parquet.write_table(pyarrow.table(columns), root / "train.parquet")
    assert "'is_valid' of False and True" in "".join(ready(root, train="train.parquet").notices)
    words = ("--data", "Manifest", "--data.root", root, "--data.train", "train.parquet", "--data.image_size", 8)
    words = (*words, "--data.batch_size", 2, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    done = app("doctor", *words)
    assert "may state each image's split" in done.out and "warning" in done.out
    done = app("doctor", *words, "--data.split_column", "is_valid", "--data.split_names", "{False: train, True: val}")
    assert "may state each image's split" not in done.out + done.err and "no split" not in done.out + done.err


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl"])
def test_a_table_of_paths_in_two_splits(root, name):
    rows = [("train" if number < 8 else "test", f"{number}.png", "ab"[number % 2]) for number in range(12)]
    for split, file, _ in rows:
        put(root / split / file, int(file.removesuffix(".png")))
    if name.endswith("csv"):
        write(root / name, "file_name,label", [f"{split}/{file},{label}" for split, file, label in rows])
    else:
        lines = [json.dumps({"file_name": f"{split}/{file}", "label": label}) for split, file, label in rows]
        (root / name).write_text("\n".join(lines))
    assert "lists train/0.png and test/8.png, in folders called as splits are" in "".join(
        ready(root, train=name).notices
    )
    assert not ready(root, train=name, split_column=False).notices


def test_lists_beside_the_folders_of_a_run(tmp_path):
    for number in range(12):
        put(tmp_path / "set" / "ab"[number % 2] / f"{number}.png", number)
    for name in ("train.txt", "test.txt"):
        (tmp_path / "set" / name).touch()

    def read(**options) -> list[str]:
        data = ImageFolder(root=tmp_path / "set", image_size=8, **options)
        data.setup("fit")
        return [said for said in data.notices if "may list a split's images" in said]

    assert len(read()) == 1
    (tmp_path / "split.csv").write_text(
        "file,split\n" + "".join(f"{'ab'[n % 2]}/{n}.png,{'train' if n < 8 else 'test'}\n" for n in range(12))
    )
    assert read(split_file=tmp_path / "split.csv") == []


def test_flags_in_files_of_parquet(tmp_path):
    table = pyarrow.table({"label": [0, 1], "is_valid": [False, True], "split": [3, 9]})
    parquet.write_table(table, tmp_path / "train.parquet")
    column, notices = parquet_splits.stated_column([tmp_path / "train.parquet"], ("label",), "train", "taken")
    assert column is None and len(notices) == 1 and "the column 'is_valid' of False and True" in notices[0]
    assert parquet_splits.stated_column([tmp_path / "train.parquet"], ("label",), "train", "left").notices == []
