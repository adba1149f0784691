"""What a run keeps of a split that a table divides, where the table leaves images out."""

import csv

import numpy as np

from datamodules.reading.drawn_split import TEST, TRAIN
from datamodules.reading.stated_images import Stated
from tests.datamodules.reading.test_divided_data import data, divided, table


def kept(path) -> list[tuple[str, str, str]]:
    with path.open(newline="") as file:
        return [(row["file"], row["class"], row["split"]) for row in csv.DictReader(file)]


def test_each_file_is_kept_with_its_own_class_and_split(tmp_path):
    """Of ten images the first three are left out, and the fourth is the only owl."""
    listed = {f"{number:03d}.png": ("train", "val", "test", "train")[number % 4] for number in range(3, 10)}
    (tmp_path / "run").mkdir()
    made = data(10, "fit", tmp_path / "run", split_file=table(tmp_path / "given.csv", listed))
    assert divided(made) == [
        [name for name, split in listed.items() if split == one] for one in ("train", "val", "test")
    ]
    expected = [(name, "owl" if name == "003.png" else "cat", split) for name, split in listed.items()]
    assert kept(tmp_path / "run/split.csv") == expected


def test_images_whose_split_the_data_state_stand_behind_those_that_are_drawn(tmp_path):
    (tmp_path / "run").mkdir()
    stated = Stated(["x.png", "y.png"], ["cat", "owl"], np.array([TEST, TRAIN], np.int8))
    listed = {f"{number:03d}.png": "train" if number < 8 else "val" for number in range(2, 10)}
    made = data(10, "fit", tmp_path / "run", split_file=table(tmp_path / "given.csv", listed))
    divided(made, stated=stated)
    assert kept(tmp_path / "run/split.csv")[-3:] == [
        ("009.png", "cat", "val"),
        ("x.png", "cat", "test"),
        ("y.png", "owl", "train"),
    ]
    assert len(kept(tmp_path / "run/split.csv")) == 10
