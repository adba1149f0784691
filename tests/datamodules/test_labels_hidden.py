"""Labels that test images have not got count nothing, in every reader alike."""

import pytest
import torch

from tests.datamodules.test_labels import READERS, manifest, read, root, shown  # noqa: F401  # root is a fixture
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

LISTS = ("csv", "jsonl", "parquet table", "Parquet")


@pytest.mark.parametrize("reader", LISTS)
@pytest.mark.parametrize("label", [["nan"], ["nan", "cat"], ["-1"], ["cat", "-1"], [""], [None], None])
def test_a_list_with_a_hidden_label_is_hidden(root, reader, label):  # noqa: F811
    label = "" if reader == "csv" and label is None else label
    data = read(root, reader, multi_label=True, train=[["cat"], ["dog"]], test=[label, ["cat", "dog"], []])
    for _ in range(2):
        found = [data.test_set[number][1].tolist() for number in range(3)]
        assert found == [[IGNORE, IGNORE], [1, 1], [0, 0]]
        data.setup("test")
    if label == "":  # no classes
        return
    with pytest.raises(InputError, match=r"row 2|label '(nan|-1)'"):
        read(root, reader, multi_label=True, train=[["cat"], label], test=[["cat"]])


@pytest.mark.parametrize("reader", LISTS)
def test_lists_that_are_all_hidden(root, reader):  # noqa: F811
    data = read(root, reader, multi_label=True, train=[["cat"], ["dog"]], test=[["-1"], ["nan"]])
    assert all((torch.as_tensor(data.test_set[number][1]) == IGNORE).all() for number in range(2))
    with pytest.raises(InputError, match="no labels, which test needs"):
        data.setup("test")


@pytest.mark.parametrize("cell", ["nan;cat", "cat;nan", "<NA>"])
def test_text_with_a_hidden_label_among_others(root, cell):  # noqa: F811
    (root / "train.csv").write_text("path,label\n0.png,cat\n1.png,dog\n")
    (root / "test.csv").write_text(f"path,label\n2.png,{cell}\n3.png,cat\n")
    data = manifest(root, test="test.csv", multi_label=True)
    assert [data.test_set[number][1].tolist() for number in range(2)] == [[IGNORE, IGNORE], [1, 0]]


def test_a_column_for_each_class_says_none(root):  # noqa: F811
    (root / "train.csv").write_text("path,cat,dog\n0.png,1,0\n1.png,0,1\n")
    (root / "test.csv").write_text("path,cat,dog\n2.png,0,0\n3.png,1,0\n")
    with pytest.raises(InputError, match=r"test\.csv has 0 labels in row 1 \(2\.png\), expected one"):
        manifest(root, test="test.csv", label_column=["cat", "dog"])
    (root / "test.csv").write_text("path,cat,dog\n2.png,,\n3.png,1,0\n")
    data = manifest(root, test="test.csv", label_column=["cat", "dog"])
    assert [data.test_set[number][1] for number in range(2)] == [IGNORE, 0]


def test_labels_that_training_images_lack(root):  # noqa: F811
    said = r"has no label in its column 'label' in 1 row, the first is row 2"
    with pytest.raises(InputError, match=said):
        read(root, "Parquet", train=["cat", None])


@pytest.mark.parametrize("reader", READERS)
def test_a_class_map_of_numbers_in_another_order(root, reader):  # noqa: F811
    (root / "names.txt").write_text("2\n0\n1\n")
    labels = [0, 1, 2] if reader not in ("csv", "WebShards cls") else ["0", "1", "2"]
    with pytest.raises(InputError, match=r"has numbers as labels, .*: 0 may be the name of a class or the place of 2"):
        read(root, reader, train=labels, class_map=root / "names.txt")
    (root / "names.txt").write_text("0\n1\n2\n")
    assert shown(read(root, reader, train=labels, class_map=root / "names.txt"), 3) == [{"0"}, {"1"}, {"2"}]


@pytest.mark.parametrize("reader", READERS)
def test_a_class_map_of_names_and_numbers_out_of_their_places(root, reader):  # noqa: F811
    labels = [0, 1, 2] if reader not in ("csv", "WebShards cls") else ["0", "1", "2"]
    (root / "names.txt").write_text("2\n1\n0\ncat\n")
    with pytest.raises(InputError, match=r"has numbers as labels, .*: 0 may be the name of a class or the place of 2"):
        read(root, reader, train=labels, class_map=root / "names.txt")
    (root / "names.txt").write_text("0\n1\n2\ncat\n")
    assert shown(read(root, reader, train=labels, class_map=root / "names.txt"), 3) == [{"0"}, {"1"}, {"2"}]


@pytest.mark.parametrize("reader", ["parquet table", "Parquet"])
def test_text_is_the_name_of_a_class_in_any_order(root, reader):  # noqa: F811
    (root / "names.txt").write_text("2\n0\n1\n")
    data = read(root, reader, train=["0", "1", "2"], class_map=root / "names.txt")
    assert shown(data, 3) == [{"0"}, {"1"}, {"2"}]


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_signs_that_end_no_line_in_tars(root, sign, multi_label):  # noqa: F811
    with pytest.raises(InputError, match=r"sample 1 has no class: \.cls holds 'a.*b', expected a name"):
        read(root, "WebShards cls", train=["cat", f"a{sign}b"], multi_label=multi_label)
