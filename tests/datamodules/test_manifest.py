import io
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from datamodules.manifest import Manifest, WebScale
from vit_lightning.augment import Augment
from vit_lightning.data.images import BrokenImage
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
        InputError, match=r"train\.csv has the label 20190101, which is no class below 1000000; give --data\.class_map"
    ):
        ready(root)


def test_class_map(root, tmp_path):
    write(root / "train.csv", ROWS["train"])
    path = tmp_path / "classes.txt"
    path.write_text("owl\nfox\n\ndog\ncat\n")
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
    with pytest.raises(BrokenImage, match=r"images/gone\.png: No such file"):
        list(ready(root, val_fraction=0.0, batch_size=1).train_dataloader())
