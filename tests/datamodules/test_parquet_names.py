"""Labels of Parquet files are matched by name across files and splits, whatever their order and type."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.datamodules.test_parquet import (
    picture,
    ready,
    write,
)
from vit_lightning.errors import InputError


def named(classes: list[str], labels: list[int]) -> list[str]:
    return [classes[label] for label in labels]


def test_files_with_other_orders_of_the_same_classes_are_matched_by_name(tmp_path):
    orders = {
        "train-0": ["red", "green", "blue"],
        "train-1": ["blue", "red", "green"],
        "val": ["green", "blue", "red"],
        "test": ["blue", "red", "green"],
    }
    for number, (file, names) in enumerate(orders.items()):
        labels = [names.index(name) for name in ("red", "blue", "green", "blue")]
        write(tmp_path / f"{file}.parquet", labels, names, first=4 * number)
    data = ready(tmp_path)
    assert data.class_names == ["red", "green", "blue"]
    shown = ["red", "blue", "green", "blue"]
    assert named(data.class_names, data.train_set.labels) == shown * 2
    assert named(data.class_names, data.val_set.labels) == shown
    assert named(data.class_names, data.test_set.labels) == shown


FORMS = ["numbers with names", "text", "polars' categories"]

CLASSES = ["zebra", "ant", "Owl", "No 2", "ox"]


def write_form(path, names, form, order, first=0):
    images = pa.array([picture(first + number) for number in range(len(names))])
    if form == "numbers with names":
        info = {"info": {"features": {"label": {"names": order, "_type": "ClassLabel"}}}}
        labels = pa.array([order.index(name) for name in names], pa.int64())
        table = pa.table({"image": images, "label": labels})
        parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), path)
        return
    labels = pa.array(names, pa.string())
    column = labels if form == "text" else labels.dictionary_encode()
    parquet.write_table(pa.table({"image": images, "label": column}), path)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_labels_keep_their_names_whatever_the_order_form_and_file(content):
    with TemporaryDirectory() as folder:
        written = {}
        for file in ("train-0", "train-1", "val", "test"):
            usual = CLASSES if file.startswith("train") else [name for name in CLASSES if name in written["known"]]
            order = content.draw(st.permutations(usual))
            names = content.draw(st.lists(st.sampled_from(usual), min_size=1, max_size=6))
            form = content.draw(st.sampled_from(FORMS))
            write_form(Path(folder, f"{file}.parquet"), names, form, order, first=6 * len(written))
            written[file] = names
            listed = order if form == "numbers with names" else names
            if file.startswith("train"):
                written["known"] = set(written.get("known", ())) | set(listed)
        data = ready(Path(folder))
        assert named(data.class_names, data.train_set.labels) == written["train-0"] + written["train-1"]
        assert named(data.class_names, data.val_set.labels) == written["val"]
        assert named(data.class_names, data.test_set.labels) == written["test"]


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=8),
    st.sampled_from(["int8", "uint64", "float32", "double", "string", "whole text"]),
    st.sampled_from(["int8", "uint64", "float32", "double", "string", "whole text"]),
)
@settings(max_examples=60, deadline=None)
def test_numbers_are_the_same_classes_in_every_type(numbers, train_type, test_type):
    def column(kind):
        if kind in ("string", "whole text"):
            return pa.array([f"{number}{'.0' * (kind == 'whole text')}" for number in numbers])
        return pa.array(numbers).cast(kind)

    with TemporaryDirectory() as folder:
        for shade, (split, kind) in enumerate((("train", train_type), ("val", test_type), ("test", test_type))):
            table = pa.table({"image": pa.array([picture(shade)] * len(numbers)), "label": column(kind)})
            parquet.write_table(table, f"{folder}/{split}.parquet")
        data = ready(Path(folder))
        assert data.class_names == [str(number) for number in range(max(numbers) + 1)]
        assert (
            data.train_set.labels.tolist() == data.val_set.labels.tolist() == data.test_set.labels.tolist() == numbers
        )


@pytest.mark.parametrize(
    ("train", "names", "val", "message"),
    [
        ([0, 1], ["cat", "dog"], [0, 1], r"val\.parquet has in row 1 the label '0', .*a number among named classes"),
        (
            ["cat", "dog"],
            None,
            [1],
            r"val\.parquet has in row 1 the label '1', which train lacks \(2 classes: cat, dog\)",
        ),
        ([0, 1], None, ["0", "cat"], r"val\.parquet has in row 2 the label 'cat', which train lacks"),
        ([0, 1], None, [1, 2], r"val\.parquet has in row 2 the label '2', which train lacks"),
        ([0.0, 0.5], None, [0], r"expected whole numbers or text, but has in row 2 the label 0\.5"),
        ([0, -1], None, [0], r"train\.parquet has no label in its column 'label' in 1 row, the first is row 2"),
        ([[0], [1]], None, [0], r"train\.parquet has lists in its column 'label'; give --data\.multi_label true"),
        (['["cat"]', "dog"], None, ["dog"], r"train\.parquet has .* in row 1 the label '\[\"cat\"\]'"),
        ([{"a": 1}], None, [0], r"train\.parquet has struct<a: int64> in its column 'label'"),
        ([b"cat"], None, [0], r"train\.parquet has binary .* in row 1 the label b'cat'"),
    ],
)
def test_labels_that_cannot_be_matched_are_named_with_file_and_row(tmp_path, train, names, val, message):
    write(tmp_path / "train.parquet", train, names)
    write(tmp_path / "val.parquet", val)
    with pytest.raises(InputError, match=message):
        ready(tmp_path)


def test_numbers_in_one_training_file_and_names_in_another(tmp_path):
    write(tmp_path / "train-0.parquet", [0, 1])
    write(tmp_path / "train-1.parquet", ["cat", "dog"])
    with pytest.raises(InputError, match=r"train-0\.parquet has in row 1 the label '0', which train lacks"):
        ready(tmp_path)


def test_numbers_are_classes_of_a_given_list(tmp_path):
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    write(tmp_path / "train.parquet", [0, 1, 0], ["dog", "cat"])
    write(tmp_path / "val.parquet", [0.0, 1.0])
    data = ready(tmp_path, class_map=tmp_path / "classes.txt")
    assert named(data.class_names, data.train_set.labels) == ["dog", "cat", "dog"]
    assert named(data.class_names, data.val_set.labels) == ["cat", "dog"]


def test_doctor_finds_what_cannot_be_matched(app, tmp_path):
    write(tmp_path / "train.parquet", [0, 1, 0, 1], ["cat", "dog"])
    write(tmp_path / "val.parquet", [0.0, 1.0])
    words = ("--data", "Parquet", "--data.root", tmp_path, "--data.image_size", 8, "--data.batch_size", 2)
    words += ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.num_workers", 0)
    done = app("doctor", *words)
    assert done.code == 1 and "val.parquet has in row 1 the label '0', which train lacks" in done.out
