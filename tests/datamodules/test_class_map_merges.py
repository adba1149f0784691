"""Class maps of labels called otherwise: what they merge is said with counts, and what they nearly name is an error."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.folder import ImageFolder
from datamodules.parquet import Parquet
from datamodules.shards import Shards
from tests.datamodules.test_folder import put
from tests.datamodules.test_labels import (
    READERS,
    picture,
    read,
    root,  # noqa: F401  # a fixture
    shown,
)
from vit_lightning.errors import InputError

PLACES = [reader for reader in READERS if reader not in ("csv", "WebShards cls")]
"""Readers that keep numbers as such."""


def folders(place: Path, *names: str, class_map: Path | None = None) -> ImageFolder:
    """Put as many images into each folder as its place says, from 2 on."""
    for number, name in enumerate(names, start=2):
        for image in range(number):
            put(place / name / f"{number}-{image}.png", 16 * number + image)
    data = ImageFolder(root=place, image_size=8, class_map=class_map, val_fraction=0, test_fraction=0)
    data.setup("fit")
    return data


@pytest.mark.parametrize("reader", READERS)
def test_merged_labels_are_said_with_counts(root, reader):  # noqa: F811
    (root / "map.csv").write_text("Fibrose,fibrosis\nscar,fibrosis\nNo finding,healthy\n")
    labels = ["Fibrose", "No finding", "fibrosis", "Fibrose", "scar", "other"]
    data = read(root, reader, train=labels, val=["scar"], test=["healthy"], class_map=root / "map.csv")
    assert data.class_names == ["fibrosis", "healthy", "other"]
    assert [min(names) for names in shown(data, 6)] == [
        "fibrosis",
        "healthy",
        "fibrosis",
        "fibrosis",
        "fibrosis",
        "other",
    ]
    assert [text for text in data.notices if not text.startswith("ignored: ")] == [
        f"--data.class_map {root / 'map.csv'} makes one class of several labels: "
        "'fibrosis' of 'Fibrose' (2) and 'fibrosis' (1) and 'scar' (1)"
    ]
    once = {"train": ["Fibrose", "No finding"], "val": ["scar"], "test": ["healthy"]}
    data = read(root, reader, **once, class_map=root / "map.csv")
    assert data.class_names == ["fibrosis", "healthy"]
    assert not [text for text in data.notices if not text.startswith("ignored: ")]


def test_merged_folders_are_said_with_counts(tmp_path):
    (tmp_path / "map.csv").write_text("n1,bird\nn2,bird\nn3,cat\n")
    data = folders(tmp_path / "set", "n1", "n2", "n3", class_map=tmp_path / "map.csv")
    assert data.class_names == ["bird", "cat"] and np.bincount(data.train_set.labels).tolist() == [5, 4]
    said = f"--data.class_map {tmp_path / 'map.csv'} makes one class of several labels: 'bird' of 'n1' (2) and 'n2' (3)"
    assert data.notices == [said]


MERGES = {
    "0,cat\n1,cat\n2,dog\n": "it has the name 'cat' twice; .*to make one class of two numbers",
    "0.0,cat\n1.0,cat\n2.0,dog\n": "it has the name 'cat' twice",
    "label,class\n0.0,cat\n1.0,cat\n2.0,dog\n": "it has the name 'cat' twice",
    "0,cat\n1,cat\nx,dog\n": "it gives the numbers 0 and 1 the name 'cat'; .*to make one class of two numbers",
    "0,cat\n0.0,dog\n1,owl\nx,y\n": "it has the folder '0' twice",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", MERGES)
def test_numbers_that_a_class_map_merges(root, reader, text):  # noqa: F811
    """Lists of classes have two of one name, as ImageNet's crane, which are two classes."""
    (root / "map.csv").write_text(text)
    labels = [0, 1, 2] if reader in PLACES else ["0", "1", "2"]
    with pytest.raises(InputError, match=rf"^--data\.class_map .*map\.csv cannot be read: {MERGES[text]}"):
        read(root, reader, train=labels, class_map=root / "map.csv")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", ["2.0,owl\n0.0,cat\n1.0,dog\n", "label,name\n0.0,cat\n2.0,owl\n1,dog\n"])
def test_numbers_that_pandas_wrote(root, reader, text):  # noqa: F811
    """A column of numbers that once had an empty cell has points."""
    (root / "map.csv").write_text(text)
    labels = [2, 0, 1] if reader in PLACES else ["2", "0", "1"]
    data = read(root, reader, train=labels, class_map=root / "map.csv")
    assert data.class_names == ["cat", "dog", "owl"] and shown(data, 3) == [{"owl"}, {"cat"}, {"dog"}]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("label", ["0", "0.0"])
def test_a_number_among_names_is_called_by_its_line(root, reader, label):  # noqa: F811
    (root / "map.csv").write_text("0.0,cat\nx,dog\n")
    data = read(root, reader, train=[label, "x", "dog"], class_map=root / "map.csv")
    assert data.class_names == ["cat", "dog"] and shown(data, 3) == [{"cat"}, {"dog"}, {"dog"}]


NEARLY = {
    "cat": "'cat' and 'Cat' differ in small and large letters alone",
    "No  finding": "'No  finding' and 'No finding' look alike, but their code points U+0020 U+0066 U+0069 ",
    "NO_FINDING": "'NO_FINDING' and 'No finding' differ in letters' sizes, blanks, underscores or hyphens alone",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("label", NEARLY)
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_labels_that_a_class_map_nearly_names(root, reader, label, split):  # noqa: F811
    """They would be classes of their own beside those that the map gives."""
    (root / "map.csv").write_text("Cat,feline\nNo finding,healthy\nDog,canine\n")
    splits = {"train": ["Dog", "Cat", "Dog"], "val": ["Cat"], "test": ["Cat"]}
    splits[split] = [*splits[split][:-1], label]
    place = {"train": "(row|sample) [23]", "val": "(row|sample) [01]", "test": "(row|sample) [01]"}[split]
    with pytest.raises(InputError) as told:
        read(root, reader, train=splits["train"], val=splits["val"], test=splits["test"], class_map=root / "map.csv")
    assert told.match(place) and told.match(rf"{split}\.\w+\b")
    assert f"which --data.class_map {root / 'map.csv'} lacks; {NEARLY[label]}" in str(told.value)


def test_folders_that_a_class_map_nearly_names(tmp_path):
    (tmp_path / "map.json").write_text('{"Cat": "feline", "Dog": "canine"}')
    said = r"set has the class folder 'cat', which --data\.class_map .*map\.json lacks; 'cat' and 'Cat' differ"
    with pytest.raises(InputError, match=said):
        folders(tmp_path / "set", "Dog", "cat", class_map=tmp_path / "map.json")


def test_classes_of_metadata_that_a_class_map_nearly_names(root):  # noqa: F811
    feature = {"info": {"features": {"label": {"names": ["cat", "Dog"], "_type": "ClassLabel"}}}}
    table = pa.table({"image": [picture(0), picture(1)], "label": [1, 1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(feature)})
    parquet.write_table(table, root / "train.parquet")
    (root / "map.csv").write_text("Cat,feline\nDog,canine\n")
    with pytest.raises(InputError, match=r"train\.parquet lists the class 'cat', which --data\.class_map .* lacks"):
        Parquet(root=root, image_size=8, class_map=root / "map.csv").setup("fit")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("file", "text"), [("map.txt", "none\ncat\ndog\n"), ("map.json", '["none", "cat", "dog"]')])
def test_labels_from_1_beside_a_background_class(root, reader, file, text):  # noqa: F811
    (root / file).write_text(text)
    labels = [1, 2, 1] if reader in PLACES else ["1", "2", "1"]
    with pytest.raises(InputError, match=r"has the labels 1 to 2 and no 0 in training, and .* lists 3 names: 1 may be"):
        read(root, reader, train=labels, class_map=root / file)
    (root / "map.csv").write_text("number,name\n1,cat\n0,none\n2,dog\n")
    data = read(root, reader, train=labels, class_map=root / "map.csv")
    assert shown(data, 3) == [{"cat"}, {"dog"}, {"cat"}]


def test_folders_from_1_beside_a_background_class(tmp_path):
    (tmp_path / "map.json").write_text('["none", "cat", "dog"]')
    with pytest.raises(InputError, match=r"set has the labels 1 to 2 and no 0 in training, and .* lists 3 names"):
        folders(tmp_path / "set", "1", "2", class_map=tmp_path / "map.json")
    (tmp_path / "map.csv").write_text("0,none\n1,cat\n2,dog\n")
    data = folders(tmp_path / "set", "1", "2", class_map=tmp_path / "map.csv")
    assert data.class_names == ["none", "cat", "dog"] and np.bincount(data.train_set.labels).tolist() == [0, 2, 3]


@pytest.mark.parametrize(("file", "text"), [("map.txt", "none\ncat\ndog\n"), ("map.json", '["none", "cat", "dog"]')])
def test_litdata_from_1_beside_a_background_class(tmp_path, file, text):
    writer = pytest.importorskip("litdata.streaming.writer").BinaryWriter(str(tmp_path / "set/train"), chunk_size=2)
    for number in range(4):
        writer.add_item(number, (picture(number), 1 + number % 2))
    writer.done()
    writer.merge()
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=r"set/train has the labels 1 to 2 and no 0 in training, and .* lists 3 names"):
        Shards(root=str(tmp_path / "set"), class_map=tmp_path / file, image_size=8).setup("fit")
    (tmp_path / "map.csv").write_text("0,none\n1,cat\n2,dog\n")
    data = Shards(root=str(tmp_path / "set"), class_map=tmp_path / "map.csv", image_size=8, val_fraction=0)
    data.setup("fit")
    assert [data.class_names[data.train_set[number][1]] for number in range(4)] == ["cat", "dog", "cat", "dog"]


FROM_1 = {
    "map.json": '{"2": "rose", "1": "pink", "3": "lily"}',
    "map.csv": "label,name\n1,pink\n3.0,lily\n2,rose\n",
    "map.tsv": "pink\t1\nrose\t2\nlily\t3\n",
    "other.json": '{"pink": 1, "rose": 2, "lily": 3}',
}
"""Names by numbers from 1, as the 102 flowers have them."""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("file", FROM_1)
def test_names_of_numbers_from_1(root, reader, file):  # noqa: F811
    (root / file).write_text(FROM_1[file])
    number = int if reader in PLACES else str
    labels = list(map(number, (3, 1, 2, 1)))
    data = read(root, reader, train=labels, val=labels[:1], test=labels[1:2], class_map=root / file)
    assert data.class_names == ["lily", "pink", "rose"]
    assert shown(data, 4) == [{"lily"}, {"pink"}, {"rose"}, {"pink"}]
    assert (data.val_set[0][1], data.test_set[0][1]) == (0, 1)
    for wrong in (0, 4):
        with pytest.raises(
            InputError, match=rf"the label '{wrong}'.*, which --data\.class_map .* lacks; it has \d, \d, \d"
        ):
            read(root, reader, train=[*labels, number(wrong)], class_map=root / file)


def test_folders_of_numbers_from_1(tmp_path):
    (tmp_path / "map.json").write_text(FROM_1["map.json"])
    data = folders(tmp_path / "set", "1", "2", "3", class_map=tmp_path / "map.json")
    found = {data.class_names[label]: count for label, count in enumerate(np.bincount(data.train_set.labels).tolist())}
    assert found == {"pink": 2, "rose": 3, "lily": 4}
    said = r"other has the class folder '0', which --data\.class_map .*map\.json lacks; it has 2, 1, 3"
    with pytest.raises(InputError, match=said):
        folders(tmp_path / "other", "0", "1", "2", class_map=tmp_path / "map.json")


def test_folders_of_padded_numbers(tmp_path):
    (tmp_path / "map.csv").write_text("00,pink\n01,rose\n10,lily\n")
    data = folders(tmp_path / "set", "00", "01", "10", class_map=tmp_path / "map.csv")
    assert data.class_names == ["pink", "rose", "lily"] and np.bincount(data.train_set.labels).tolist() == [2, 3, 4]
    (tmp_path / "map.csv").write_text("0,pink\n00,rose\n1,lily\n")
    with pytest.raises(InputError, match=r"map\.csv cannot be read: '0' and '00' are one number in two spellings"):
        folders(tmp_path / "set", class_map=tmp_path / "map.csv")


@pytest.mark.parametrize("text", ["n01,tench\nn02,shark\n", "feline,cat\ncanine,dog\n"])
@pytest.mark.parametrize("reader", READERS)
def test_a_class_map_of_other_labels(root, reader, text):  # noqa: F811
    """Its columns may be the wrong way round."""
    (root / "map.csv").write_text(text)
    data = read(root, reader, train=["dog", "cat"], class_map=root / "map.csv")
    has = ", ".join(line.partition(",")[0] for line in text.split())
    said = (
        f"--data.class_map {root / 'map.csv'} renames nothing: no label is called as one of those that it has, {has}; "
    )
    assert any(notice.startswith(f"{said}the data have ") for notice in data.notices)
    assert shown(data, 2) == [{"dog"}, {"cat"}]


def test_a_class_map_of_other_folders(tmp_path):
    (tmp_path / "map.csv").write_text("train/cat,feline\ntrain/dog,canine\n")
    data = folders(tmp_path / "set", "cat", "dog", class_map=tmp_path / "map.csv")
    assert len(data.notices) == 1 and "renames nothing: " in data.notices[0]
    assert data.notices[0].endswith(", train/cat, train/dog; the data have cat, dog")


@pytest.mark.parametrize("reader", READERS)
def test_columns_the_wrong_way_round_are_said(root, reader):  # noqa: F811
    (root / "map.csv").write_text("feline,cat\ncanine,dog\n")
    data = read(root, reader, train=["dog", "cat"], class_map=root / "map.csv")
    assert any(
        said.endswith("called as its classes: it may have its two columns the wrong way round") for said in data.notices
    )


@pytest.mark.parametrize("reader", READERS)
def test_a_line_that_names_no_label_is_said(root, reader):  # noqa: F811
    (root / "map.csv").write_text("kity,feline\ncat,feline\nhound,canine\n")
    data = read(root, reader, train=["dog", "cat", "kitty", "hound"], val=["hound"], class_map=root / "map.csv")
    (said,) = [text for text in data.notices if "stays a class of its own" in text]
    assert "map.csv has a line for 'kity', which no image has as its label, and none for 'kitty', which" in said
    assert said.endswith("(1 such lines, 2 such labels); correct the line if it is meant for this label")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("puppy,dog\nkitten,cat\n", ["dog", "cat", "puppy"]),  # a map for other sets as well
        ("puppy,canine\n", ["dog", "cat", "puppy"]),  # classes that need no line
        ("n01,tench\nn02,shark\nn03,ray\n", ["n01", "n02"]),
        ("1,tench\n2,shark\n3,ray\n", ["1", "2"]),
    ],
)
def test_maps_of_which_every_line_may_be_meant(tmp_path, text, labels):
    (tmp_path / "map.csv").write_text(text)
    notices = folders(tmp_path / "set", *labels, class_map=tmp_path / "map.csv").notices
    assert not [said for said in notices if "has a line for" in said or "renames nothing" in said]
