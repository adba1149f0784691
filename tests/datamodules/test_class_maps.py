"""One rule for class maps in all data sets of files: headers, names that look like lists, and two names for a class."""

import json
from pathlib import Path

import pytest

from datamodules.folder import ImageFolder
from tests.datamodules.test_folder import put
from tests.datamodules.test_labels import (
    READERS,
    picture,
    read,
    root,  # noqa: F401  # a fixture
    shown,
)
from vit_lightning.errors import InputError

AGES = ["(0, 2)", "(4, 6)", "(25, 32)"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("ending", ["txt", "json"])
def test_names_that_look_like_lists(root, reader, ending):  # noqa: F811
    """Adience calls ages so; a class map says that they are names."""
    with pytest.raises(InputError, match=r"if it is the name of a class, list all names in --data\.class_map"):
        read(root, reader, train=AGES)
    file = root / f"ages.{ending}"
    file.write_text("\n".join(AGES) if ending == "txt" else json.dumps(AGES))
    data = read(root, reader, train=AGES, val=["(4, 6)"], test=["(25, 32)"], class_map=file)
    assert data.class_names == AGES and shown(data, 3) == [{name} for name in AGES]
    assert (data.val_set[0][1], data.test_set[0][1]) == (1, 2)
    with pytest.raises(InputError, match=r"\(8, 12\)|\[8, 12\]"):
        read(root, reader, train=[*AGES, "(8, 12)"], class_map=file)


@pytest.mark.parametrize("text", ["['cat', 'dog']\n", '["cat"]', "{'cat': 0}", "('cat', 0)\n('dog', 1)", "(cat, dog)"])
def test_lists_of_names_are_no_names(root, text):  # noqa: F811
    (root / "names.txt").write_text(text)
    with pytest.raises(InputError, match="list or"):
        read(root, "csv", train=["cat", "dog"], class_map=root / "names.txt")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("header", ["labels", "name", "Class Names"])
def test_a_header_of_a_class_map(root, reader, header, caplog):  # noqa: F811
    (root / "names.txt").write_text(f"{header}\ndog\ncat\n")
    with caplog.at_level("INFO"):
        data = read(root, reader, train=["cat", "dog"], val=["dog"], class_map=root / "names.txt")
    assert data.class_names == ["dog", "cat"] and data.val_set[0][1] == 0
    assert f"the first line '{header}' of the class map is taken for a header" in caplog.text
    data = read(root, reader, train=["cat", "dog", header], val=["dog"], class_map=root / "names.txt")
    assert data.class_names == [header, "dog", "cat"] and data.val_set[0][1] == 1


@pytest.mark.parametrize("reader", READERS)
def test_a_header_of_places(root, reader):  # noqa: F811
    """A header above the names that numbers stand for would shift them all."""
    (root / "names.txt").write_text("labels\ndog\ncat\n")
    with pytest.raises(InputError, match=r"its first line 'labels' may be a header; remove it, or save a list"):
        read(root, reader, train=["0", "1"], class_map=root / "names.txt")


def synonyms(root: Path, ending: str) -> Path:  # noqa: F811
    file = root / f"synonyms.{ending}"
    file.write_text({"csv": "Fibrose,fibrosis\nNo finding,none\n", "json": '{"Fibrose": "fibrosis"}'}[ending])
    return file


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("ending", ["csv", "json"])
def test_two_names_of_a_class(root, reader, ending):  # noqa: F811
    labels = ["Fibrose", "healthy", "fibrosis"]
    file = synonyms(root, ending)
    data = read(root, reader, train=labels, val=["fibrosis"], test=["Fibrose", "healthy"], class_map=file)
    assert data.class_names == ["fibrosis", "healthy"]
    assert shown(data, 3) == [{"fibrosis"}, {"healthy"}, {"fibrosis"}]
    assert data.val_set[0][1] == 0 and [data.test_set[row][1] for row in range(2)] == [0, 1]
    with pytest.raises(InputError, match=r"the label 'Fibros'.*, which .*lacks"):
        read(root, reader, train=labels, val=["Fibros"], class_map=file)


@pytest.mark.parametrize("reader", READERS)
def test_two_spellings_of_a_class(root, reader):  # noqa: F811
    said = (
        r"'Cat' and 'cat' differ .*; write both alike, or give --data\.class_map: a \.csv with the line Cat,cat for one"
    )
    with pytest.raises(InputError, match=said):
        read(root, reader, train=["Cat", "cat", "dog"])
    (root / "one.csv").write_text("Cat,cat\n")
    data = read(root, reader, train=["Cat", "cat", "dog"], class_map=root / "one.csv")
    assert shown(data, 3) == [{"cat"}, {"cat"}, {"dog"}]


def test_two_folders_of_a_class(tmp_path):
    for name in ("Cat", "cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").write_bytes(picture(len(name)))
    with pytest.raises(
        InputError, match=r"rename one, or give --data\.class_map: a \.csv with the line Cat,cat for one"
    ):
        ImageFolder(root=tmp_path, image_size=8).setup("fit")
    (tmp_path / "one.csv").write_text("Cat,cat\n")
    data = ImageFolder(root=tmp_path, image_size=8, class_map=tmp_path / "one.csv", val_fraction=0, test_fraction=0)
    data.setup("fit")
    assert data.class_names == ["cat", "dog"] and data.train_set.labels.tolist() == [0, 0, 1]


@pytest.mark.parametrize("file", ["map.csv", "map.json", "map.tsv"])
@pytest.mark.parametrize("split", ["", "train"])
def test_folders_called_by_the_numbers_of_classes(tmp_path, file, split):
    for number in range(8):
        put(tmp_path / "set" / split / str(number % 2) / f"{number}.png", number)
    texts = {
        "map.csv": "0,dog\n1,cat\n",
        "map.json": '{"dog": 0, "cat": 1}',
        "map.tsv": "name\tlabel\ndog\t0\ncat\t1\n",
    }
    (tmp_path / file).write_text(texts[file])
    data = ImageFolder(root=tmp_path / "set", image_size=8, class_map=tmp_path / file)
    data.setup("fit")
    assert data.class_names == ["dog", "cat"]
    images = data.train_set.source
    assert [Path(str(key)).parent.name for key in images.keys] == list(map(str, images.labels.tolist()))


@pytest.mark.parametrize(("file", "text"), [("map.txt", "dog\ncat\n"), ("map.csv", "0,dog\n1,7\n2,cow\n")])
def test_folders_called_by_numbers_beside_names_that_say_none(tmp_path, file, text):
    for number in range(8):
        put(tmp_path / "set" / str(number % 2) / f"{number}.png", number)
    (tmp_path / file).write_text(text)
    data = ImageFolder(root=tmp_path / "set", image_size=8, class_map=tmp_path / file)
    said = "has numbers as labels, such as 0, and " if file == "map.txt" else "has the class folder '0'"
    with pytest.raises(InputError, match=said):
        data.setup("fit")
