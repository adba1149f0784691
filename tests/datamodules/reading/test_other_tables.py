"""Tables beside that of the training images."""

from pathlib import Path

import pytest

from datamodules.reading.other_tables import other_tables
from tests.datamodules.reading.test_unread_splits import root  # noqa: F401  # a fixture
from tests.datamodules.test_manifest_split import ready, write


def test_tables_that_are_not_asked_for_are_named(tmp_path):
    tables = {"train": Path("train.csv"), "val": None, "test": None}
    for name in ("train.csv", "dev.csv", "notes.jsonl"):
        (tmp_path / name).touch()
    dev = tmp_path / "dev.csv"
    assert other_tables(tmp_path, tables) == [f"{dev} is not read; give --data.val {dev} if it holds val images"]
    assert other_tables(tmp_path, tables | {"val": Path("dev.csv")}) == []
    dev.unlink()
    for name in ("train/metadata.csv", "eval/metadata.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    found = other_tables(tmp_path, tables | {"train": Path("train/metadata.csv")})
    assert len(found) == 1 and found[0].startswith(f"{tmp_path / 'eval/metadata.csv'} is not read; give --data.test")


@pytest.mark.parametrize(
    "name", ["test_list.txt", "test_list_NIH.txt", "testing.txt", "splits/test1.txt", "test.jsonl"]
)
def test_lists_beside_a_table_are_named(tmp_path, name):
    tables = {"train": Path("Data_Entry_2017.csv"), "val": None, "test": None}
    for file in ("Data_Entry_2017.csv", "train_val_list.txt", "classes.txt", name):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    (said,) = other_tables(tmp_path, tables)
    assert said.startswith(
        f"{tmp_path / name} may list the test images and is not read: those that Data_Entry_2017.csv"
    )
    assert other_tables(tmp_path, tables, is_stated=True) == []
    assert other_tables(tmp_path, tables | {"test": Path(name)}) == []
    (tmp_path / name).unlink()
    assert other_tables(tmp_path, tables) == []


def test_lists_beside_the_table_of_a_run(root):  # noqa: F811
    rows = [f"{number}.png,{'ab'[number % 2]}" for number in range(12)]
    write(root / "entries.csv", "path,label", rows)
    (root / "test_list.txt").write_text("0.png\n")
    (said,) = ready(root, train="entries.csv").notices
    assert "test_list.txt may list the test images" in said and "--data.split_file, or a column of splits" in said
    write(root / "entries.csv", "path,label,split", [f"{row},{'test' if row < '1' else 'train'}" for row in rows])
    assert not ready(root, train="entries.csv").notices
