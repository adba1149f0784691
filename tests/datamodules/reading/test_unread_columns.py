"""Columns that may state splits by floats, numbers from 1, letters, words of spreadsheets and tags."""

import pyarrow
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from datamodules.reading.unread_columns import may_state, said_of_columns
from datamodules.reading.unread_splits import said_of_paths
from tests.datamodules.reading.test_unread_splits import root  # noqa: F401  # a fixture
from tests.datamodules.test_labels import picture
from tests.datamodules.test_manifest_split import keys, ready, write

FLAGS = [
    ("is_valid", [0.0, 1.0, None], "'{0: train, 1: val}'"),
    ("is_valid", ["0.0", "1.0"], "'{0: train, 1: val}'"),
    ("split", [0.0, 1.0, 2.0, float("nan")], "'{0: train, 1: val, 2: test}'"),
    ("set", [1, 2, 3], "'{1: train, 2: val, 3: test}'"),
    ("images.set", ["1", "3"], "'{1: train, 3: test}'"),
    ("subset", [1, 2], "'{1: train, 2: test}'"),
    ("set", ["T", "V", "E"], "'{E: test, T: train, V: val}'"),
    ("split", ["t", "v"], "'{t: train, v: val}'"),
    ("holdout", [0, 1], "'{0: train, 1: test}'"),
    ("is_valid", ["WAHR", "FALSCH"], "'{FALSCH: train, WAHR: val}'"),
    ("is_test", ["FAUX", "VRAI"], "'{FAUX: train, VRAI: test}'"),
]


@pytest.mark.parametrize(("name", "cells", "pairs"), FLAGS)
def test_columns_that_may_state_splits(name, cells, pairs):
    assert may_state(name)
    (said,) = said_of_columns("t.csv", [name], [(cell,) for cell in cells])
    assert f"give --data.split_column {name} and --data.split_names {pairs}, or what" in said


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("set", [2, 3]),
        ("set", [1, 2, 3, 4]),
        ("split", [1.5, 2.5]),
        ("set", ["v", "e"]),
        ("set", ["A", "B"]),
        ("is_valid", [0.0, 0.5, 1.0]),
        ("holdout", ["bin", "box"]),
        ("split", [None, 1]),
    ],
)
def test_columns_that_hardly_do(name, cells):
    assert said_of_columns("t.csv", [name], [(cell,) for cell in cells]) == []


@pytest.mark.parametrize("name", ["dataset_id", "datasetId", "set_id", "source_dataset", "dataset_version", "Set Nr"])
def test_numbers_of_the_sets_that_images_come_from(name):
    assert not may_state(name)


@pytest.mark.parametrize("name", ["split_id", "dataset", "set", "subset_id", "phase"])
def test_numbers_that_may_be_those_of_splits(name):
    assert may_state(name)


@pytest.mark.parametrize(
    "cells",
    [["['train']", "['test']"], ["train", "test,hard", "test"], [["train"], ["val", "hard"]], ["train;x", "VAL"]],
)
def test_tags_that_hold_splits(cells):
    (said,) = said_of_columns("t.csv", ["tags"], [(cell,) for cell in cells])
    assert "t.csv has the column 'tags' of " in said and "write each row's split into a column of its own" in said


@pytest.mark.parametrize(
    "cells",
    [["train", "train"], ["hard", "easy"], ["train", "hard"], ["train,test", "test"], ["", "train"], ["val", "test"]],
)
def test_tags_of_another_meaning(cells):
    assert said_of_columns("t.csv", ["tags"], [(cell,) for cell in cells]) == []


@pytest.mark.parametrize(
    "paths",
    [
        ["train_00001.jpg", "test_0001.jpg"],
        ["img/train-1_aligned.jpg", "img/Valid 2.jpg"],
        ["train1.jpg", "train2.jpg", "testing1.jpg"],
    ],
)
def test_names_that_begin_with_splits(paths):
    said = said_of_paths("t.csv", paths)
    assert said and f"t.csv lists {paths[0]} and {paths[-1]}, whose names begin as splits are, and all of its" in said
    assert "if the names are splits, write each row's into a column" in said


@pytest.mark.parametrize(
    ("name", "zero", "one"), [("is_valid", "0.0", "1.0"), ("split", "1.0", "3.0"), ("set", "T", "V")]
)
def test_the_flags_of_a_notice_are_taken(root, name, zero, one):  # noqa: F811
    write(
        root / "train.csv", f"path,label,{name}", [f"{n}.png,{'ab'[n % 2]},{one if n > 8 else zero}" for n in range(12)]
    )
    (said,) = [text for text in ready(root).notices if "may state each image's split" in text]
    for words in (said.split("--data.split_names '{")[1].split("}")[0], f"{zero}: train, {one}: test"):
        data = ready(root, split_column=name, split_names=dict(pair.split(": ") for pair in words.split(", ")))
        assert [f"{n}.png" for n in range(9, 12)] in keys(data)


def test_floats_in_files_of_parquet(tmp_path):
    images = [picture(number) for number in range(12)]
    columns = {"image": images, "label": ["a", "b"] * 6, "is_valid": [0.0] * 9 + [1.0] * 3}
    parquet.write_table(pyarrow.table(columns), tmp_path / "train.parquet")

    def read(**options) -> Parquet:
        data = Parquet(root=tmp_path, image_size=8, **options)
        data.setup("fit")
        return data

    assert "--data.split_names '{0: train, 1: val}'" in "".join(read().notices)
    data = read(split_column="is_valid", split_names={"0": "train", "1": "val"})
    assert (len(data.train_set), len(data.val_set), data.notices) == (9, 3, [])
