"""A file that stands twice, with two labels or in two splits, is an error that names both rows."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from tests.datamodules.test_labels import (
    manifest,
    picture,
    root,  # noqa: F401  # a fixture
    setup,
    shown,
)
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError


def test_a_path_that_leads_to_two_files(root):  # noqa: F811
    (root / "train").mkdir()
    (root / "train/0.png").write_bytes(picture(100))
    (root / "train/metadata.csv").write_text("file_name,label\n0.png,cat\n")
    with pytest.raises(
        (InputError, BrokenImage), match=r"0\.png may be .*set/train/0\.png or .*set/0\.png, which differ"
    ):
        manifest(root, "train/metadata.csv").train_set[0]
    (root / "0.png").write_bytes(picture(100))
    assert manifest(root, "train/metadata.csv").train_set[0][0] == root / "train/0.png"
    table = pa.table({"image": ["1.png"], "label": ["cat"]})
    parquet.write_table(table, root / "train/0000.parquet")
    (root / "train/1.png").write_bytes(picture(100))
    images = setup(Parquet(root=root, image_size=8, val_fraction=0.0)).train_set
    with pytest.raises(
        BrokenImage, match=r"1\.png may be .*set/train/1\.png or .*set/1\.png, which differ; remove one"
    ):
        images[0]


@pytest.mark.parametrize("reader", ["csv", "jsonl", "parquet table", "coco", "label studio"])
@pytest.mark.parametrize("again", ["0.png", "./0.png"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_a_file_that_stands_twice_with_two_labels(root, reader, again, multi_label):  # noqa: F811
    paths, labels = ["0.png", "1.png", again], ["cat", "dog", "owl"]
    said = r"lists 0\.png in row 1 \(cat\) and in row 3 \(owl\); keep one of the rows"
    with pytest.raises(InputError, match=said):
        manifest(root, write_table(root, reader, paths, labels), multi_label=multi_label)
    data = manifest(root, write_table(root, reader, paths, ["cat", "dog", "cat"]), multi_label=multi_label)
    assert shown(data, 3) == [{"cat"}, {"dog"}, {"cat"}]


def write_table(root: Path, reader: str, paths: list[str], labels: list[str], split: str = "train") -> str:  # noqa: F811
    """Write a table and return its name."""
    if reader == "csv":
        lines = [f"{path},{label}" for path, label in zip(paths, labels, strict=True)]
        (root / f"{split}.csv").write_text("\n".join(["path,label", *lines]))
        return f"{split}.csv"
    if reader == "parquet table":
        parquet.write_table(pa.table({"path": paths, "label": labels}), root / f"{split}.parquet")
        return f"{split}.parquet"
    rows = [{"path": path, "label": label} for path, label in zip(paths, labels, strict=True)]
    if reader == "jsonl":
        (root / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return f"{split}.jsonl"
    names = sorted(set(labels))
    if reader == "coco":
        content = {
            "images": [{"id": number, "file_name": path} for number, path in enumerate(paths)],
            "annotations": [
                {"id": number, "image_id": number, "category_id": names.index(label)}
                for number, label in enumerate(labels)
            ],
            "categories": [{"id": number, "name": name} for number, name in enumerate(names)],
        }
    else:
        content = [
            {"data": {"image": path}, "annotations": [{"result": [{"value": {"choices": [label]}}]}]}
            for path, label in zip(paths, labels, strict=True)
        ]
    (root / f"{split}.json").write_text(json.dumps(content))
    return f"{split}.json"


@pytest.mark.parametrize("reader", ["csv", "jsonl", "parquet table", "coco", "label studio"])
@pytest.mark.parametrize("split", ["val", "test"])
def test_a_file_in_the_tables_of_two_splits(root, reader, split):  # noqa: F811
    train = write_table(root, reader, ["0.png", "1.png", "2.png"], ["cat", "dog", "cat"])
    other = write_table(root, reader, ["3.png", "./2.png"], ["cat", "cat"], split)
    with pytest.raises(
        InputError, match=rf"train\.\w+ has in row 3 the train image 2\.png, which .*{split}\.\w+ has in row 2"
    ):
        manifest(root, train, **{split: other})
    with pytest.raises(InputError, match=r"train\.\w+ is the table of train and of val images; give each split a"):
        manifest(root, train, val=train)


def test_equal_paths_in_the_folders_of_two_splits_are_two_files(root):  # noqa: F811
    for split, shade in (("train", 7), ("val", 8)):
        (root / split).mkdir()
        (root / split / "a.png").write_bytes(picture(shade))
        (root / split / "metadata.csv").write_text("file_name,label\na.png,cat\n")
    data = manifest(root, "train/metadata.csv", val="val/metadata.csv")
    assert data.val_set[0][0] == root / "val/a.png"
    for split in ("train", "val"):
        (root / split / "metadata.csv").write_text("file_name,label\n1.png,cat\n")
    with pytest.raises(
        InputError, match=r"has in row 1 the train image 1\.png, which .*val/metadata\.csv has in row 1"
    ):
        manifest(root, "train/metadata.csv", val="val/metadata.csv")


def test_a_file_in_two_splits_of_one_table(root):  # noqa: F811
    (root / "train.csv").write_text("path,label,fold\n0.png,cat,train\n1.png,cat,train\n0.png,cat,test\n")
    said = r"lists 0\.png in row 1 \(cat, train\) and in row 3 \(cat, test\); keep one of the rows"
    with pytest.raises(InputError, match=said):
        manifest(root, split_column="fold")


def test_doctor_finds_a_file_with_two_labels(app, root):  # noqa: F811
    write_table(root, "csv", ["0.png", "1.png", "0.png"], ["cat", "dog", "dog"])
    words = ("--data", "Manifest", "--data.root", root, "--data.cache", root.parent / "cache", "--data.image_size", 8)
    words += ("--data.batch_size", 2, "--data.num_workers", 0)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and "lists 0.png in row 1 (cat) and in row 3 (dog)" in done.out + done.err
