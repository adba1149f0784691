"""Lists and objects in place of a label: several labels where that is asked for, else errors."""

import io
import tarfile

import pytest

from datamodules.webshards import WebShards
from tests.datamodules.test_labels import (
    READERS,
    picture,
    read,
    root,  # noqa: F401  # a fixture
    setup,
    shown,
    write_tar,
)
from vit_lightning.errors import InputError


@pytest.mark.parametrize("reader", READERS)
def test_lists_of_a_0_or_1_for_each_class(root, reader):  # noqa: F811
    with pytest.raises(InputError, match=r"0 or 1 for each class, expected the classes"):
        read(root, reader, multi_label=True, train=[[2], [1, 0, 0], [0, 1, 0]])
    with pytest.raises(InputError, match=r"the list 0, 1 or 1, 0 for every image, which may name both classes"):
        read(root, reader, multi_label=True, train=[[1, 0], [0, 1]])
    data = read(root, reader, multi_label=True, train=[[1, 0], [0, 1], [2]])
    assert shown(data, 3) == [{"0", "1"}, {"0", "1"}, {"2"}]
    data = read(root, reader, multi_label=True, train=[[1, 0], [0], [1]], val=[[0, 1]])
    assert shown(data, 3) == [{"0", "1"}, {"0"}, {"1"}]
    (root / "names.txt").write_text("cat\ndog\nowl\n")
    if reader not in ("WebShards cls", "csv"):
        data = read(root, reader, multi_label=True, train=[[1, 0], [0, 1]], class_map=root / "names.txt")
        assert shown(data, 2) == [{"cat", "dog"}, {"cat", "dog"}]


@pytest.mark.parametrize("reader", [reader for reader in READERS if reader != "WebShards cls"])
def test_lists_of_truth_values(root, reader):  # noqa: F811
    with pytest.raises(InputError, match=r"truth values|expected the names or the numbers of classes"):
        read(root, reader, multi_label=True, train=[[True, False], [False, True]])


def test_text_in_place_of_lists(root):  # noqa: F811
    with pytest.raises(InputError, match=r"has text in its column 'label', expected lists of labels; leave out"):
        read(root, "Parquet", multi_label=True, train=["a;b", "b"])


FORMS = ["['cat' 'dog']", "['cat'\n 'dog']", "[0 1]", "{cat,dog}", "[cat, dog]", "array(['cat', 'dog'])"]


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", ["csv", "parquet table", "Parquet", "WebShards json"])
def test_lists_in_other_forms(root, reader, form, multi_label):  # noqa: F811
    with pytest.raises(
        InputError, match=r"list or an object in a form that is not read|in row 2 the label|has text in"
    ):
        read(root, reader, multi_label=multi_label, train=["cat", form])


def test_lists_as_python_prints_them(root):  # noqa: F811
    data = read(root, "csv", multi_label=True, train=["{'cat', 'dog'}", "('cat', 'owl')", "['dog']", "(dog)"])
    assert shown(data, 4) == [{"cat", "dog"}, {"cat", "owl"}, {"dog"}, {"(dog)"}]


@pytest.mark.parametrize("reader", ["jsonl", "parquet table", "Parquet"])
@pytest.mark.parametrize("label", [None, ["cat", None]])
def test_nothing_in_or_in_place_of_a_list(root, reader, label):  # noqa: F811
    with pytest.raises(InputError, match=r"row 2"):
        read(root, reader, multi_label=True, train=[["cat", "dog"], label, ["dog"]])
    data = read(root, reader, multi_label=True, train=[["cat", "dog"], [], ["dog"]])
    assert shown(data, 3) == [{"cat", "dog"}, set(), {"dog"}]


def test_lists_and_double_keys_in_tars(root):  # noqa: F811
    write_tar(root / "train.tar", ["cat", '["cat", "dog"]'], "cls")
    for multi_label in (False, True):
        with pytest.raises(InputError, match=r"train\.tar: sample 1 has no class: \.cls holds the list or object"):
            setup(WebShards(root=str(root), train="train.tar", multi_label=multi_label, cache=root / "c", image_size=8))
    write_tar(root / "train.tar", ["cat"], "cls")
    with tarfile.open(root / "train.tar", "w") as tar:
        for name, data in (("0.png", picture()), ("0.json", b'{"label": "cat", "label": "dog"}')):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    with pytest.raises(InputError, match=r"sample 0 has a damaged \.json .*has the key 'label' twice"):
        setup(WebShards(root=str(root), train="train.tar", cache=root / "c", image_size=8))
