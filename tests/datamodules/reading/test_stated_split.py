"""Which columns state a split, from their cells alone."""

import pytest

from datamodules.reading.stated_split import splitting, stated_split
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("cells", "split", "found"),
    [
        (["train", "test", "train"], "train", ["train", "test"]),
        (["test", "train"], "train", ["test", "train"]),
        ([" Valid ", "TRAIN"], "train", ["val", "train"]),
        (["train", "train"], "train", None),  # one split alone says nothing
        (["val", "test"], "train", None),  # it lacks the table's own
        (["val", "test"], "test", ["val", "test"]),
        (["train", "test"], "val", ["train", "test"]),
        (["train", "", None, "test"], "train", ["train", "test"]),
        (["train", "test", "ant"], "train", None),
        (["train", "test", 3], "train", None),
        ([], "train", None),
    ],
)
def test_a_column_names_a_split_and_another_one_and_nothing_else(cells, split, found):
    rows = [(cell, "ant") for cell in cells]
    assert splitting(rows, ["part", "label"], split) == ({"part": found} if found else {})


def test_a_column_that_is_none_hides_no_other():
    rows = [("ant", "train"), ("train", "test")]
    assert splitting(rows, ["label", "part"], "train") == {"part": ["train", "test"]}


@pytest.mark.parametrize(
    ("known", "use", "found"), [((), "taken", "part"), (("part",), "taken", None), ((None,), "left", None)]
)
def test_columns_that_hold_something_else_are_not_read(tmp_path, known, use, found):
    table = tmp_path / "train.csv"
    table.write_text("path,label,part\n0.png,a,train\n1.png,b,test\n")
    assert stated_split(table, ["path", "label", *known], "train", use) == found


def test_several_columns_and_one_beside_other_tables_are_refused(tmp_path):
    table = tmp_path / "train.csv"
    table.write_text("path,part,fold\n0.png,train,train\n1.png,test,val\n")
    said = r"the columns 'part' and 'fold', which both name splits; give --data\.split_column part"
    with pytest.raises(InputError, match=said):
        stated_split(table, ["path"], "train", "taken")
    with pytest.raises(InputError, match="the column 'fold', which names the splits train and val, beside tables"):
        stated_split(table, ["path", "part"], "train", "refused")
