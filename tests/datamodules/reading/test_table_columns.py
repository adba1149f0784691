"""Which columns hold paths and labels, and what their cells say."""

import json

import pytest

from datamodules.reading.table_columns import Columns, _is_set, choose, read
from vit_lightning.errors import InputError


@pytest.fixture
def table(tmp_path):
    def write(*names: str, file: str = "t.csv"):
        (tmp_path / file).write_text(",".join(names) + "\n")
        return tmp_path / file

    return write


@pytest.mark.parametrize(
    ("names", "path", "label", "expected"),
    [
        (("label", "path", "image"), None, None, (["path"], ["label"], False)),
        (("x", "img", "fine_label"), None, None, (["img"], ["fine_label"], False)),
        (("filename", "labels"), None, None, (["filename"], ["labels"], False)),
        (("a", "b", "c"), "b", "c", (["b"], ["c"], False)),
        (("a", "b", "c", "d"), ["b", "a"], ["d", "c"], (["b", "a"], ["d", "c"], True)),
        (("path", "x"), None, ["x"], (["path"], ["x"], False)),
    ],
)
def test_columns_are_those_that_are_given_or_that_alone_can_be_meant(table, names, path, label, expected):
    assert choose(table(*names), path, label) == Columns(*expected)


def test_roboflows_table_has_a_column_for_each_class(table):
    assert choose(table("filename", "zebra", "ant", file="_classes.csv"), None, None) == Columns(
        ["filename"], ["zebra", "ant"], True
    )


@pytest.mark.parametrize(
    ("names", "path", "label", "said"),
    [
        (("image", "img", "label"), None, None, "has the columns image and img; give --data.path_column image"),
        (("path", "labels", "fine_label"), None, None, "labels and fine_label; give --data.label_column labels"),
        (("path",), None, None, "has no column 'label' but path; give --data.label_column"),
        (("label",), None, None, "has no column 'path' but label; give --data.path_column"),
        (("path", "label"), ["path", "x"], None, "has no column 'x' but path, label; give --data.path_column"),
    ],
)
def test_columns_that_cannot_be_told_are_named(table, names, path, label, said):
    with pytest.raises(InputError, match=said):
        choose(table(*names), path, label)


def test_labels_may_be_absent_where_that_is_allowed(table):
    assert choose(table("path"), None, None, may_lack_labels=True) == Columns(["path"], [], False)
    assert choose(table("path", "label"), None, None, may_lack_labels=True).labels == ["label"]
    with pytest.raises(InputError, match="has no column 'b' but path, a"):
        choose(table("path", "a"), None, ["a", "b"], may_lack_labels=True)


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        *((cell, True) for cell in ("1", "1.0", "True", "true", 1, 1.0, True, " 1 ")),
        *((cell, False) for cell in ("0", "0.0", "False", "false", 0, 0.0, False, " 0")),
    ],
)
def test_a_class_of_its_own_column_is_there_or_not(cell, found):
    assert _is_set(cell, "x") is found


@pytest.mark.parametrize("cell", ["", "2", "yes", "-1", 0.5])
def test_what_is_neither_is_told(cell):
    with pytest.raises(ValueError, match="in the column of class x, expected 0 or 1,"):
        _is_set(cell, "x")


def rows(tmp_path, content: list[dict], columns: Columns, several: bool = False) -> list:
    (tmp_path / "t.json").write_text(json.dumps(content))
    return [(row.path, row.labels) for row in read(tmp_path / "t.json", columns, several, ";")]


def test_paths_of_several_columns_are_joined_and_classes_stay_in_the_order_of_their_columns(tmp_path):
    content = [
        {"folder": "/data/", "file": "/x.jpg", "zebra": 0, "ant": 1, "cat": 0},
        {"folder": "", "file": "y.jpg", "zebra": "1", "ant": "0", "cat": 0},
        {"folder": "a", "file": "b/z.jpg", "zebra": False, "ant": 0.0, "cat": True},
    ]
    columns = Columns(["folder", "file"], ["zebra", "ant", "cat"], True)
    assert rows(tmp_path, content, columns) == [
        ("/data//x.jpg", ["ant"]),
        ("y.jpg", ["zebra"]),
        ("a/b/z.jpg", ["cat"]),
    ]
    content[1]["ant"] = 1
    assert rows(tmp_path, content, columns, several=True)[1] == ("y.jpg", ["zebra", "ant"])
    with pytest.raises(InputError, match=r"has 2 labels in row 2 \(y.jpg\), expected one; give --data.multi_label"):
        rows(tmp_path, content, columns)


def test_the_first_wrong_row_is_named(tmp_path):
    columns = Columns(["path"], ["label"], False)
    for content, said in (
        ([{"path": "a", "label": 1}, {"path": "", "label": 1}], "has no path in row 2"),
        ([{"path": "a", "label": 1}, {"path": "b", "label": None}], r"has 0 labels in row 2 \(b\), expected one"),
        ([{"path": "a", "label": 1}, {"path": "b", "label": ["x"]}], r"has the list \['x'\] as a label; .* in row 2"),
    ):
        with pytest.raises(InputError, match=said):
            rows(tmp_path, content, columns)
    assert rows(tmp_path, [{"path": "b"}], Columns(["path"], [], False)) == [("b", [])]


@pytest.mark.parametrize(
    ("split", "group", "found"),
    [
        ("s", "g", [("train", "p1"), ("test", "p2")]),
        ("s", None, [("train", ""), ("test", "")]),
        (None, "g", [("", "p1"), ("", "p2")]),
    ],
)
def test_split_and_group_are_those_of_their_columns(tmp_path, split, group, found):
    content = [
        {"path": "a", "label": "x", "s": "train", "g": "p1"},
        {"path": "b", "label": "y", "s": "test", "g": "p2"},
    ]
    (tmp_path / "t.json").write_text(json.dumps(content))
    rows = list(read(tmp_path / "t.json", Columns(["path"], ["label"], False, split, group), False, ";"))
    assert [(row.split, row.group) for row in rows] == found
    assert [(row.path, row.labels) for row in rows] == [("a", ["x"]), ("b", ["y"])]


@pytest.mark.parametrize("split", ["test", "Test", "TESTING", "train", "Val"])
def test_labels_may_be_hidden_in_the_split_test_however_it_is_written(tmp_path, split):
    (tmp_path / "t.json").write_text(json.dumps([{"path": "a", "label": None, "s": split}]))
    columns = Columns(["path"], ["label"], False, "s")
    if split.lower().startswith("test"):
        assert [(row.labels, row.is_hidden) for row in read(tmp_path / "t.json", columns, False, ";")] == [([], True)]
    else:
        with pytest.raises(InputError, match=r"0 labels in row 1 \(a\), expected one"):
            list(read(tmp_path / "t.json", columns, False, ";"))


@pytest.mark.parametrize("row", [{"path": "b", "cat": 1}, {"path": "b", "cat": 1, "dog": None}])
def test_a_column_of_a_class_that_says_nothing_is_no_0(tmp_path, row):
    columns = Columns(["path"], ["cat", "dog"], True)
    with pytest.raises(InputError, match=r"nothing in the column of class dog, expected 0 or 1, in row 2 \(b\)"):
        rows(tmp_path, [{"path": "a", "cat": 0, "dog": 1}, row], columns)
    nothing = {"path": "c", "cat": None, "dog": None}
    (tmp_path / "t.json").write_text(json.dumps([nothing]))
    assert [row.labels for row in read(tmp_path / "t.json", columns, False, ";", may_lack_labels=True)] == [[]]
    with pytest.raises(InputError, match="nothing in the column of class cat"):
        rows(tmp_path, [nothing], columns)


def test_a_row_with_fewer_cells_than_columns_is_no_row_of_zeros(tmp_path):
    (tmp_path / "t.csv").write_text("path,cat,dog,emu\na,0,1,0\nb,1\n")
    with pytest.raises(InputError, match=r"nothing in the column of class dog, expected 0 or 1, in row 2 \(b\)"):
        list(read(tmp_path / "t.csv", Columns(["path"], ["cat", "dog", "emu"], True), False, ";"))


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (
            0,
            r"the column c has 1 there, so give --data.label_column '\[a,b,c\]' if it is a class, or give --data.multi",
        ),
        (2, "expected one; give --data.multi_label true"),
    ],
)
def test_a_column_of_a_class_that_is_forgotten_is_named(tmp_path, cell, said):
    table = tmp_path / "t.csv"
    table.write_text(f"path,a,b,c,age\nx.png,1,0,0,7\ny.png,0,1,{cell},8\nz.png,0,0,1,9\n")
    with pytest.raises(InputError, match=said):
        list(read(table, Columns(["path"], ["a", "b"], True), False, " "))


def test_a_table_of_another_site_needs_no_column_of_groups(table):
    said = "has no column 'patient' but path, label; give --data.group_column, or score another table with --data.test"
    with pytest.raises(InputError, match=said):
        choose(table("path", "label"), None, None, group="patient")
