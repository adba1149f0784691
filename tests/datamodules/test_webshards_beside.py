"""What lies beside the tars and files that train: tars of other splits, copies, and a second label of a sample."""

import json
import shutil

import pytest

from datamodules.parquet import Parquet
from datamodules.reading.remote_files import RemoteFile
from datamodules.reading.split_copies import shards_that_train
from datamodules.reading.tar_patterns import other_tars
from datamodules.shards import Shards
from datamodules.webshards import WebShards
from tests.datamodules.reading.test_split_copies import rows
from tests.datamodules.test_webshards import pack, picture
from vit_lightning.errors import InputError


def tar(file, samples: int = 5, **parts: object) -> None:
    """Write samples of the classes 0 and 1, with further files of theirs."""
    members = [
        (f"{file.stem}{number}.{ending}", data)
        for number in range(samples)
        for ending, data in (
            ("png", picture()),
            ("cls", str(number % 2).encode()),
            *((name, json.dumps(part).encode()) for name, part in parts.items()),
        )
    ]
    pack(file, members)


def read(root, **options) -> WebShards:
    data = WebShards(root=str(root), image_size=8, cache=root / "cache", **options)
    data.setup("fit")
    return data


@pytest.mark.parametrize("name", ["val-000.tar", "valid.tgz", "imagenet-val-0.tar"])
def test_tars_beside_those_that_train_are_named(tmp_path, name):
    tar(tmp_path / "train-000.tar")
    shutil.copy(tmp_path / "train-000.tar", tmp_path / name)
    (said,) = read(tmp_path).notices
    assert said.startswith(f"{tmp_path / name} is not read (1 such tars); give --data.val ")
    (tmp_path / name).rename(tmp_path / "extra-000.tar")
    assert read(tmp_path).notices == []


def test_tars_in_folders_of_splits_are_named(tmp_path):
    tar(tmp_path / "train" / "000.tar")
    tar(tmp_path / "test" / "000.tar")
    (said,) = read(tmp_path, train="train/*.tar").notices
    assert (
        said
        == f"{tmp_path}/test/000.tar is not read (1 such tars); give --data.test 'test/*.tar' if it holds test images"
    )
    assert read(tmp_path, train="train/*.tar", test="test/*.tar").notices == []
    assert other_tars("s3://x", ["s3://x/train-0.tar"], ["val"]) == []


def test_two_tars_that_are_copies(tmp_path):
    tar(tmp_path / "train-0.tar")
    tar(tmp_path / "train-1.tar")
    assert read(tmp_path).notices == []
    shutil.copy(tmp_path / "train-1.tar", tmp_path / "train-2.tar")
    with pytest.raises(
        InputError, match=r"train-2\.tar is a copy of .*train-1\.tar, and both train: images drawn from"
    ):
        read(tmp_path)
    (said,) = read(tmp_path, val_fraction=0.0).notices
    assert said.endswith("train-1.tar, and both train; take one of them away if their images are not to count twice")
    for name in ("train-1.tar", "train-2.tar"):
        pack(tmp_path / name, [])  # what a writer leaves for a part without samples
    assert read(tmp_path).notices == []


def test_two_files_of_parquet_that_are_copies(tmp_path):
    rows(tmp_path / "train-00000-of-00002.parquet", range(6))
    rows(tmp_path / "train-00001-of-00002.parquet", range(6, 12))
    Parquet(root=tmp_path, image_size=8).setup("fit")
    shutil.copy(tmp_path / "train-00000-of-00002.parquet", tmp_path / "train-00001-of-00002.parquet")
    with pytest.raises(InputError, match=r"00001-of-00002\.parquet is a copy of .*00000-of-00002\.parquet, and both"):
        Parquet(root=tmp_path, image_size=8).setup("fit")
    rows(tmp_path / "val.parquet", range(12, 15))
    data = Parquet(root=tmp_path, image_size=8)
    data.setup("fit")
    assert len(data.notices) == 1 and "and both train; take one" in data.notices[0]


@pytest.mark.parametrize(
    ("val", "test"), [("valid", "testing"), ("validation", "eval"), ("dev", "test"), ("val", "test")]
)
def test_folders_of_litdatas_shards(tmp_path, val, test):
    writer = pytest.importorskip("litdata.streaming.writer").BinaryWriter
    for folder, count in (("train", 6), (val, 4), (test, 2)):
        shards = writer(str(tmp_path / folder), chunk_size=2)
        for number in range(count):
            shards.add_item(number, (picture(), number % 2))
        shards.done()
        shards.merge()
    (tmp_path / "names.txt").write_text("a\nb\n")
    data = Shards(root=str(tmp_path), class_map=tmp_path / "names.txt", image_size=8)
    data.setup("fit")
    assert [len(data.train_set), len(data.val_set), len(data.test_set)] == [6, 4, 2]


def test_two_shards_of_one_checksum():
    one = RemoteFile("s3://x/train/chunk-0-0.bin", 9, "ab")
    other = RemoteFile("s3://x/train/chunk-0-1.bin", 9, "ab")
    with pytest.raises(InputError, match=r"chunk-0-1\.bin is a copy of .*chunk-0-0\.bin, and both train"):
        shards_that_train([one, other], True)
    assert shards_that_train([one, other._replace(sha256="cd")], True) is None


@pytest.mark.parametrize("field", [1, "1", [1], 1.0])
def test_two_labels_of_a_sample(tmp_path, field):
    tar(tmp_path / "train-0.tar", json={"label": field})
    with pytest.raises(InputError, match=r"sample train-00 has the class '0' in \.cls and .* in the field 'label' of"):
        read(tmp_path)
    assert len(read(tmp_path, label_part="cls").train_set) == 4


@pytest.mark.parametrize("content", [{"caption": "x"}, {"label": "cat"}, {"label": None}, {"label": {"id": 1}}, [1]])
def test_a_json_that_contradicts_no_class(tmp_path, content):
    tar(tmp_path / "train-0.tar", json=content)
    assert read(tmp_path).class_names == ["0", "1"]


def test_a_json_that_agrees(tmp_path):
    tar(tmp_path / "train-0.tar", samples=1, json={"label": 0.0})
    assert read(tmp_path, val_fraction=0.0).class_names == ["0"]
