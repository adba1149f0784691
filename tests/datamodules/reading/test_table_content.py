"""What is kept of a table, against the table's rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.reading import table_repeats
from datamodules.reading.label_text import MISSING
from datamodules.reading.table_content import TableForm, content
from vit_lightning.errors import InputError


def form(**settings) -> TableForm:
    plain = {"columns": (None, None), "split": None, "group": None, "prefix": "", "ending": "", "multi_label": False}
    return TableForm(**plain | {"separator": ";", "of": "train", "stated": "left", "missing": MISSING} | settings)


def kept(folder: Path, text: str, name: str = "t.csv", **settings) -> dict:
    (folder / name).write_text(text)
    return content(folder / name, form(**settings))


def labels(found: dict) -> list[list[str]]:
    return [[found["names"][place] for place in row] for row in found["labels"]]


def test_names_stand_in_order_and_rows_by_their_places(tmp_path):
    found = kept(tmp_path, "path,label\nb.png,owl\na.png,cat\nc.png,owl\nd.png,bat\n")
    assert list(found["paths"]) == ["b.png", "a.png", "c.png", "d.png"]
    assert list(found["names"]) == ["bat", "cat", "owl"] and labels(found) == [["owl"], ["cat"], ["owl"], ["bat"]]
    assert found["labels"].values.tolist() == [2, 1, 2, 0] and found["hidden"].tolist() == [False] * 4
    assert found["digests"].tolist() == [table_repeats.digest(path) for path in found["paths"]]
    assert found["has_labels"].all() and not found["one_hot"].any() and not found["numbered"].any()
    assert not len(found["listed"]) and not len(found["splits"]) and not len(found["groups"])


def test_splits_and_groups_of_each_row(tmp_path):
    text = "path,label,fold,who\na,x,val,p\nb,y,Training,q\nc,x,test,r\n"
    found = kept(tmp_path, text, split="fold", group="who")
    assert found["splits"].tolist() == [1, 0, 2] and list(found["groups"]) == ["p", "q", "r"]
    with pytest.raises(InputError, match=r"t\.csv has for b the split 'later', expected one of"):
        kept(tmp_path, text.replace("Training", "later"), split="fold")


@pytest.mark.parametrize(
    ("prefix", "ending", "path", "found"),
    [
        ("", ".png", "a", "a.png"),
        ("", ".png", "a.png", "a.png"),
        ("data/", "", "data/a", "a"),
        ("data/", "", "x/data/a", "x/data/a"),
        ("data\\", ".jpg", "data/a.png", "a.png.jpg"),
    ],
)
def test_paths_lose_a_beginning_and_gain_an_ending(prefix, ending, path, found):
    assert form(prefix=prefix, ending=ending).path(path) == found


def test_several_labels_none_and_hidden_ones(tmp_path):
    text = "path,label\na,cat;owl\nb,[]\nc,\nd,owl\n"
    found = kept(tmp_path, text, multi_label=True, of="test")
    assert labels(found) == [["cat", "owl"], [], [], ["owl"]] and found["hidden"].tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert labels(kept(tmp_path, "path,label\na,cat|owl\n", multi_label=True, separator="|")) == [["cat", "owl"]]


@pytest.mark.parametrize(("rows", "numbered"), [("a,1\nb,0\n", True), ("a,1\nb,x\n", False), ("a,01\nb,0\n", False)])
def test_digits_may_be_numbers_where_all_are(tmp_path, rows, numbered):
    assert kept(tmp_path, "path,label\n" + rows)["numbered"].tolist() == [numbered]


def test_a_column_for_each_class_names_classes_that_no_image_shows(tmp_path):
    found = kept(
        tmp_path, "path,owl,bat,ant\na,1,0,0\nb,1,0,1\n", columns=("path", ["owl", "bat", "ant"]), multi_label=True
    )
    assert list(found["names"]) == ["ant", "bat", "owl"] and labels(found) == [["owl"], ["owl", "ant"]]
    assert found["one_hot"].all()


def test_names_that_parquet_lists(tmp_path):
    table = pa.table({"path": ["a", "b"], "label": pa.array(["y", "x"]).dictionary_encode()})
    info = '{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["x", "y", "z"]}}}}'
    table = pa.table({"path": ["a", "b"], "label": [1, 0]}).replace_schema_metadata({"huggingface": info})
    parquet.write_table(table, tmp_path / "t.parquet")
    found = content(tmp_path / "t.parquet", form())
    assert list(found["listed"]) == ["x", "y", "z"] and labels(found) == [["y"], ["x"]] and not found["numbered"].any()


@pytest.mark.parametrize(
    ("text", "settings", "said"),
    [
        ("path,label\n", {}, "has 0 rows and no label in any"),
        ("path,label\n", {"of": "test"}, "has 0 rows and no label in any"),
        ("path,label\na,[]\nb,[]\n", {"multi_label": True}, "has 2 rows and no label in any"),
        ("path,label\na,x\nb,y\na,y\n", {}, r"lists a in row 1 \(x\) and in row 3 \(y\); keep one of the rows$"),
        (
            "path,label\nb,y\na,x\n./a,x;y\n",
            {"multi_label": True},
            r"row 2 \(x\) and in row 3 \(x;y\); keep one .*, with all labels",
        ),
        ("path,label\na,[]\na,x\n", {"multi_label": True}, r"row 1 \(nothing\) and in row 2 \(x\)"),
        (
            "path,label,fold\na,x,train\nb,x,val\na,x,test\n",
            {"split": "fold"},
            r"row 1 \(x, train\) and in row 3 \(x, test\)",
        ),
    ],
)
def test_tables_that_cannot_be(tmp_path, text, settings, said):
    with pytest.raises(InputError, match=said):
        kept(tmp_path, text, **settings)


def test_test_images_may_have_no_label_at_all(tmp_path):
    found = kept(tmp_path, "path,other\na,x\nb,y\n", of="test")
    assert not found["has_labels"].any() and labels(found) == [[], []] and found["hidden"].tolist() == [True, True]
    assert len(kept(tmp_path, "path,label\na,x\na,x\n")["paths"]) == 2  # twice the same is no fault


def test_the_last_of_many_rows(tmp_path):
    rows = [f"{number}.png,{number % 7}" for number in range(1000)]
    found = kept(tmp_path, "\n".join(["path,label", *rows]))
    assert np.array_equal(found["labels"].values, np.arange(1000) % 7) and found["paths"][999] == "999.png"
