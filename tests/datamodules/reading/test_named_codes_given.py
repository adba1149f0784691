"""A column of labels that was given counts, whatever other columns call its numbers, and this is said."""

import pyarrow
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from tests.datamodules.reading.test_unread_splits import root  # noqa: F401  # a fixture
from tests.datamodules.test_labels import picture
from tests.datamodules.test_manifest_split import ready, write
from vit_lightning.errors import InputError


def tables(root, column: str, train: str, val: str) -> None:  # noqa: F811
    for name, (zero, one), start, rows in (("train.csv", train.split(), 0, 6), ("val.csv", val.split(), 6, 4)):
        cells = [f"{start + row}.png,{row % 2},{(zero, one)[row % 2]}" for row in range(rows)]
        write(root / name, f"path,label,{column}", cells)


@pytest.mark.parametrize(
    ("column", "train", "val"),
    [
        ("scanner", "siemens ge", "ge siemens"),
        ("site", "A B", "B A"),
        ("label_name", "cat dog", "Katze Hund"),
    ],
)
def test_the_way_out_that_the_error_names(root, column, train, val):  # noqa: F811
    tables(root, column, train, val)
    with pytest.raises(
        InputError, match=r"or --data\.label_column label if the numbers are right and the column names"
    ):
        ready(root, val="val.csv")
    data = ready(root, val="val.csv", label_column="label")
    assert data.train_set.labels.tolist() == [0, 1] * 3 and data.val_set.labels.tolist() == [0, 1] * 2
    (said,) = [text for text in data.notices if column in text]
    assert said.startswith(f"{root}/train.csv has in row ") and "and the column 'label' counts" in said


@pytest.mark.parametrize(
    ("column", "train", "val"),
    [
        ("class_dir", "train/cat train/dog", "val/cat val/dog"),
        ("label_date", "2020-01-01 2020-01-02", "2021-01-01 2021-01-02"),
        ("label_source", "ann bob", "eve joe"),
    ],
)
def test_columns_of_something_beside_the_classes(root, column, train, val):  # noqa: F811
    tables(root, column, train, val)
    assert ready(root, val="val.csv").val_set.labels.tolist() == [0, 1] * 2


def test_a_class_map_and_a_column_that_was_given(root):  # noqa: F811
    tables(root, "scanner", "a b", "a b")
    (root / "map.csv").write_text("number,name\n0,b\n1,a\n")
    with pytest.raises(InputError, match=r"or --data\.label_column label if"):
        ready(root, val="val.csv", class_map=root / "map.csv")
    data = ready(root, val="val.csv", class_map=root / "map.csv", label_column="label")
    assert data.class_names == ["b", "a"] and any("the column 'label' counts" in said for said in data.notices)


def test_files_of_parquet(tmp_path):
    for place, (split, names) in enumerate((("train", "ab"), ("val", "ba"))):
        columns = {
            "image": [picture(20 * place + row) for row in range(6)],
            "label": [row % 2 for row in range(6)],
            "scanner": [names[row % 2] for row in range(6)],
        }
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{split}.parquet")
    with pytest.raises(InputError, match=r"or --data\.label_column label if the numbers are right"):
        Parquet(root=tmp_path, image_size=8).setup("fit")
    data = Parquet(root=tmp_path, image_size=8, label_column="label")
    data.setup("fit")
    assert data.val_set.labels.tolist() == [0, 1] * 3
    assert any("'scanner', and the column 'label' counts" in said for said in data.notices)
