"""Tables whose text may say something else than it seems to: quotation marks, encodings, names that stand twice."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from datamodules.parquet import Parquet
from datamodules.webshards import WebShards
from tests.datamodules.test_labels import (
    manifest,
    picture,
    root,  # noqa: F401  # a fixture
    setup,
    shown,
    write_tar,
)
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\n0.png,dog\n1.png,cat, big\n", r"has 3 cells in row 2 \(1\.png\), but 2 columns; put a cell"),
        ("path,label,label\n0.png,cat,dog\n", r"has the column 'label' twice"),
        ("path,path,label\n0.png,1.png,dog\n", r"has the column 'path' twice"),
        ("path|label\n0.png|cat\n", r"which bars divide, expected commas"),
        ('path,label\n0.png,"cat\n1.png,dog\n', r"is there a lone quotation mark\?"),
        ('path,label\n0.png,"cat\n1.png,dog"\n2.png,owl\n', r"in row 1 \(0\.png\)"),
        ('path,label\n0.png,"cat" big\n', r"is there a lone quotation mark\?"),
    ],
)
def test_csv_that_says_something_else(root, text, message):  # noqa: F811
    (root / "train.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        manifest(root)


def test_a_lone_quotation_mark_in_tabs(root):  # noqa: F811
    (root / "train.tsv").write_text('path\tlabel\n0.png\t"cat\n1.png\tdog\n2.png\towl"\n')
    with pytest.raises(InputError, match=r"a line break or another control character.* in row 1 \(0\.png\)"):
        manifest(root, "train.tsv")


@pytest.mark.parametrize("multi_label", [False, True])
def test_columns_of_classes_that_stand_twice(root, multi_label):  # noqa: F811
    (root / "train.csv").write_text("path,cat,dog,cat\n0.png,1,0,0\n1.png,0,1,0\n")
    with pytest.raises(InputError, match=r"has the column 'cat' twice; give each column a name of its own"):
        manifest(root, label_column=["cat", "dog"], multi_label=multi_label)
    (root / "_classes.csv").write_text("filename,cat,dog,cat\n0.png,1,0,0\n1.png,0,1,0\n")
    with pytest.raises(InputError, match=r"has the column 'cat' twice"):
        manifest(root, "_classes.csv", multi_label=multi_label)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", ["Unlabeled", "unlabelled"])
def test_a_column_of_unlabelled_images_is_no_class(root, multi_label, name):  # noqa: F811
    (root / "_classes.csv").write_text(f"filename, cat, dog, {name}\n0.png,1,0,0\n1.png,0,1,0\n")
    (root / "test").mkdir()
    (root / "test/_classes.csv").write_text(f"filename, cat, {name}\n2.png,0,1\n3.png,1,0\n")
    data = manifest(root, "_classes.csv", test=Path("test/_classes.csv"), multi_label=multi_label)
    assert data.class_names == ["cat", "dog"] and len(data.train_set) == 2
    labels = [torch.as_tensor(data.test_set[number][1]).flatten().tolist() for number in range(2)]
    assert set(labels[0]) == {IGNORE} and labels[1] == ([1, 0] if multi_label else [0])
    (root / "_classes.csv").write_text(f"filename,cat,dog,{name}\n0.png,1,0,0\n1.png,0,0,1\n")
    with pytest.raises(InputError, match=rf"has 1 in the column '{name}', which is no class; .* in row 2 \(1\.png\)"):
        manifest(root, "_classes.csv", multi_label=multi_label)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_other_encodings(root, encoding):  # noqa: F811
    (root / "train.csv").write_text("path,label\n0.png,caf\u00e9\n", encoding=encoding)
    with pytest.raises(InputError, match=r"train\.csv is not UTF-8 text, but has the byte 0xE9; save it as UTF-8"):
        manifest(root)


def test_columns_that_stand_twice_in_parquet(root):  # noqa: F811
    for names in (["image", "label", "label"], ["image", "image", "label"]):
        columns = {"image": pa.array([picture()]), "label": pa.array(["cat"])}
        table = pa.Table.from_arrays([columns[name] for name in names], names=names)
        parquet.write_table(table, root / "train.parquet")
        with pytest.raises(InputError, match=r"train\.parquet has the column '\w+' twice"):
            setup(Parquet(root=root, image_size=8))


def test_numbers_as_paths(root):  # noqa: F811
    (root / "train.jsonl").write_text('{"path": 0, "label": "cat"}\n{"path": 5.0, "label": "dog"}\n')
    data = manifest(root, "train.jsonl", image_ending=".png")
    assert [data.train_set[row][0] for row in range(2)] == [root / "0.png", root / "5.png"]
    parquet.write_table(pa.table({"path": [0, 5], "label": ["cat", "dog"]}), root / "train.parquet")
    assert list(manifest(root, "train.parquet", image_ending=".png").train_set.keys) == ["0.png", "5.png"]


def test_keys_that_stand_twice(root):  # noqa: F811
    (root / "train.jsonl").write_text(
        '{"path": "0.png", "label": "a"}\n{"path": "1.png", "label": "a", "label": "b"}\n'
    )
    with pytest.raises(InputError, match=r"train\.jsonl has in row 2 no JSON that can be read \(an object has the key"):
        manifest(root, "train.jsonl")
    (root / "train.json").write_text('[{"path": "1.png", "label": "a", "label": "b"}]')
    with pytest.raises(InputError, match=r"has the key 'label' twice"):
        manifest(root, "train.json")


def test_a_mark_of_the_byte_order_is_no_part_of_a_class(root):  # noqa: F811
    write_tar(root / "train.tar", ["cat", "\ufeffcat", "dog"], "cls")
    data = setup(WebShards(root=str(root), train="train.tar", val_fraction=0.0, cache=root / "cache", image_size=8))
    assert shown(data, 3) == [{"cat"}, {"cat"}, {"dog"}]


@pytest.mark.parametrize("ending", ["csv", "tar"])
def test_a_source_is_read_anew_where_its_time_and_its_size_stay(root, ending):  # noqa: F811
    for labels in (["cat", "dog"], ["dog", "cat"]):
        made, file = root / "made", root / f"train.{ending}"
        if ending == "tar":
            write_tar(made, labels, "cls")
        else:
            made.write_text(f"path,label\n0.png,{labels[0]}\n1.png,{labels[1]}\n")
        os.utime(made, (5, 5))
        made.replace(file)
        options = {"image_size": 8, "val_fraction": 0.0, "cache": root / "cache"}
        data = (
            setup(WebShards(root=str(root), train="train.tar", **options))
            if ending == "tar"
            else manifest(root, **options)
        )
        assert shown(data, 2) == [{label} for label in labels]
