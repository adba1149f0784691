"""Folders that save_to_disk of Hugging Face's datasets writes: which split each is, and its rows group by group."""

import json
import os
from pathlib import Path

import pytest

from datamodules.reading import arrow_folders
from datamodules.reading.arrow_folders import open_folder, split_folders
from vit_lightning.errors import InputError


def saved(root: Path, *names: str, listed: bool = True) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "state.json").write_text("{}")
    if listed:
        (root / "dataset_dict.json").write_text(json.dumps({"splits": names}))
    return root


@pytest.mark.parametrize("listed", [True, False])
def test_each_split_has_its_folder(tmp_path, listed):
    root = saved(tmp_path, "Validation", "extra", "test", "train", listed=listed)
    found, others = split_folders(root)
    assert found == {"train": [root / "train"], "val": [root / "Validation"], "test": [root / "test"]}
    assert others == ["extra"]


def test_one_set_is_for_training(tmp_path):
    (tmp_path / "state.json").write_text("{}")
    assert split_folders(tmp_path) == ({"train": [tmp_path]}, [])
    assert split_folders(tmp_path / "nowhere") == ({}, [])


def test_two_folders_of_one_split_and_one_that_is_missing(tmp_path):
    root = saved(tmp_path / "two", "val", "validation")
    with pytest.raises(InputError, match=r"two/val and .*two/validation are both named as val data are; keep one"):
        split_folders(root)
    root = saved(tmp_path / "gone", "train", "test")
    (root / "test/state.json").unlink()
    with pytest.raises(
        InputError, match=r"test/state\.json is missing, which .*dataset_dict\.json needs; write the set"
    ):
        split_folders(root)
    (root / "dataset_dict.json").write_text("{}")
    with pytest.raises(InputError, match=r"dataset_dict\.json cannot be read"):
        split_folders(root)


def test_rows_come_in_groups(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"x": list(range(10)), "y": [str(n) for n in range(10)]}).save_to_disk(
        str(tmp_path / "a")
    )
    monkeypatch.setattr(arrow_folders, "GROUP", 4)
    found = open_folder(tmp_path / "a")
    assert found.metadata is found and (found.num_rows, found.num_row_groups) == (10, 3)
    groups = [found.row_group(number) for number in range(3)]
    assert [group.num_rows for group in groups] == [4, 4, 2]
    assert groups[2].total_byte_size == groups[0].total_byte_size // 2 > 0
    assert [found.read_row_group(number, ["x"]).to_pydict() for number in range(3)] == [
        {"x": [0, 1, 2, 3]},
        {"x": [4, 5, 6, 7]},
        {"x": [8, 9]},
    ]
    assert found.read(["y"]).column_names == ["y"] and found.read(["y"]).column(0)[9].as_py() == "9"
    assert list(found.schema_arrow.names) == ["x", "y"] and open_folder(tmp_path / "a") is found
    os.utime(tmp_path / "a/state.json", (1, 1))
    assert open_folder(tmp_path / "a") is not found  # it was written anew


def test_a_folder_of_that_name_is_no_set(tmp_path):
    for name in ("state.json", "dataset_dict.json", "train/state.json"):
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(InputError, match=r"train/state\.json is missing"):
        split_folders(tmp_path)
