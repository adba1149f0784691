"""Splits of several Parquet files, of which each has other labels and another number of rows."""

import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from tests.datamodules.test_parquet import picture, ready, write
from vit_lightning.data.image_set import label_of
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


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


def test_splits_of_root_and_of_its_folder_data_are_one_set(tmp_path):
    write(tmp_path / "data/train.parquet", ["a", "b", "a"])
    data = ready(tmp_path, val_fraction=0)
    assert data.train_set.labels.tolist() == [0, 1, 0] and data.test_set is None
    write(tmp_path / "test.parquet", ["b", "a"])
    data = ready(tmp_path, val_fraction=0)
    assert data.train_set.labels.tolist() == [0, 1, 0] and data.test_set.labels.tolist() == [1, 0]


@pytest.mark.parametrize(("row", "lacks"), [(1, None), (3, None), (0, "is row 1"), (4, "is row 2")])
def test_labels_that_test_rows_lack_are_those_of_their_own_file(tmp_path, row, lacks):
    """Of three and two rows the second and the fourth test."""
    splits, labels = ["train", "test", "train", "test", "train"], ["a", "b", "b", "a", "a"]
    labels[row] = None
    for number, rows in enumerate((slice(0, 3), slice(3, 5))):
        file = tmp_path / f"train-{number}.parquet"
        write(file, labels[rows], first=3 * number)
        parquet.write_table(parquet.read_table(file).append_column("split", pa.array(splits[rows])), file)
    if lacks:
        with pytest.raises(
            InputError, match=rf"train-{row // 3}\.parquet has no label in .* in 1 row, the first {lacks}"
        ):
            ready(tmp_path, split_column="split", val_fraction=0)
        return
    data = ready(tmp_path, split_column="split", val_fraction=0)
    assert [data.train_set[number][1] for number in range(3)] == [0, 1, 0]
    assert [data.test_set[number][1] for number in range(2)] == [
        IGNORE if place == row else [0, 1, 0, 0][place] for place in (1, 3)
    ]


def test_test_images_whose_lists_are_hidden_have_no_label_and_empty_lists_show_nothing(tmp_path):
    write(tmp_path / "train.parquet", [["a"], ["b", "a"], ["c"]])
    write(tmp_path / "test.parquet", [["c", "a"], None, []])
    data = ready(tmp_path, multi_label=True, val_fraction=0)
    rows = [data.test_set[number][1].tolist() for number in range(3)]
    assert rows == [[1, 0, 1], [IGNORE] * 3, [0, 0, 0]]


def test_rows_of_one_file_on_the_disk_stay_on_one_side_of_what_is_held_out(tmp_path):
    paths = [f"{number % 10}.png" for number in range(20)]
    for number in range(10):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
    labels = [number % 10 % 2 for number in range(20)]
    parquet.write_table(pa.table({"image": paths, "label": labels}), tmp_path / "train.parquet")
    data = ready(tmp_path, val_fraction=0.3)
    trained, held = ({paths[row] for row in part.indices} for part in (data.train_set, data.val_set))
    assert not trained & held and len(held) == 3 and len(data.val_set) == 6


def test_a_test_file_without_labels_beside_one_with_them_is_named(tmp_path):
    write(tmp_path / "train.parquet", ["a", "b", "a"])
    write(tmp_path / "test-00000-of-00002.parquet", ["b"], first=3)
    bare = pa.table({"image": [{"bytes": picture(4), "path": None}]})
    parquet.write_table(bare, tmp_path / "test-00001-of-00002.parquet")
    with pytest.raises(InputError, match=r"test-00001-of-00002\.parquet.*label"):
        ready(tmp_path, val_fraction=0)
