"""Columns of Parquet files that state each row's split."""

from pathlib import Path

import pytest

from datamodules.reading.drawn_split import TEST, TRAIN, VAL
from datamodules.reading.parquet_splits import rows_of, splits_of, stated_column
from vit_lightning.errors import InputError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def table(path: Path, **columns: list) -> Path:
    """A file of two rows a group."""
    parquet.write_table(pa.table(columns), path, row_group_size=2)
    return path


@pytest.fixture
def files(tmp_path) -> list[Path]:
    first = table(tmp_path / "0.parquet", split=["train", "val", "train"], name=["a", "b", "c"], n=[1, 2, 3])
    return [first, table(tmp_path / "1.parquet", name=["d", "e"], split=["test", "Training"], n=[4, 5])]


def test_rows_come_in_order_over_groups_and_files(files):
    assert list(rows_of(files, ["n", "name"])) == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]


def test_each_row_has_its_split(files):
    assert splits_of(files, "split", ()).tolist() == [TRAIN, VAL, TRAIN, TEST, TRAIN]
    words = {"train": "train", "val": "test", "test": "test", "training": "train"}
    assert splits_of(files, "split", ("val",), words).tolist() == [TRAIN, TEST, TRAIN, TEST, TRAIN]


def test_a_row_in_no_split_is_counted_in_its_own_file(files, tmp_path):
    strange = table(tmp_path / "2.parquet", split=["train", "train", None, "spare"])
    with pytest.raises(InputError, match=r"2\.parquet has in row 3 of the column 'split' the split ''"):
        splits_of([*files, strange], "split", ())
    lacking = table(tmp_path / "3.parquet", name=["a"], n=[1])
    with pytest.raises(InputError, match=r"3\.parquet has no column 'split' but name, n; give --data\.split_column"):
        splits_of([*files, lacking], "split", ())


def test_splits_of_their_own_files_and_files_without_training_rows_are_refused(files, tmp_path):
    with pytest.raises(InputError, match=r"0\.parquet has the column 'split', which names the splits train and val"):
        splits_of(files, "split", ("test",))
    splits_of(files[:1], "split", ("test",))
    alone = table(tmp_path / "4.parquet", split=["val", "test"])
    with pytest.raises(InputError, match=r"4\.parquet has no training rows by the column 'split'"):
        splits_of([alone], "split", ())


def test_a_column_of_text_that_all_files_have_and_that_holds_nothing_else_divides(files, tmp_path):
    assert stated_column(files, (), "train", "taken").column == "split"
    assert stated_column(files, ("split",), "train", "taken").column is None
    assert stated_column(files, (), "train", "left").column is None
    without = table(tmp_path / "5.parquet", name=["a"], n=[1])
    assert stated_column([*files, without], (), "train", "taken").column is None
    numbers = table(tmp_path / "6.parquet", split=[0, 1], name=["a", "b"])
    assert stated_column([numbers], (), "train", "taken").column is None
