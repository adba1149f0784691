"""Labels of test images that are hidden, and labels that may be missing."""

import pytest

from tests.datamodules.test_manifest_split import (
    ready,
    root,  # noqa: F401  # a fixture
    write,
)
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


@pytest.mark.parametrize("hidden", ["", "-1", "-1.0", "nan", "NaN", "<NA>"])
def test_hidden_labels_of_test_images(root, hidden):  # noqa: F811
    write(root / "train.csv", "path,label", ["0.png,a", "1.png,b"])
    write(root / "test.csv", "path,label", ["2.png,b", f"3.png,{hidden}", "4.png,a"])
    for stage in ("fit", "predict", "test"):
        data = ready(root, stage, test="test.csv", val_fraction=0.0)
        assert data.test_set.labels.tolist() == [1, IGNORE, 0]
    write(root / "test.csv", "path,label", [f"2.png,{hidden}", f"3.png,{hidden}"])
    for stage in ("fit", "predict"):
        assert ready(root, stage, test="test.csv", val_fraction=0.0).test_set.labels.tolist() == [IGNORE, IGNORE]
    with pytest.raises(InputError, match=r"test\.csv has no labels, which test needs; predict does without"):
        ready(root, "test", test="test.csv", val_fraction=0.0)


@pytest.mark.parametrize("split_column", [None, "fold"])
@pytest.mark.parametrize("hidden", ["", "-1", "nan"])
def test_hidden_labels_where_an_image_may_have_several(root, hidden, split_column):  # noqa: F811
    train, test = ["0.png,a;b,train", "1.png,b,train"], ["2.png,b,test", f"3.png,{hidden},test", "4.png,[],test"]
    write(root / "train.csv", "path,label,fold", [*train, *test] if split_column else train)
    write(root / "test.csv", "path,label,fold", test)
    options = {"split_column": split_column} if split_column else {"test": "test.csv", "val_fraction": 0.0}
    data = ready(root, "test", multi_label=True, **options)
    assert [data.test_set[row][1].tolist() for row in range(3)] == [[0, 1], [IGNORE] * 2, [0, 0]]
    assert data.train_set[0][1].tolist() == [1, 1]


@pytest.mark.parametrize("hidden", ["", "-1", "-1.0", "nan"])
def test_hidden_labels_of_test_images_in_a_column_of_splits(root, hidden):  # noqa: F811
    rows = ["0.png,a,train", "1.png,b,train", "2.png,b,test", f"3.png,{hidden},test"]
    write(root / "train.csv", "path,label,fold", rows)
    assert ready(root, split_column="fold").test_set.labels.tolist() == [1, IGNORE]
    write(root / "train.csv", "path,label,fold", [*rows, f"4.png,{hidden},val"])
    with pytest.raises(InputError, match=r"train\.csv has "):
        ready(root, split_column="fold")


def test_minus_one_is_a_class_where_a_class_map_has_it(root):  # noqa: F811
    write(root / "train.csv", "path,label", ["0.png,-1", "1.png,1"])
    write(root / "test.csv", "path,label", ["2.png,1", "3.png,-1"])
    with pytest.raises(InputError, match=r"train\.csv has the label '-1' in row 1 \(0\.png\), which is no class; take"):
        ready(root, test="test.csv", val_fraction=0.0)
    (root / "classes.txt").write_text("-1\n1\n")
    data = ready(root, test="test.csv", val_fraction=0.0, class_map=root / "classes.txt")
    assert [data.class_names[label] for label in data.test_set.labels] == ["1", "-1"]


@pytest.mark.parametrize("missing", ["", "nan", "NaN", "<NA>"])
def test_missing_training_labels_name_the_row(root, missing):  # noqa: F811
    write(root / "train.csv", "path,label", ["0.png,a", f"1.png,{missing}", "2.png,b"])
    with pytest.raises(InputError, match=r"train\.csv has .* in row 2 \(1\.png\)"):
        ready(root)


def test_a_label_that_may_be_missing_is_said(root):  # noqa: F811
    write(root / "train.csv", "path,label", [f"{number}.png,{'ab?'[number % 3]}" for number in range(9)])
    assert "train.csv: the label '?' may stand for a missing one" in "".join(ready(root).notices)
    (root / "map.txt").write_text("a\nb\n?\n")
    assert not ready(root, class_map=root / "map.txt").notices


@pytest.mark.parametrize("label", ["?", "unknown", "-"])
def test_a_hidden_label_of_a_test_row_is_not_told_to_train(root, label):  # noqa: F811
    write(root / "train.csv", "path,label,split", ["0.png,a,train", "1.png,b,train", f"2.png,{label},test"])
    with pytest.raises(InputError, match="no class of the training images; leave the cell empty if the") as error:
        ready(root)
    assert "split_column false" not in str(error.value)
    write(root / "train.csv", "path,label,split", ["0.png,a,train", "1.png,b,train", "2.png,,test"])
    assert ready(root).test_set.labels.tolist() == [IGNORE]
