"""Columns that state each row's split, by their names and values."""

import re

import pytest
import yaml

from datamodules.reading.splits import CELLS
from datamodules.reading.stated_split import decide, naming, read, split_words, stated_split
from vit_lightning.errors import InputError

NOTES = [None] * 5 + ["train", "test"]


def found(name: str, cells: list, split: str = "train", use: str = "taken", **words):
    return decide("t.csv", read([(cell,) for cell in cells], [name], CELLS | words), split, use)


@pytest.mark.parametrize("name", ["split", "Usage", "data set", "subset", "fold", "phase", "dataSplit"])
@pytest.mark.parametrize("cell", ["PublicTest", "query", "", None, 3])
def test_a_value_that_names_no_split_is_named_with_its_row(name, cell):
    text = "" if cell is None else str(cell)
    said = rf"t\.csv has in row 3 '{text}' in the column '{name}', which names the splits .*--data\.split_column false"
    for cells in (["train"] * 2 + [cell, cell] + ["train"], ["train", "test", cell, "test"]):
        if text or "test" not in cells:  # whoever reads the column names what is blank
            with pytest.raises(InputError, match=said):
                found(name, cells)
            assert found(name, cells, **{text.lower(): "val"})


def test_words_of_the_field_and_given_ones_are_splits():
    assert found("split", ["trainval", "test"]).column == "split"
    assert found("split", ["train", "val", "restval", "restval"]).notices == [
        "t.csv has in the column 'split' restval in 2 rows, which train as well"
    ]
    assert found("usage", ["Training", "PublicTest"], publictest="val").column == "usage"
    assert split_words({"PublicTest": "val"})["publictest"] == "val" == split_words(None)["dev"]
    with pytest.raises(InputError, match=r"--data\.split_names a: 'b' is no split, expected one of train, val, test"):
        split_words({"a": "b"})


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("vehicle", ["train", "train", "bus"]),
        ("vehicle", ["train", None, "train", None]),
        ("state", ["valid", "valid", "test", "broken"]),
        ("split", ["a", "b", "c"]),
        ("fold", [0, 1, 2, 3]),
        ("split", ["train", "train"]),
        ("set", [None, None]),
    ],
)
def test_other_columns_are_left_alone(name, cells):
    assert found(name, cells) == (None, [])


def test_a_column_that_may_state_splits_is_said():
    column, notices = found("set", ["Lego", "train", "bus", "bus"])
    assert column is None and "has in row 1 'Lego' in the column 'set', which names the splits train" in notices[0]
    with pytest.raises(InputError, match="in row 1 '1' in the column 'fold', which names the splits test elsewhere"):
        found("fold", ["1", "2", "3", "4", "test"])


@pytest.mark.parametrize(
    ("cells", "split", "is_one"),
    [
        (["test", "train"], "train", True),
        ([" Valid ", "TRAIN"], "train", True),
        (["val", "test"], "test", True),
        (["train", "test"], "val", True),
        (["train", "", None, "test"], "train", True),
        ([], "train", False),
    ],
)
def test_a_column_names_a_split_and_another_one(cells, split, is_one):
    assert found("part", cells, split).column == ("part" if is_one else None)


def test_a_column_that_is_none_hides_no_other():
    rows = [("ant", "train"), ("train", "test")]
    assert decide("t.csv", read(rows, ["label", "part"]), "train", "taken").column == "part"


@pytest.mark.parametrize(
    ("known", "use", "column"), [((), "taken", "part"), (("part",), "taken", None), ((None,), "left", None)]
)
def test_columns_that_hold_something_else_are_not_read(tmp_path, known, use, column):
    table = tmp_path / "train.csv"
    table.write_text("path,label,part\n0.png,a,train\n1.png,b,test\n")
    assert stated_split(table, ["path", "label", *known], "train", use).column == column


def test_several_columns_and_one_beside_other_tables_are_refused(tmp_path):
    table = tmp_path / "train.csv"
    table.write_text("path,part,fold\n0.png,train,train\n1.png,test,val\n")
    said = r"the columns 'part' and 'fold', which both name splits; give --data\.split_column part"
    with pytest.raises(InputError, match=said):
        stated_split(table, ["path"], "train", "taken")
    with pytest.raises(InputError, match="the column 'fold', which names the splits train and val, beside tables"):
        stated_split(table, ["path", "part"], "train", "refused")


@pytest.mark.parametrize("name", ["split", "Data Set", "phase"])
@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train_set", "test_set"),
        ("Train set", "Test set"),
        ("TrainSet", "TestSet"),
        ("training set", "validation set"),
        ("training-data", "test-data"),
        ("train1", "test1"),
        ("x_train", "x_test"),
        ("train (80%)", "test (20%)"),
        ("ucf_train", "ucf_val"),
        ("x_trn", "x_tst"),
    ],
)
def test_splits_among_other_words_are_never_passed_over(name, train, test):
    said = rf"row 1 '{re.escape(train)}' in the column '{name}', which may name the splits .*--data\.split_names '\{{"
    with pytest.raises(InputError, match=said) as error:
        found(name, [train, train, test])
    given = yaml.safe_load(str(error.value).split("--data.split_names '")[1].split("' says")[0])
    assert given.keys() == {train, test} and given[train] == "train" != given[test]
    words = split_words(given)
    assert decide("t.csv", read([(train,), (test,)], [name], words), "train", "taken").column == name
    assert found(name, [train, train]) == (None, [])
    with pytest.raises(InputError, match=rf"row 2 '{re.escape(train)}'.*{re.escape(train)}: train\}}' says its split"):
        found(name, ["test", train])


def test_short_forms_are_splits_in_a_column_called_so():
    assert found("split", ["trn", "tst", "va"]).column == "split"


@pytest.mark.parametrize(("name", "cells"), [("language", ["tr", "te"]), ("code", ["TR", "VA"]), ("note", NOTES)])
def test_columns_called_otherwise_are_left_with_a_notice_where_words_may_mean_something_else(name, cells):
    column, notices = found(name, cells)
    assert column is None and len(notices) == 1 and f"give --data.split_column {name}" in notices[0]
    assert found("split", cells).column == "split"
    assert found(name, ["train", "te"]).column == name
    assert found(name, ["train", "test", "train", None]).column == name  # whoever reads it names the blank


@pytest.mark.parametrize("name", ["split", "Usage", "set", "phase"])
@pytest.mark.parametrize("cells", [["test"], ["val", "test"], ["test_set"], ["val_a", "test_a"]])
def test_training_images_of_which_none_trains_are_an_error(name, cells):
    with pytest.raises(InputError, match=rf"t\.csv is to train, and its column '{name}' names no split but (test|val)"):
        found(name, cells)
    assert found(name, cells[:1], "val", "refused") == (None, [])


def test_words_that_are_given_another_split_do_not_train_as_well():
    assert found("split", ["train", "restval"], restval="val") == ("split", [])


def test_a_test_table_with_two_splits_is_told_to_keep_its_own_rows():
    with pytest.raises(InputError, match="beside tables of other splits; leave the test rows alone in it, or put all"):
        found("split", ["val", "test"], "test", "refused")


@pytest.mark.parametrize(
    ("texts", "named", "pairs"),
    [
        (["0"], ["val"], "{0: train}"),
        (["False"], ["test"], "{False: train}"),
        (["vld"], ["train", "test"], "{vld: val}"),
        (["1"], ["train", "test"], "{1: val}"),
        (["query"], ["train"], "{query: test}"),
        (["gallery"], ["test"], "{gallery: train}"),
        (["train_a"], ["train"], "{train_a: train}"),
        (["x"], ["train", "val", "test"], "{x: test}"),
    ],
)
def test_the_split_that_a_word_likely_stands_for(texts, named, pairs):
    assert naming(texts, named) == f"--data.split_names '{pairs}'"


def test_no_split_is_proposed_for_a_blank():
    said = "--data.split_names '{x: test, \"\": SPLIT}' with train, val or test in place of SPLIT"
    assert naming(["x", ""], ["train"]) == said
    with pytest.raises(InputError, match="'SPLIT' is no split, expected one of train, val, test"):
        split_words({"": "SPLIT"})


def test_an_error_proposes_a_split_that_is_not_named():
    with pytest.raises(InputError, match=r"--data\.split_names '\{1: val\}' says its split"):
        found("split", ["train", "test", "1", "train"])
