"""Files that may be one set in two writings, or of which some are missing; and labels of Parquet files by their row."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.reading.coco import Annotated
from datamodules.reading.label_text import MISSING, LabelKinds
from datamodules.reading.parquet_labels import FileLabels, listed_classes
from datamodules.reading.splits import check_counted, split_files
from datamodules.reading.table_columns import Columns, _annotated, _further, _is_blank, _labels, _path, only_column
from vit_lightning.errors import InputError


def files(root: Path, names: str) -> list[Path]:
    for name in names.split():
        path = root / f"{name}.parquet".replace("~", " ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return [root / f"{name}.parquet".replace("~", " ") for name in names.split()]


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        ("train-0 train-1 train-10", None),
        ("train-00000-of-00002 train-00001-of-00002", None),
        ("train train_old", "train train_old"),
        ("train train~(1)", "train train~(1)"),
        ("train-0 train-1 train-1~copy", "train-1 train-1~copy"),
        ("train-00000-of-00001 train", "train-00000-of-00001 train"),
        ("train train2 test", "train train2"),
        ("train test val", None),
        ("train train_extra", "train train_extra"),
        ("train/a train/b", None),
        ("train/a train/a_copy", "train/a train/a_copy"),
        ("train/a train/a-BACKUP", "train/a train/a-BACKUP"),
        ("train/a train/train-0", "train/a train/train-0"),
        ("train/a-00000-of-00001 train/b", "train/a-00000-of-00001 train/b"),
        ("train/newt train/renew", None),
        ("notes notes_old train", None),
    ],
)
def test_two_writings_of_one_set(tmp_path, names, pair):
    files(tmp_path, names)
    if pair is None:
        split_files(tmp_path, ".parquet")
        return
    with pytest.raises(InputError) as told:
        split_files(tmp_path, ".parquet")
    one, other = (tmp_path / f"{name}.parquet".replace("~", " ") for name in pair.split())
    if "may be two writings" in str(told.value):
        assert str(told.value) == (
            f"{one} and {other} may be two writings of one set; remove one, or move the files of the set into a folder "
            f"{one.parent / 'train'}"
        )
    else:
        assert str(told.value).startswith(f"{one} and {other} are both named as train data are")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("train-00000-of-00002 train-00001-of-00002 val-00000-of-00001 notes", None),
        ("a/x-00000-of-00001 b/x-00000-of-00001", None),
        (
            "train-00001-of-00003 val-00000-of-00001",
            "{0} is one of 3 files, of which 2 are missing, such as number 0; fetch",
        ),
        (
            "train-00000-of-00002 train-00000-of-00003",
            "{0} is one of 2 files and {1} one of 3; remove those of the other",
        ),
        ("train-00000-of-00001-a train-00000-of-00001-b", "{0} and {1} are both file 0 of 1; remove one"),
    ],
)
def test_files_that_are_counted(tmp_path, names, said):
    found = files(tmp_path, names)
    if said is None:
        check_counted(found)
        return
    with pytest.raises(InputError) as told:
        check_counted(found)
    assert str(told.value).startswith(said.format(*found))


def labels() -> FileLabels:
    """Rows of 2, 0, 1 and 2 labels: b and a, none, c, a and b."""
    places, ends = np.array([1, 0, 2, 0, 1]), np.array([0, 2, 2, 3, 5])
    return FileLabels(Path("t.parquet"), ["a", "b", "c"], places, ends, False, False)


def test_the_first_row_with_one_of_some_labels():
    found = labels()
    assert found.first({"c"}) == (3, "c") and found.first({"a", "c"}) == (1, "a") and found.first({"x"}) is None
    assert [found.row(found.places == place) for place in (1, 0, 2)] == [1, 1, 3]
    assert found.row(np.array([False] * 3 + [True] * 2)) == 4


@pytest.mark.parametrize(
    ("feature", "names"),
    [
        ({"_type": "ClassLabel", "names": ["b", "a"]}, ["b", "a"]),
        ([{"_type": "ClassLabel", "names": ["b", "a"]}], ["b", "a"]),
        ({"_type": "Sequence", "feature": {"names": ["b", "a"]}}, ["b", "a"]),
        ({"_type": "Value", "dtype": "int64"}, None),
        (None, None),
        ({"names": ["a", "a"]}, "lists the name of a class of its column 'label' twice"),
        ({"names": ["a b", "a  b"]}, "lists classes of its column 'label' that may be one: "),
        ({"names": ["1", "01"]}, ["1", "01"]),
    ],
)
def test_classes_that_metadata_list(tmp_path, feature, names):
    features = {"other": {"names": ["x"]}} | ({"label": feature} if feature is not None else {})
    table = pa.table({"label": [0], "other": [0]}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    if isinstance(names, str):
        with pytest.raises(InputError, match=names):
            listed_classes(tmp_path / "t.parquet", "label")
    else:
        assert listed_classes(tmp_path / "t.parquet", "label") == names


# Cells of tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "path"),
    [
        (["a", "/b/", "c"], "a/b/c"),
        (["/a"], "/a"),
        (["a", None, "", float("nan"), "b"], "a/b"),
        ([7.0], "7"),
        ([7, "x"], "7/x"),
        ([7.5], "7.5"),
        ([None], None),
        ([["a"]], None),
    ],
)
def test_paths_of_cells(cells, path):
    if path is None:
        with pytest.raises(ValueError, match=r"no path|expected text"):
            _path(cells)
    else:
        assert _path(cells) == path


@pytest.mark.parametrize(
    ("cell", "several", "may_hide", "found"),
    [
        ("cat", False, False, ["cat"]),
        (3.0, False, False, ["3"]),
        ("", False, False, []),
        (None, False, False, []),
        ("a; b ;;", True, False, ["a", "b"]),
        ('["a;b", "c"]', True, False, ["a;b", "c"]),
        ([], True, False, []),
        ([], False, False, []),
        ("['a']", False, False, "the list"),
        ('{"choices": ["a"]}', False, False, ["a"]),
        ('{"choices": ["a", "b"]}', True, False, ["a", "b"]),
        ('{"choices": ["a", "b"]}', False, False, "the list"),
        (Annotated(["a"]), False, False, ["a"]),
        (Annotated(["a", "b"]), False, False, "annotations of 2 classes, expected one class"),
        (Annotated([]), False, False, "no annotation, expected one class"),
        (Annotated(["a", "b"]), True, False, ["a", "b"]),
        (["a", None], True, False, "nothing in its list where a label is expected"),
        (None, True, False, "nothing, not even an empty list, where a label"),
        (["a", None], True, True, [""]),
        ([True], True, False, r"the list \[True\], expected the names"),
        (["0", "1", "0"], True, False, "has a 0 or 1 for each class"),
    ],
)
def test_labels_of_a_cell(cell, several, may_hide, found):
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            _labels(cell, several, ";", LabelKinds(), may_hide)
    else:
        assert _labels(cell, several, ";", LabelKinds(), may_hide) == found


@pytest.mark.parametrize("split", ["", None, "nan", float("nan"), " N/A "])
def test_a_split_or_a_group_that_is_missing(split):
    columns = Columns(["path"], ["label"], False, "fold", "who")
    assert _further(columns, [" val ", 3.0], False) == ("val", "3") and _further(columns, ["1.0", "x"], False) == (
        "1",
        "x",
    )
    with pytest.raises(ValueError, match="nothing in the column 'fold'"):
        _further(columns, [split, "x"], False)
    with pytest.raises(ValueError, match="nothing in the column 'who'"):
        _further(columns, ["val", split], False)
    assert _further(columns._replace(split=None), ["x"], False) == ("", "x")
    assert _further(columns._replace(group=None), ["x"], False) == ("x", "")


def test_blank_cells_and_columns_that_can_be_meant():
    assert all(_is_blank(cell, MISSING) for cell in (None, float("nan"), "", "  ", " NaN", "n/a"))
    assert not any(_is_blank(cell, MISSING) for cell in (0, "0", "cat", False, []))
    assert _annotated(Annotated(["x"])) == ["x"]
    known = ("path", "file_name", "image")
    assert only_column(Path("t"), ["image", "path", "file_name"], "path_column", known) == "path"
    assert only_column(Path("t"), ["image"], "path_column", known) == "image"
    assert only_column(Path("t"), ["x"], "path_column", known) == "path"
    with pytest.raises(InputError, match=r"^t has the columns file_name and image; give --data\.path_column file_name"):
        only_column(Path("t"), ["image", "file_name"], "path_column", known)
