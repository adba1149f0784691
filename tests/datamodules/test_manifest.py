import io
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules.manifest import Manifest, WebScale
from vit_lightning.augment import Augment
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

ROWS = {
    "train": [(f"images/{number}.png", ("cat", "dog", "owl")[number % 3]) for number in range(8)],
    "val": [("images/8.png", "owl"), ("images/9.png", "cat")],
}


@pytest.fixture
def root(tmp_path) -> Path:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    for number in range(10):
        buffer = io.BytesIO()
        Image.new("RGB", (8, 8), (number, 0, 0)).save(buffer, "PNG")
        (folder / f"images/{number}.png").write_bytes(buffer.getvalue())
    return folder


def write(path: Path, rows, header=("path", "label")) -> None:
    if path.suffix == ".parquet":
        columns = dict(zip(header, (pa.array(list(column)) for column in zip(*rows, strict=True)), strict=True))
        parquet.write_table(pa.table(columns), path)
        return
    delimiter = "\t" if path.suffix == ".tsv" else ","
    path.write_text("\n".join(delimiter.join(row) for row in [header, *rows]) + "\n", encoding="utf-8-sig")


def manifest(root: Path, kind=Manifest, **options) -> Manifest:
    options = {"image_size": 8, "batch_size": 2, "num_workers": 0, "cache": root.parent / "cache", **options}
    return kind(root=root, augment=Augment(crop="none"), **options)


def ready(root: Path, **options) -> Manifest:
    data = manifest(root, **options)
    data.prepare_data()
    data.setup("fit")
    return data


def shown(images) -> list[tuple[str, int]]:
    return list(zip(images.keys, images.labels.tolist(), strict=True))


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_single_labels(root, ending):
    for split, rows in ROWS.items():
        write(root / f"{split}.{ending}", rows)
    options = {"train": f"train.{ending}", "val": f"val.{ending}", "test": f"val.{ending}"}
    data = ready(root, **options)
    assert data.class_names == ["cat", "dog", "owl"]
    assert shown(data.train_set) == [(path, ["cat", "dog", "owl"].index(name)) for path, name in ROWS["train"]]
    assert shown(data.val_set) == [("images/8.png", 2), ("images/9.png", 0)]
    assert [int(image[0, 0, 0]) for images, _ in data.val_dataloader() for image in images] == [8, 9]
    check_datamodule(manifest(root, **options))


@pytest.mark.parametrize("form", ["text", "text in parquet", "lists", "lists of numbers"])
def test_several_labels(root, form):
    names = [["b", "a"], [], ["c"], ["a", "b", "c"]]
    numbers = {"a": 0, "b": 1, "c": 2}
    cells = {
        "lists": names,
        "lists of numbers": [[numbers[name] for name in row] for row in names],
    }.get(form, [" ; ".join(row) for row in names])
    path = root / f"train.{'csv' if form == 'text' else 'parquet'}"
    write(path, [(f"images/{number}.png", cell) for number, cell in enumerate(cells)], ("path", "labels"))
    data = ready(root, kind=WebScale, train=path, val_fraction=0.0)
    assert data.class_names == (["0", "1", "2"] if form == "lists of numbers" else ["a", "b", "c"])
    vectors = [data.train_set[number][1].tolist() for number in range(4)]
    assert vectors == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1]]
    assert list(data.train_set.keys) == [f"images/{number}.png" for number in range(4)]
    check_datamodule(manifest(root, kind=WebScale, train=path, val_fraction=0.25, batch_size=1))


def test_whole_numbers_are_class_numbers(root):
    write(root / "train.csv", [("images/0.png", "10"), ("images/1.png", "2")])
    data = ready(root, val_fraction=0.0)
    assert data.num_classes == 11
    assert data.train_set.labels.tolist() == [10, 2]
    write(root / "train.csv", [("images/0.png", "20190101"), ("images/1.png", "2")])
    with pytest.raises(
        InputError,
        match=r"train\.csv has the label '20190101' in row 1 .*, which is no class below 1000000; give --data\.class",
    ):
        ready(root)


def test_class_map(root, tmp_path):
    write(root / "train.csv", ROWS["train"])
    path = tmp_path / "classes.txt"
    path.write_text("owl\nfox\ndog\ncat\n\n")
    data = manifest(root, class_map=path)
    assert data.num_classes == 4
    assert not (tmp_path / "cache").exists()  # nothing was read
    assert [label for _, label in shown(ready(root, class_map=path, val_fraction=0.0).train_set)][:3] == [3, 2, 0]
    write(root / "train.csv", [("images/0.png", "3"), ("images/1.png", "0")])
    assert ready(root, class_map=path, val_fraction=0.0).train_set.labels.tolist() == [3, 0]
    path.write_text("owl\ncat\n")
    write(root / "train.csv", ROWS["train"])
    with pytest.raises(InputError, match=r"train\.csv has the label 'dog' in row 2 \(images/1\.png\), which .*classes"):
        ready(root, class_map=path)
    with pytest.raises(InputError, match=r"class_map .*gone\.txt cannot be read: No such file"):
        manifest(root, class_map=tmp_path / "gone.txt").num_classes  # noqa: B018


def test_label_that_train_lacks(root):
    write(root / "train.csv", ROWS["train"])
    write(root / "val.csv", [("images/8.png", "cat"), ("images/9.png", "fox")])
    with pytest.raises(
        InputError, match=r"val\.csv has the label 'fox' in row 2 \(images/9\.png\), which .*train\.csv"
    ):
        ready(root, val="val.csv")


def test_labels_that_another_separator_would_split(root):
    write(root / "train.csv", [("images/1.png", "cat|dog"), ("images/2.png", "dog")])
    write(root / "val.csv", [("images/8.png", "cat")])
    with pytest.raises(
        InputError, match=r"'cat\|dog' in row 1 .*, whose parts other labels .* --data\.separator '\|' if"
    ):
        ready(root, val="val.csv", multi_label=True)
    write(root / "train.csv", [("images/1.png", "cat|dog"), ("images/2.png", "owl")])
    with pytest.raises(InputError, match=r"train\.csv lacks; labels are split at --data\.separator ';'"):
        ready(root, val="val.csv", multi_label=True)


def test_without_val_a_part_is_held_out(root):
    write(root / "train.csv", ROWS["train"])
    data, again = ready(root, val_fraction=0.25), ready(root, val_fraction=0.25)
    assert (len(data.train_set), len(data.val_set)) == (6, 2)
    assert shown(data.val_set) == shown(again.val_set)


def test_changed_table_is_read_again(root):
    write(root / "train.csv", ROWS["train"])
    assert ready(root, val_fraction=0.0).train_set.labels.tolist()[:2] == [0, 1]
    write(root / "train.csv", [(path, {"cat": "zebra"}.get(name, name)) for path, name in ROWS["train"]])
    data = ready(root, val_fraction=0.0)
    assert data.class_names == ["dog", "owl", "zebra"]
    assert data.train_set.labels.tolist()[:2] == [2, 0]


def test_labels_are_those_of_their_rows_in_whatever_order_classes_first_come(root):
    """Three classes in a turn: a permutation of two is its own inverse, and hides which way it is applied."""
    write(root / "train.csv", [(f"images/{row}.png", name) for row, name in enumerate(("owl", "cat", "dog", "cat"))])
    data = ready(root, val_fraction=0.0)
    assert data.class_names == ["cat", "dog", "owl"]
    assert data.train_set.labels.tolist() == [2, 0, 1, 0]
    several = ready(root, val_fraction=0.0, multi_label=True)
    assert [several.train_set[row][1].tolist() for row in range(3)] == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("options", "keys", "names"),
    [
        ({"image_prefix": "images/", "image_folder": "images"}, ["0.png", "1.png"], ["a b", "c"]),
        ({"image_ending": ".jpg"}, ["images/0.png.jpg", "images/1.png.jpg"], ["a b", "c"]),
        ({"path_column": "other"}, ["images/2.png", "images/3.png"], ["a b", "c"]),
        ({"label_column": "kind"}, ["images/0.png", "images/1.png"], ["x", "y"]),
        ({"multi_label": True, "separator": " "}, ["images/0.png", "images/1.png"], ["a", "b", "c"]),
    ],
)
def test_a_table_that_was_kept_is_read_again_for_other_options(root, options, keys, names):
    rows = [("images/0.png", "a b", "images/2.png", "x"), ("images/1.png", "c", "images/3.png", "y")]
    write(root / "train.csv", rows, ("path", "label", "other", "kind"))
    first = ready(root, val_fraction=0.0)
    assert (list(first.train_set.keys), first.class_names) == (["images/0.png", "images/1.png"], ["a b", "c"])
    data = manifest(root, val_fraction=0.0, **options)
    data.faults = []  # a wrong ending leads to no file, which is no matter here
    data.setup("fit")
    assert (list(data.train_set.keys), data.class_names) == (keys, names)


def test_set_is_small_when_pickled(root):
    write(root / "train.csv", ROWS["train"] * 1000)
    images = ready(root, val_fraction=0.0).train_set
    assert len(pickle.dumps(images.keys)) < 1000
    again = pickle.loads(pickle.dumps(images))
    assert again[7999] == images[7999] == (root / "images/7.png", 1)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([], ("path", "label"), r"train\.csv has 0 rows and no label in any"),
        ([("a.png", "cat")], ("file", "label"), r"no column 'path' but file, label; give --data\.path_column"),
        ([("a.png", "cat")], ("path", "class"), r"no column 'label' but path, class; give --data\.label_column"),
        ([("a.png", "cat"), ("", "cat")], ("path", "label"), r"no path in row 2"),
        ([("a.png", "")], ("path", "label"), r"0 labels in row 1 \(a\.png\), expected one; give --data\.multi_label"),
        ([("a.png",)], ("path", "label"), r"0 labels in row 1"),
    ],
)
def test_wrong_tables(root, rows, header, message):
    write(root / "train.csv", rows, header)
    with pytest.raises(InputError, match=message):
        ready(root)


def test_missing_files(root):
    with pytest.raises(InputError, match=r"train\.csv is missing; give --data\.root and --data\.train"):
        manifest(root).num_classes  # noqa: B018
    (root / "train.txt").write_text("path,label\n")
    with pytest.raises(InputError, match=r"train\.txt must end in \.csv, \.tsv or \.parquet"):
        ready(root, train="train.txt")
    write(root / "train.csv", [("images/0.png", "cat"), ("images/gone.png", "dog")])
    with pytest.raises(BrokenImage, match=r"row 2 of its table: No such file as images/gone\.png in"):
        list(ready(root, val_fraction=0.0, batch_size=1).train_dataloader())


NUMBERS = ["0", "2", "10"]


@pytest.mark.parametrize("train", ["{}", "{}.0", "{}."])
@pytest.mark.parametrize("val", ["{}", "{}.0"])
def test_whole_numbers_are_the_same_classes_however_they_are_written(root, train, val):
    write(root / "train.csv", [(f"images/{row}.png", train.format(number)) for row, number in enumerate(NUMBERS)])
    write(root / "val.csv", [(f"images/{5 + row}.png", val.format(number)) for row, number in enumerate(NUMBERS)])
    data = ready(root, val="val.csv")
    assert data.class_names == [str(number) for number in range(11)]
    assert data.train_set.labels.tolist() == data.val_set.labels.tolist() == [0, 2, 10]


@pytest.mark.parametrize(
    ("train", "val", "message"),
    [
        (
            ["cat", "dog"],
            ["cat", "0"],
            r"val\.csv has the label '0' in row 2 \(images/1\.png\), which .* lacks",
        ),
        (["cat", "dog"], ["1.0", "0.0"], r"val\.csv has the label '1\.0' in row 1 .* lacks"),
        (["0", "1"], ["0", "2"], r"val\.csv has the label '2' in row 2 .* lacks"),
        (
            ["0", "0.5"],
            ["0", "0"],
            r"train\.csv has the label '0\.5' in row 2 .*, expected names or whole numbers",
        ),
        (
            ['"[""cat"", ""dog""]"', "dog"],
            ["dog", "dog"],
            r"the list \['cat', 'dog'\] as a label; .*row 1",
        ),
        (
            ["\"['cat']\"", "dog"],
            ["dog", "dog"],
            r"the list \['cat'\] as a label; give --data\.multi_label",
        ),
        (['"{""a"": 1}"', "dog"], ["dog", "dog"], r"train\.csv has the label \{'a': 1\}, expected a name .* in row 1"),
    ],
)
def test_labels_that_cannot_be_matched(root, train, val, message):
    for split, labels in (("train", train), ("val", val)):
        write(root / f"{split}.csv", [(f"images/{row}.png", label) for row, label in enumerate(labels)])
    with pytest.raises(InputError, match=message):
        ready(root, val="val.csv")


def test_test_images_without_labels(root):
    write(root / "train.csv", ROWS["train"])
    write(root / "test.csv", [("images/1.png",), ("images/2.png",)], ("path",))
    data = ready(root, test="test.csv")
    assert shown(data.test_set) == [("images/1.png", IGNORE), ("images/2.png", IGNORE)]
    with pytest.raises(InputError, match=r"test\.csv has no column of labels, which test needs"):
        data.setup("test")


def test_class_map_in_json(root, tmp_path):
    write(root / "train.csv", ROWS["train"])
    path = tmp_path / "classes.json"
    for content in (["owl", "dog", "cat"], {"dog": 1, "owl": 0, "cat": 2}, {"2": "cat", "0": "owl", "1": "dog"}):
        path.write_text(json.dumps(content))
        assert ready(root, class_map=path, val_fraction=0.0).class_names == ["owl", "dog", "cat"]
    for content in ({"cat": 0, "dog": 0}, [1, 2], "cat"):
        path.write_text(json.dumps(content))
        with pytest.raises(InputError, match=r"classes\.json cannot be read: expected"):
            manifest(root, class_map=path).num_classes  # noqa: B018


@pytest.mark.parametrize("labels", [["0.0", "1.0"], ['"[""cat""]"', "cat"], ["cat", "fox"]])
def test_doctor_finds_labels_that_cannot_be_matched(app, root, labels):
    write(root / "train.csv", ROWS["train"])
    write(root / "val.csv", [(f"images/{row}.png", label) for row, label in enumerate(labels)])
    words = ("--data", "Manifest", "--data.root", root, "--data.val", "val.csv", "--data.image_size", 8)
    words += ("--data.cache", root.parent / "cache", "--data.batch_size", 2, "--data.num_workers", 0)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and f"error    {root}/val.csv has the" in done.out


def test_classes_of_another_table_are_matched_by_name_in_whatever_order_they_come(root):
    write(root / "train.csv", [(f"images/{row}.png", name) for row, name in enumerate(("owl", "cat", "dog", "elk"))])
    write(
        root / "val.csv",
        [(f"images/{5 + row}.png", name) for row, name in enumerate(("elk", "dog", "owl", "cat", "dog"))],
    )
    data = ready(root, val="val.csv")
    assert data.class_names == ["cat", "dog", "elk", "owl"]
    assert data.train_set.labels.tolist() == [3, 0, 1, 2] and data.val_set.labels.tolist() == [2, 1, 3, 0, 1]
    (root / "map.txt").write_text("elk\nowl\ncat\ndog\n")
    data = ready(root, val="val.csv", class_map=root / "map.txt")
    assert data.train_set.labels.tolist() == [1, 2, 3, 0] and data.val_set.labels.tolist() == [0, 3, 1, 2, 3]


@pytest.mark.parametrize("several", [False, True])
def test_the_row_of_an_unknown_label_is_counted_from_1(root, several):
    write(root / "train.csv", [(f"images/{row}.png", name) for row, name in enumerate(("owl", "cat", "dog"))])
    rows = ["owl", "cat;dog" if several else "cat", "yak", "yak"]
    write(root / "val.csv", [(f"images/{row}.png", name) for row, name in enumerate(rows)])
    with pytest.raises(
        InputError, match=r"val.csv has the label 'yak' in row 3 \(images/2.png\), which \S*train.csv lac"
    ):
        ready(root, val="val.csv", multi_label=several)


def test_a_test_table_may_lack_labels(root):
    write(root / "train.csv", ROWS["train"], ("path", "kind"))
    write(root / "bare.csv", [(path,) for path, _ in ROWS["train"]], ("path",))
    data = manifest(root, label_column="kind", test="bare.csv", val_fraction=0.0)
    data.setup("fit")
    assert set(data.test_set.labels.tolist()) == {IGNORE} and len(data.test_set) == 8
    with pytest.raises(InputError, match=r"bare.csv has no column of labels, which test needs"):
        data.setup("test")


def test_a_table_that_was_kept_is_read_again_for_each_column_that_divides_it(root):
    rows = [(f"images/{row}.png", "ab"[row % 2], ("train", "val")[row // 6], f"p{row // 2}") for row in range(8)]
    write(root / "train.csv", rows, ("path", "label", "part", "patient"))
    files = {
        str(options): manifest(root, **options)._file("train")
        for options in ({}, {"split_column": "part"}, {"group_column": "patient"}, {"group_column": "part"})
    }
    assert len(set(files.values())) == 4
