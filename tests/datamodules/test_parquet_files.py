"""Splits of several Parquet files, of which each has other labels and another number of rows."""

import torch

from tests.datamodules.test_parquet import ready, write
from vit_lightning.data.image_set import label_of


def test_labels_of_several_files_stay_with_their_rows(tmp_path):
    parts = [[["a"], ["b", "c"], []], [["c"]], [["a", "b", "c"], ["b"]]]
    first = 0
    for number, labels in enumerate(parts):
        write(tmp_path / f"train-{number:05}-of-00003.parquet", labels, group=2, first=first)
        first += len(labels)
    data = ready(tmp_path, multi_label=True, val_fraction=0)
    expected = [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1], [1, 1, 1], [0, 1, 0]]
    assert data.class_names == ["a", "b", "c"] and len(data.train_set) == 6
    for number, vector in enumerate(expected):
        assert torch.equal(label_of(data.train_set, number), torch.tensor(vector, dtype=torch.float32))
        assert torch.equal(data.train_set[number][1], torch.tensor(vector, dtype=torch.float32))


def test_numbers_of_files_that_list_their_classes_otherwise_are_matched_by_name(tmp_path):
    write(tmp_path / "train-00000-of-00002.parquet", [0, 1, 1], ["cat", "dog"])
    write(tmp_path / "train-00001-of-00002.parquet", [0, 1], ["dog", "cat"], first=3)
    data = ready(tmp_path, val_fraction=0)
    assert data.class_names == ["cat", "dog"]
    assert data.train_set.labels.tolist() == [0, 1, 1, 1, 0]
    assert [data.train_set[number][1] for number in range(5)] == [0, 1, 1, 1, 0]
