"""A flag of a split that changes nothing is named, with what states the split in its place."""

from pathlib import Path

import pytest
from PIL import Image

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest


def photos(root: Path, *splits: str) -> Path:
    for split in splits or ("",):
        for name in ("cat", "dog"):
            (root / split / name).mkdir(parents=True)
            for number in range(10):
                colour = (number, len(split), len(name) * 20)
                Image.new("RGB", (8, 8), colour).save(root / split / name / f"{split}{name}{number}.png")
    return root


def said(data: ImageFolder | Manifest) -> list[str]:
    data.prepare_data()
    data.setup("fit")
    return [text for text in data.notices if text.startswith("ignored")]


@pytest.mark.parametrize(
    ("splits", "flags", "expected"),
    [
        ((), {"val_fraction": 0.2, "test_fraction": 0.2, "split_seed": 3}, []),
        (("train", "val"), {"val_fraction": 0.2}, ["ignored: --data.val_fraction 0.2, since {} has validation images"]),
        (("train", "val"), {"test_fraction": 0.2, "split_seed": 3}, []),
        (
            ("train", "val", "test"),
            {"test_fraction": 0.2, "split_seed": 3},
            [
                "ignored: --data.test_fraction 0.2, since {} has test images of its own",
                "ignored: --data.split_seed 3, since no split is drawn",
            ],
        ),
        (("train",), {"split_seed": 3}, ["ignored: --data.split_seed 3, since the validation images are held out in"]),
        (("train",), {"val_fraction": 0.3}, []),
        (("train", "val", "test"), {}, []),
    ],
)
def test_folders(tmp_path, splits, flags, expected):
    data = ImageFolder(photos(tmp_path, *splits), image_size=8, batch_size=2, num_workers=0, **flags)
    found = said(data)
    assert len(found) == len(expected), found
    assert all(text.startswith(one.format(tmp_path)) for text, one in zip(found, expected, strict=True))


@pytest.mark.parametrize("flags", [{"split_seed": 3}, {"val_fraction": 0.2}, {"test_fraction": 0.2, "split_seed": 0}])
def test_beside_a_table_of_splits(tmp_path, flags):
    photos(tmp_path / "photos")
    rows = [f"{name}/{name}{n}.png,{'val' if n < 2 else 'train'}" for name in ("cat", "dog") for n in range(10)]
    table = tmp_path / "split.csv"
    table.write_text("\n".join(["file,split", *rows]))
    data = ImageFolder(tmp_path / "photos", image_size=8, batch_size=2, num_workers=0, split_file=table, **flags)
    named = " and ".join(f"--data.{name} {value}" for name, value in flags.items())
    assert said(data) == [f"ignored: {named}, since --data.split_file {table} states the split"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"split_column": "fold", "val_fraction": 0.2}, "--data.val_fraction 0.2, since {} has validation images"),
        (
            {"split_column": "fold", "split_file": "split.csv"},
            "--data.split_file {}/split.csv, since the column fold states",
        ),
        ({"val": "val.csv", "val_fraction": 0.5}, "--data.val_fraction 0.5, since {} has validation images"),
        ({"split_seed": 2}, "--data.split_seed 2, since the validation images are held out in a fixed order"),
        ({"split_seed": 2, "test_fraction": 0.2}, None),
    ],
)
def test_tables(tmp_path, flags, expected):
    photos(tmp_path)
    rows = [(f"{name}/{name}{n}.png", name, n) for name in ("cat", "dog") for n in range(10)]
    listed = [f"{path},{name},{'val' if n < 2 else 'train'}" for path, name, n in rows]
    with_fold = "fold" in str(flags.get("split_column"))
    lines = listed if with_fold else [line.rpartition(",")[0] for line, row in zip(listed, rows, strict=True) if row[2]]
    (tmp_path / "train.csv").write_text("\n".join(["path,label" + ",fold" * with_fold, *lines]))
    (tmp_path / "val.csv").write_text("path,label\ncat/cat0.png,cat\ndog/dog0.png,dog")
    (tmp_path / "split.csv").write_text(
        "\n".join(["file,split", *(f"{one[0]},{'val' if one[2] < 3 else 'train'}" for one in rows)])
    )
    if "split_file" in flags:
        flags = flags | {"split_file": tmp_path / "split.csv"}
    usual = {"cache": tmp_path / "cache", "image_size": 8, "batch_size": 2, "num_workers": 0}
    found = said(Manifest(tmp_path, **usual | flags))
    assert len(found) == (expected is not None), found
    assert expected is None or found[0].startswith(f"ignored: {expected.format(tmp_path)}")
