"""Classes of a table's labels."""

from pathlib import Path

import pytest

from datamodules.reading import array_cache
from datamodules.reading.class_map import MANY
from datamodules.reading.label_text import MISSING
from datamodules.reading.table_content import TableForm, content
from datamodules.reading.table_labels import TableLabels
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


def table(folder: Path, text: str, is_divided: bool = False, **settings) -> TableLabels:
    (folder / "t.csv").write_text(text)
    form = TableForm((None, None), "fold" if is_divided else None, None, "", "", False, ";", "train", "left", MISSING)
    form = TableForm(**{**vars(form), **settings})
    array_cache.save(folder / f"{len(list(folder.iterdir()))}.safetensors", content(folder / "t.csv", form))
    return TableLabels(max(folder.glob("*.safetensors"), key=lambda path: int(path.stem)), folder / "t.csv", is_divided)


PLAIN = "path,label\na.png,owl\nb.png,cat\nc.png,owl\n"
FOLDS = "path,label,fold\na.png,owl,train\nb.png,bat,val\nc.png,cat,train\nd.png,emu,test\n"
HOT = "path,owl,cat\na.png,1,0\n"


def test_names_and_the_most_labels_of_an_image(tmp_path):
    assert table(tmp_path, PLAIN).names == ["cat", "owl"] and table(tmp_path, PLAIN).most_labels == 1
    assert table(tmp_path, "path,label\na,x;y;z\nb,x\n", multi_label=True).most_labels == 3
    hot = table(tmp_path, HOT, columns=("path", ["owl", "cat"]), multi_label=True)
    assert hot.most_labels == MANY and hot.training() == ["cat", "owl"] and not hot.lists_classes


def test_the_labels_that_train_are_those_of_training_images(tmp_path):
    assert table(tmp_path, PLAIN).training() == ["cat", "owl"]
    assert table(tmp_path, FOLDS, is_divided=True).training() == ["cat", "owl"]


def test_numbers_of_each_label(tmp_path):
    found = table(tmp_path, PLAIN)
    assert found.numbers(["owl", "bat", "cat"], [], "x lacks", False).tolist() == [2, 0]
    with pytest.raises(
        InputError, match=r"t\.csv has the label 'owl' in row 1 \(a\.png\), which x lacks; 'owl' and 'Owl' differ"
    ):
        found.numbers(["cat", "Owl"], [], "x lacks", False)
    with pytest.raises(InputError, match=r"t\.csv has the label 'cat' in row 2 \(b\.png\), which x lacks$"):
        found.numbers(["owl"], [], "x lacks", True)


def test_numbers_in_text_are_places_where_a_class_map_names_the_classes(tmp_path):
    found = table(tmp_path, "path,label\na,1\nb,0\n")
    assert found.numbers(["owl", "cat"], None, "x lacks", False).tolist() == [0, 1]
    with pytest.raises(InputError, match=r"has the label '1' in row 1 \(a\), which x lacks"):
        found.numbers(["owl", "cat"], [], "x lacks", False)
    with pytest.raises(InputError, match="0 may be the name of a class or the place of 1"):
        found.numbers(["1", "0"], None, "x lacks", False)
    assert found.numbers(["1", "0"], [], "x lacks", False).tolist() == [1, 0]


def test_hidden_labels_of_test_images_alone(tmp_path):
    found = table(tmp_path, "path,label\na,-1\nb,cat\n")
    assert found.names == ["-1", "cat"]
    assert found.numbers(["cat"], [], "x lacks", True).tolist() == [IGNORE, 0]
    assert found.numbers(["cat", "-1"], [], "x lacks", True).tolist() == [1, 0]
    with pytest.raises(InputError, match="has the label '-1' in row 1"):
        found.numbers(["cat"], [], "x lacks", False)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_hidden_labels_of_a_divided_table(tmp_path, split):
    found = table(tmp_path, f"path,label,fold\na,cat,train\nb,-1,{split}\nc,-1,test\n", is_divided=True)
    if split == "test":
        assert found.numbers(["cat"], ["cat"], "x lacks", False).tolist() == [IGNORE, 0]
    else:
        with pytest.raises(InputError, match=r"has the label '-1' in row 2 \(b\), which x lacks"):
            found.numbers(["cat"], ["cat"], "x lacks", False)


def test_labels_that_no_image_has_need_no_class(tmp_path):
    hot = table(
        tmp_path, "path,owl,cat,emu\na,1,0,0\nb,0,0,1\n", columns=("path", ["owl", "cat", "emu"]), multi_label=True
    )
    assert hot.numbers(["owl", "emu"], [], "x lacks", False).tolist() == [-1, 1, 0]
    with pytest.raises(InputError, match=r"has the label 'emu' in row 2 \(b\)"):
        hot.numbers(["owl", "cat"], [], "x lacks", False)


def test_training_labels_that_are_counted_from_1(tmp_path):
    found = table(tmp_path, "path,label\na,2\nb,0\n")
    classes = ["0", "1", "2", "3"]
    with pytest.raises(InputError, match=r"the label '0' in row 2 \(b\), which x lacks; the numbers there begin at 1"):
        found.numbers(classes, ["1", "2", "3"], "x lacks", False)
    assert found.numbers(classes, ["0", "1"], "x lacks", False).tolist() == [0, 2]
    assert found.numbers(classes, None, "x lacks", False).tolist() == [0, 2]


def test_a_column_for_each_class_names_all_of_them_in_a_divided_table_too(tmp_path):
    text = "path,owl,cat,fold\na.png,1,0,train\nb.png,0,1,val\n"
    hot = table(tmp_path, text, is_divided=True, columns=("path", ["owl", "cat"]), multi_label=True)
    assert hot.training() == ["cat", "owl"]
