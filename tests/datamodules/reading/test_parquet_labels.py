"""Labels of Parquet files as text: which they are, which are missing, and whose row a wrong one is."""

import json
from pathlib import Path

import numpy as np
import pytest

from datamodules.reading.parquet_labels import FileLabels, listed_classes, read_labels
from vit_lightning.errors import InputError

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


def write(folder: Path, labels: list, feature: object = None, kind: object = None) -> Path:
    table = pa.table({"label": pa.array(labels, kind)})
    if feature is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": {"label": feature}}})})
    parquet.write_table(table, folder / "t.parquet", row_group_size=2)
    return folder / "t.parquet"


NAMED = {"names": ["zebra", "ant", "cat"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    "feature", [NAMED, {"feature": NAMED, "_type": "Sequence"}, [NAMED], {"feature": {"feature": NAMED}}]
)
def test_names_stand_in_the_metadata_at_any_depth(tmp_path, feature):
    assert listed_classes(write(tmp_path, [0], feature), "label") == ["zebra", "ant", "cat"]
    assert listed_classes(tmp_path / "t.parquet", "other") is None


def test_without_names_nothing_is_listed_and_a_name_stands_once(tmp_path):
    assert listed_classes(write(tmp_path, [0]), "label") is None
    assert listed_classes(write(tmp_path, [0], {"dtype": "int64", "_type": "Value"}), "label") is None
    with pytest.raises(InputError, match="lists the name of a class of its column 'label' twice"):
        listed_classes(write(tmp_path, [0], {"names": ["a", "b", "a"]}), "label")


@pytest.mark.parametrize(
    ("labels", "feature", "names", "places", "numbered"),
    [
        ([2, 0, 1, 2], NAMED, ["ant", "cat", "zebra"], [1, 2, 0, 1], False),
        (["b", "a", "c", "a"], None, ["a", "b", "c"], [1, 0, 2, 0], False),
        ([10, 9, 2], None, ["10", "2", "9"], [0, 2, 1], True),
        ([1.0, 0.0, None], None, ["0", "1"], [1, 0, -1], True),
        (["b", None, "", "a"], None, ["a", "b"], [1, -1, -1, 0], False),
        ([1, -1, 0], None, ["0", "1"], [1, -1, 0], True),
        ([True, False, True], None, ["False", "True"], [1, 0, 1], False),
    ],
)
def test_labels_are_places_among_their_sorted_names(tmp_path, labels, feature, names, places, numbered):
    found = read_labels(write(tmp_path, labels, feature), "label")
    assert (found.names, found.places.tolist(), found.numbered) == (names, places, numbered)
    assert found.ends.tolist() == list(range(len(labels) + 1))


@pytest.mark.parametrize(
    ("labels", "feature", "said"),
    [
        ([0, 3, 1], NAMED, "has in row 2 the label 3, outside its 3 classes"),
        ([0.5, 1.0], None, "has double in its column 'label'; expected whole numbers or text, but has in row 1 the la"),
        ([2, -3], None, "in row 2 the label -3"),
        (["a", "['b']"], None, "in row 2 the label"),
    ],
)
def test_the_first_row_with_no_label_is_named(tmp_path, labels, feature, said):
    with pytest.raises(InputError, match=said):
        read_labels(write(tmp_path, labels, feature), "label")


def labels_of(*names: str, numbered: bool = False) -> FileLabels:
    count = len(names)
    return FileLabels(Path("t"), list(names), np.arange(count), np.arange(count + 1), numbered)


def test_missing_labels_are_counted_from_the_first():
    found = FileLabels(Path("t"), ["a"], np.array([0, -1, 0, -1]), np.array([0, 1, 2, 3, 4]), False)
    with pytest.raises(InputError, match="t has no label in its column 'kind' in 2 rows, the first is row 2"):
        found.check_complete("kind")
    labels_of("a").check_complete("kind")


def test_rows_of_several_labels_are_counted_by_their_lists(tmp_path):
    """A list that is null is a label that is missing, and an empty one shows nothing."""
    lists = [["b", "a"], [], ["c"], None, ["a", None, "b"], ["d"]]
    found = read_labels(write(tmp_path, lists), "label", multi_label=True)
    assert (found.names, found.places.tolist()) == (["a", "b", "c", "d"], [1, 0, 2, -1, 0, -1, 1, 3])
    assert found.ends.tolist() == [0, 2, 2, 3, 4, 7, 8]
    assert found.first({"c"}) == (3, "c") and found.first({"d", "x"}) == (6, "d") and found.first({"x"}) is None
    assert found.first({"a"}) == (1, "a") and found.row(found.places == -1) == 4
    with pytest.raises(InputError, match="has no label in its column 'label' in 2 rows, the first is row 4"):
        found.check_complete("label")
    may_lack = np.array([False, False, False, True, False, False])
    with pytest.raises(InputError, match="has no label in its column 'label' in 1 row, the first is row 5"):
        found.check_complete("label", may_lack)
    may_lack[4] = True
    found.check_complete("label", may_lack)


def test_the_row_of_a_label_outside_the_classes_is_that_of_its_list(tmp_path):
    with pytest.raises(InputError, match="has in row 3 the label 3, outside its 3 classes"):
        read_labels(write(tmp_path, [[0, 1, 2], [], [1, 3]], [NAMED]), "label", multi_label=True)


@pytest.mark.parametrize("names", [["cat", "dog", "emu"], ["no", "yes"]])
def test_lists_of_a_0_or_1_for_each_class_whose_names_the_metadata_list(tmp_path, names):
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    with pytest.raises(InputError, match=r"in row 2 a list with a 0 or 1 for each class, expected the classes"):
        read_labels(write(tmp_path, [[1], [0, 1, 0], [0, 1]], feature), "label", multi_label=True)
    found = read_labels(write(tmp_path, [[1], [0, 1], []], feature), "label", multi_label=True)
    assert [found.names[place] for place in found.places] == [names[1], *names[:2]]
