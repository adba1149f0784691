"""Columns of a Manifest's table that state each image's split, given or found."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from tests.datamodules.test_manifest_split import (
    keys,
    ready,
    root,  # noqa: F401  # a fixture
    write,
)
from vit_lightning.errors import InputError

STATED = ["train"] * 4 + ["valid"] * 2 + ["test"] * 2


@pytest.mark.parametrize("column", ["split", "set", "subset", "data set", "partition", "fold", "phase", "Usage"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_column_that_states_the_split_is_found(root, caplog, column, ending):  # noqa: F811
    rows = [{"path": f"{n}.png", "label": "ab"[n % 2], "id": n, column: split} for n, split in enumerate(STATED)]
    if ending == "csv":
        write(root / "all.csv", ",".join(rows[0]), [",".join(map(str, row.values())) for row in rows])
    elif ending == "jsonl":
        (root / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), root / "all.parquet")
    with caplog.at_level("INFO"):
        data = ready(root, train=f"all.{ending}")
    assert keys(data) == [[f"{n}.png" for n in part] for part in (range(4), range(4, 6), range(6, 8))]
    assert f"all.{ending} has the column {column}, which is taken for --data.split_column" in caplog.text
    assert data.class_names == ["a", "b"]


def test_a_column_that_states_the_split_may_be_one_of_two_or_beside_a_table(root):  # noqa: F811
    rows = [f"{n}.png,{'ab'[n % 2]},{split},{split}" for n, split in enumerate(STATED)]
    write(root / "train.csv", "path,label,set,phase", rows)
    said = "has the columns 'set' and 'phase', which both name splits; give --data.split_column set"
    with pytest.raises(InputError, match=said):
        ready(root)
    assert [len(part) for part in keys(ready(root, split_column="phase"))] == [4, 2, 2]
    write(root / "train.csv", "path,label,set", [row.rpartition(",")[0] for row in rows])
    write(root / "test.csv", "path,label", ["9.png,a"])
    said = "train.csv has the column 'set', which names the splits train and val and test, beside tables .*split_column"
    with pytest.raises(InputError, match=said):
        ready(root, test="test.csv")


def test_a_column_that_was_given_is_not_called_found(root, caplog):  # noqa: F811
    write(root / "train.csv", "path,label,fold", [f"{n}.png,{'ab'[n % 2]},{fold}" for n, fold in enumerate(STATED)])
    with caplog.at_level("INFO"):
        assert [len(part) for part in keys(ready(root, split_column="fold"))] == [4, 2, 2]
    assert "which is taken for" not in caplog.text


def test_beside_a_table_of_splits_a_column_that_states_them_is_left_alone(root, tmp_path):  # noqa: F811
    write(root / "train.csv", "path,label,fold", [f"{n}.png,{'ab'[n % 2]},{fold}" for n, fold in enumerate(STATED)])
    named = tmp_path / "split.csv"
    write(named, "file,split", [f"{n}.png,{'val' if n < 2 else 'train'}" for n in range(8)])
    found = keys(ready(root, split_file=named))
    assert found == [[f"{n}.png" for n in range(2, 8)], ["0.png", "1.png"], []]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("cell", ["PublicTest", None])
def test_a_value_of_no_split_in_a_column_of_splits(root, cell, ending):  # noqa: F811
    rows = [
        {"path": f"{n}.png", "label": "ab"[n % 2], "Usage": cell if n == 5 else "test" if n > 5 else "Training"}
        for n in range(8)
    ]
    if ending == "csv":
        write(root / "all.csv", "path,label,Usage", [",".join(str(x or "") for x in row.values()) for row in rows])
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), root / "all.parquet")
    with pytest.raises(InputError, match=r"all\.\w+ has .*'Usage'.*--data\.split_column false") as told:
        ready(root, train=f"all.{ending}")
    assert "row 6" in str(told.value)
    assert len(ready(root, train=f"all.{ending}", split_column=False, val_fraction=0.0).train_set) == 8
    if cell:
        data = ready(root, train=f"all.{ending}", split_names={cell: "val"})
        assert [len(part) for part in keys(data)] == [5, 1, 2]
        with pytest.raises(InputError, match=r"for 5\.png the split 'PublicTest', expected .*, in row 6; --data\."):
            ready(root, train=f"all.{ending}", split_column="Usage")


@pytest.mark.parametrize("given", [None, "set"])
def test_a_column_of_splits_beside_a_table_of_another_split(root, given):  # noqa: F811
    splits = ["train"] * 4 + ["val"] * 2
    rows = [f"{n}.png,{'ab'[n % 2]},{split},{n}" for n, split in enumerate(splits)]
    write(root / "train.csv", "path,label,set,patient", rows)
    write(root / "test.csv", "path,label,set,patient", ["9.png,a,test,9", "8.png,-1,test,8"])
    data = ready(root, test="test.csv", split_column=given)
    assert keys(data) == [[f"{n}.png" for n in range(4)], ["4.png", "5.png"], ["9.png", "8.png"]]
    ready(root, test="test.csv", split_column=given, group_column="patient")
    write(root / "test.csv", "path,label,set,patient", ["9.png,a,test,9", "8.png,b,test,4"])
    said = r"patient has val and test images, such as '4' in row 5 of \S+train\.csv \(val\) and row 2 of \S+test"
    with pytest.raises(InputError, match=said):
        ready(root, test="test.csv", split_column=given, group_column="patient")
    write(root / "test.csv", "path,label,set,patient", ["9.png,a,test,9", "8.png,b,train,8"])
    with pytest.raises(InputError, match=r"test\.csv has the column 'set', which names the splits test and train, b"):
        ready(root, test="test.csv", split_column=given)
    assert len(ready(root, test="test.csv", split_column=False).train_set) == 5


def test_words_for_images_that_train_although_they_may_validate_are_said(root):  # noqa: F811
    splits = ["trainval"] * 4 + ["test"] * 2
    write(root / "train.csv", "path,label,set", [f"{n}.png,{'ab'[n % 2]},{split}" for n, split in enumerate(splits)])
    for options in ({}, {"split_column": "set"}):
        data = ready(root, **options, val_fraction=0.0)
        assert [len(part) for part in keys(data)] == [4, 0, 2]
        assert data.notices == [f"{root / 'train.csv'} has in the column 'set' trainval in 4 rows, which train as well"]


def test_columns_that_state_one_split_or_something_else_are_left_alone(root):  # noqa: F811
    """Vehicles may be trains, and a state of affairs valid."""
    rows = [f"{n}.png,{'ab'[n % 2]},train,{['train', 'bus'][n % 2]},valid,{n % 5}" for n in range(20)]
    write(root / "train.csv", "path,label,split,vehicle,state,fold", rows)
    write(root / "test.csv", "path,label,split", ["30.png,a,test", "31.png,b,test"])
    assert [len(part) for part in keys(ready(root))] == [18, 2, 0]
    assert [len(part) for part in keys(ready(root, test="test.csv"))] == [18, 2, 2]
    write(root / "train.csv", "path,label", [f"{n}.png,{['train', 'test'][n % 2]}" for n in range(20)])
    assert ready(root).class_names == ["test", "train"]


@pytest.mark.parametrize(
    ("cells", "words", "said"),
    [
        (["train", "test"], (), "which both name splits; give --data.split_column set"),
        (["1 2", "3 4"], ("--data.multi_label", "true", "--data.label_column", "set"), "each label may be several"),
    ],
)
def test_doctor_sees_what_the_columns_say(app, root, cells, words, said):  # noqa: F811
    some = [cells[n // 2 % 2] for n in range(40)]
    rows = [f"{n}.png,{'ab'[n % 2]},{each},{each}" for n, each in enumerate(some)]
    write(root / "train.csv", "path,label,set,phase", rows)
    flags = ("--data.root", root, "--data.image_folder", f"[{root},images]", "--data.cache", root.parent / "cache")
    flags += ("--data.image_size", 8, "--data.batch_size", 4, "--data.num_workers", 0, *words)
    done = app("doctor", "--data", "Manifest", *flags, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert said in done.out + done.err
    assert done.code == (not words)


@pytest.mark.parametrize("column", [None, "set"])
def test_nothing_in_a_column_may_be_the_word_of_a_split(root, column):  # noqa: F811
    write(
        root / "train.csv",
        "path,label,set",
        ["0.png,a,train", "1.png,b,train", "2.png,a,", "3.png,b, ", "4.png,a,test"],
    )
    data = ready(root, split_column=column, split_names={"": "val"})
    assert keys(data) == [["0.png", "1.png"], ["2.png", "3.png"], ["4.png"]]
    with pytest.raises(
        InputError, match=r"write its split, or give --data\.split_names '\{\"\": SPLIT\}' with train, val"
    ):
        ready(root, split_column=column)


def test_a_class_that_the_training_rows_of_a_found_column_lack_names_the_column(root):  # noqa: F811
    write(root / "train.csv", "path,label,coarse", ["0.png,a,train", "1.png,b,train", "2.png,lab,test"])
    said = r"'lab' in row 3 \(2\.png\), which .* lack by its column 'coarse'; --data\.split_column false leaves"
    with pytest.raises(InputError, match=said):
        ready(root)


def test_words_that_are_given_another_split_are_not_said_to_train(root):  # noqa: F811
    write(root / "train.csv", "path,label,set", ["0.png,a,train", "1.png,b,train", "2.png,a,restval"])
    for column in (None, "set"):
        assert not ready(root, split_column=column, split_names={"restval": "val"}).notices
    assert "restval in 1 row, which train as well" in ready(root, split_column="set").notices[0]


def test_splits_among_other_words_are_named_where_the_column_is_given(root):  # noqa: F811
    write(root / "train.csv", "path,label,set", ["0.png,a,train_0", "1.png,b,test_0"])
    with pytest.raises(InputError, match=r"--data\.split_names '\{train_0: train, test_0: test\}' says their"):
        ready(root, split_column="set")
