"""Ways out that errors about class maps name lead to true labels; other ways are refused."""

import re

import pytest

from tests.datamodules.test_class_map_merges import folders
from tests.datamodules.test_labels import READERS, read, root, shown  # noqa: F401  # root is a fixture
from vit_lightning.errors import InputError

FROM_1 = "lists 3 names: the list counts from 0 and the labels from 1; give --data.class_map a .csv with the lines "


@pytest.mark.parametrize("labels", [["1", "2", "3"], ["1.0", "2.0", "3.0"], ["2", "3"]])
@pytest.mark.parametrize("reader", READERS)
def test_numbers_from_1_beside_as_many_names_get_the_lines_that_work(root, reader, labels):  # noqa: F811
    (root / "map.txt").write_text("a\nb\nc\n")
    with pytest.raises(InputError) as told:
        read(root, reader, train=labels, class_map=root / "map.txt")
    assert FROM_1 in str(told.value) and "add it" not in str(told.value)
    lines = str(told.value).partition(FROM_1)[2].split()
    assert len(lines) == len(labels)
    (root / "map.csv").write_text("\n".join(lines))
    data = read(root, reader, train=labels, class_map=root / "map.csv")
    assert shown(data, len(labels)) == [{" abc"[int(label[0])]} for label in labels]


@pytest.mark.parametrize(
    ("labels", "lines"),
    [
        (["1", "2", "3"], ["a", "b", "c", "3"]),
        (["0", "1"], ["neg", "pos", "0", "1"]),
        (["0", "1", "2"], ["0", "a", "b"]),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_numbers_among_names_are_refused_beside_numbers(root, reader, labels, lines):  # noqa: F811
    (root / "map.txt").write_text("\n".join(lines))
    said = r"has numbers as labels, such as \d, and .*map\.txt has the number \d among its names, which may be"
    with pytest.raises(InputError, match=said):
        read(root, reader, train=labels, class_map=root / "map.txt")


@pytest.mark.parametrize("reader", READERS)
def test_numbers_beyond_a_list_are_not_added_to_its_names(root, reader):  # noqa: F811
    (root / "map.txt").write_text("a\nb\nc\n")
    with pytest.raises(InputError) as told:
        read(root, reader, train=["0", "1", "7"], class_map=root / "map.txt")
    assert "add it there" not in str(told.value)
    assert re.search(r"a \.csv with (a line NUMBER,NAME|the lines 0,NAME and so on)", str(told.value))


@pytest.mark.parametrize(
    ("found", "lines"),
    [(["0", "1"], ["0,neg", "1,pos"]), (["1", "2"], ["1,neg", "2,pos"]), (["00", "01"], ["00,neg", "01,pos"])],
)
def test_folders_of_numbers_beside_a_list_of_names(tmp_path, found, lines):
    (tmp_path / "map.txt").write_text("neg\npos\n")
    with pytest.raises(InputError, match=rf"; give --data\.class_map a \.csv with the lines {' '.join(lines)}$"):
        folders(tmp_path / "set", *found, class_map=tmp_path / "map.txt")
    (tmp_path / "map.csv").write_text("\n".join(lines))
    data = folders(tmp_path / "set", *found, class_map=tmp_path / "map.csv")
    assert data.class_names == ["neg", "pos"] and set(data.train_set.labels.tolist()) == {0, 1}
    (tmp_path / "map.txt").write_text("\n".join(["neg", "pos", *found]))
    with pytest.raises(InputError, match=r"map\.txt has the number \d+ among its names"):
        folders(tmp_path / "set", *found, class_map=tmp_path / "map.txt")


def test_a_class_of_none_beside_those_of_numbers_is_no_mixture(tmp_path):
    (tmp_path / "map.txt").write_text("none\n0\n1\n2\n")
    data = folders(tmp_path / "set", "0", "1", "2", class_map=tmp_path / "map.txt")
    assert data.class_names == ["none", "0", "1", "2"] and set(data.train_set.labels.tolist()) == {1, 2, 3}
