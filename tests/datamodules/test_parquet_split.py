"""A column of splits divides Parquet's training files, and a run keeps it."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from tests.datamodules.test_parquet import (
    module,
    picture,
    ready,
    write,
)
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


def write_splits(path, splits, labels="ab"):
    shades = range(len(splits))
    table = {"image": [picture(n) for n in shades], "label": [labels[n % 2] for n in shades], "set": splits}
    parquet.write_table(pa.table(table), path, row_group_size=3)


def test_a_column_of_splits_divides_the_training_files(tmp_path):
    write_splits(tmp_path / "train.parquet", ["train"] * 4 + ["val"] * 2 + ["Usual"] * 2)
    write(tmp_path / "test.parquet", ["a", "b"])
    said = r"train\.parquet has in row 7 'Usual' in the column 'set', which names .*--data\.split_column false leaves"
    with pytest.raises(InputError, match=said):
        ready(tmp_path)
    with pytest.raises(InputError, match=r"has in row 7 of the column 'set' the split 'Usual', expected one of train,"):
        ready(tmp_path, split_column="set")
    data = ready(tmp_path, split_column="set", split_names={"Usual": "train"})
    assert [len(part) for part in (data.train_set, data.val_set, data.test_set)] == [6, 2, 2]
    assert len(ready(tmp_path, split_column=False, val_fraction=0.0).train_set) == 8
    with pytest.raises(InputError, match="names the splits train and val and test, beside tables of other splits; put"):
        ready(tmp_path, split_column="set", split_names={"Usual": "test"})
    (tmp_path / "test.parquet").unlink()
    data = ready(tmp_path, split_column="set", split_names={"Usual": "test"})
    assert [len(part) for part in (data.train_set, data.val_set, data.test_set)] == [4, 2, 2]
    with pytest.raises(InputError, match="has no column 'fold' but image, label, set"):
        ready(tmp_path, split_column="fold")


def test_a_class_that_no_training_row_of_a_column_has(tmp_path):
    write_splits(tmp_path / "train.parquet", ["train", "test"] * 3)
    with pytest.raises(InputError, match=r"train\.parquet:1 has the label 'b', which the training rows lack"):
        ready(tmp_path, split_column="set")
    (tmp_path / "classes.txt").write_text("a\nb\n")
    assert (
        ready(
            tmp_path, split_column="set", class_map=tmp_path / "classes.txt", val_fraction=0.0
        ).test_set.labels.tolist()
        == [1] * 3
    )


def test_a_path_in_two_splits_of_a_column_is_an_error(tmp_path):
    (tmp_path / "0.png").write_bytes(picture(1))
    (tmp_path / "1.png").write_bytes(picture(2))
    table = {"image": ["0.png", "1.png", "0.png"], "label": ["a", "b", "a"], "set": ["train", "train", "val"]}
    parquet.write_table(pa.table(table), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"has in row 1 the train image 0\.png, which .* has in row 3 as a val"):
        ready(tmp_path, split_column="set")


def run(root, verb="fit", **options) -> Parquet:
    """Set up data as a run does whose folder is there."""
    data = module(root, split_column="set", **options)
    data.run_folder = root / "run"
    data.run_folder.mkdir(exist_ok=True)
    data.trainer = SimpleNamespace(state=SimpleNamespace(fn=verb), is_global_zero=True)
    data.setup(verb)
    return data


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize(("row", "split"), [(0, "test"), (0, "val"), (4, "train"), (6, "train"), (6, "val")])
def test_splits_of_a_column_are_kept_and_a_moved_row_is_an_error(tmp_path, row, split, multi_label):
    splits, labels = ["train"] * 4 + ["val"] * 2 + ["test"] * 2, [["a"], ["b"]] if multi_label else "ab"
    write_splits(tmp_path / "train.parquet", splits, labels)
    run(tmp_path, multi_label=multi_label)
    kept = (tmp_path / "run/split.csv").read_text()
    assert kept.splitlines()[5] == f"train.parquet:4,{'' if multi_label else 'a'},val"
    splits[row] = split
    for verb in ("fit", "validate", "test", "predict"):
        write_splits(tmp_path / "train.parquet", splits, labels)
        with pytest.raises(InputError, match=rf"train\.parquet:{row} in {split}, and \S+split\.csv has it in "):
            run(tmp_path, verb, multi_label=multi_label)
    assert (tmp_path / "run/split.csv").read_text() == kept


def test_rows_that_are_gone_or_of_another_class_are_errors_and_new_ones_and_other_data_are_not(tmp_path):
    splits = ["train"] * 4 + ["val"] * 2 + ["test"] * 2
    write_splits(tmp_path / "train.parquet", splits)
    run(tmp_path)
    write_splits(tmp_path / "train.parquet", [*splits, "train", "test"])
    assert len(run(tmp_path, "test").test_set) == 3
    write_splits(tmp_path / "train.parquet", splits[:-1])
    with pytest.raises(
        InputError, match=r"lacks train\.parquet:7, one of 1 rows that \S+split\.csv lists; put it back"
    ):
        run(tmp_path, "test")
    write_splits(tmp_path / "train.parquet", splits, "ba")
    with pytest.raises(InputError, match=r"train\.parquet:0 in class 'b', and \S+split\.csv in 'a'"):
        run(tmp_path, "test")
    (tmp_path / "train.parquet").unlink()
    write_splits(tmp_path / "train-other.parquet", ["train", "train", "test", "test"])
    assert len(run(tmp_path, "test").test_set) == 2


@pytest.mark.parametrize("nothing", [None, ""])
def test_hidden_labels_of_the_test_rows_of_a_column(tmp_path, nothing):
    def table(labels, file="train-0.parquet"):
        splits = ["train", "train", "test", "test"]
        rows = {"image": [picture(n) for n in range(4)], "label": labels, "set": splits}
        parquet.write_table(pa.table(rows), tmp_path / file, row_group_size=3)

    def labels_of(stage):
        data = module(tmp_path, split_column="set", val_fraction=0.0)
        data.setup(stage)
        return data.test_set.labels.tolist()

    table(["a", "b", "a", nothing])
    assert labels_of("fit") == labels_of("test") == [0, IGNORE]
    table(["a", "b", nothing, nothing])
    assert labels_of("fit") == labels_of("predict") == [IGNORE, IGNORE]
    with pytest.raises(InputError, match=r"train-0\.parquet has no labels of test rows; predict does without"):
        labels_of("test")
    table(["a", "b", nothing, nothing], "train-1.parquet")
    assert labels_of("fit") == [IGNORE] * 4
    table(["a", nothing, "a", nothing], "train-1.parquet")
    with pytest.raises(
        InputError, match=r"train-1\.parquet has no label in its column 'label' in \d rows?, the first is"
    ):
        labels_of("fit")
