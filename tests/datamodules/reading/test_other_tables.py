"""Tables beside that of the training images."""

from pathlib import Path

from datamodules.reading.other_tables import other_tables


def test_tables_that_are_not_asked_for_are_named(tmp_path):
    tables = {"train": Path("train.csv"), "val": None, "test": None}
    for name in ("train.csv", "dev.csv", "test.jsonl"):
        (tmp_path / name).touch()
    dev = tmp_path / "dev.csv"
    assert other_tables(tmp_path, tables) == [f"{dev} is not read; give --data.val {dev} if it holds val images"]
    assert other_tables(tmp_path, tables | {"val": Path("dev.csv")}) == []
    for name in ("train/metadata.csv", "eval/metadata.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    found = other_tables(tmp_path, tables | {"train": Path("train/metadata.csv")})
    assert len(found) == 1 and found[0].startswith(f"{tmp_path / 'eval/metadata.csv'} is not read; give --data.test")
