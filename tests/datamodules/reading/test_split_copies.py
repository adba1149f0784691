"""Copies of training images among those of other splits are refused, and chance likenesses are not."""

import io
import re
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from datamodules.reading import split_copies
from datamodules.reading.remote_files import RemoteFile
from datamodules.shards import Shards
from datamodules.webshards import WebShards
from vit_lightning.errors import InputError


def picture(seed: int, kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(data, kind)
    return data.getvalue()


def pack(file: Path, seeds: Sequence[int], first: int = 0, kind: str = "PNG", time: int = 0) -> None:
    """Write samples that are numbered from the first on."""
    with tarfile.open(file, "w") as tar:
        for number, seed in enumerate(seeds, start=first):
            for ending, data in ((kind.lower(), picture(seed, kind)), ("cls", str(seed % 2).encode())):
                info = tarfile.TarInfo(f"{number:06d}.{ending}")
                info.size, info.mtime = len(data), time
                tar.addfile(info, io.BytesIO(data))


def webshards(root: Path, **options) -> WebShards:
    return WebShards(root=str(root), cache=root / "cache", image_size=8, **options)


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_copy_of_a_training_tar(tmp_path, split):
    pack(tmp_path / "train-0.tar", range(6))
    pack(tmp_path / "train-1.tar", range(6, 12))
    shutil.copy(tmp_path / "train-1.tar", tmp_path / "other.tar")
    said = (
        f"other.tar: sample 000000 is a {split} image, and .*train-1.tar has the same one, which trains; leave one of"
    )
    with pytest.raises(InputError, match=said):
        webshards(tmp_path, **{split: "other.tar"}).setup("fit")


@pytest.mark.parametrize("seeds", [range(6), range(4, 14)], ids=["whole", "in part"])
def test_samples_that_are_packed_again(tmp_path, seeds):
    """Another time, other samples beside them, and one tar in place of two change nothing."""
    pack(tmp_path / "train-0.tar", range(6))
    pack(tmp_path / "train-1.tar", range(6, 12), first=6)
    pack(tmp_path / "test.tar", seeds, first=seeds[0], time=7)
    with pytest.raises(InputError, match=r"test.tar: sample 00000[06] is a test image, and .*train-[01].tar"):
        webshards(tmp_path, test="test.tar").setup("fit")


@pytest.mark.parametrize("kind", ["PNG", "BMP"])
def test_samples_that_are_numbered_anew_in_each_tar(tmp_path, kind):
    """Names alone are equal; those of BMP have equal sizes too."""
    for number, name in enumerate(("train-0", "train-1", "val", "test")):
        pack(tmp_path / f"{name}.tar", range(6 * number, 6 * number + 6), kind=kind)
    data = webshards(tmp_path, val="val.tar", test="test.tar")
    data.setup("fit")
    assert (len(data.train_set), len(data.val_set), len(data.test_set)) == (12, 6, 6)


def test_an_image_that_stands_many_times_is_no_sign_of_a_copy(tmp_path):
    """Black tiles have one name and one content in many tars."""
    for name, seeds in (("train", [1, 1, 2, 3]), ("test", [1, 4, 1, 5])):
        pack(tmp_path / f"{name}.tar", seeds)
    webshards(tmp_path, train="train.tar", test="test.tar").setup("fit")


@pytest.mark.parametrize("split", ["val", "test"])
def test_one_pattern_for_training_and_another_split(tmp_path, split):
    """Whoever means to score what trained says that nothing else does."""
    pack(tmp_path / "train-0.tar", range(6))
    pack(tmp_path / "scored.tar", range(6, 10))
    said = rf"train-0\.tar is a {split} tar and, as .*train-0\.tar, one that trains; .*run test with --data\.train null"
    with pytest.raises(InputError, match=said):
        webshards(tmp_path, **{split: "train*.tar"}).setup("fit")
    data = webshards(tmp_path, train=None, **{split: "train*.tar"})
    data.setup("test")
    assert len(getattr(data, f"{split}_set")) == 6
    data = webshards(tmp_path, val="scored.tar", test="scored.tar")
    data.setup("fit")
    assert len(data.val_set) == len(data.test_set) == 4


@pytest.mark.parametrize("split", ["val", "test"])
def test_one_table_for_training_and_another_split(tmp_path, split):
    for name, seeds in (("train", range(4)), ("scored", range(4, 6))):
        for seed in seeds:
            (tmp_path / f"{seed}.png").write_bytes(picture(seed))
        table = "".join(f"{seed}.png,c{seed % 2}\n" for seed in seeds)
        (tmp_path / f"{name}.csv").write_text(f"path,label\n{table}")
    (tmp_path / "link.csv").symlink_to("train.csv")
    options = {"root": tmp_path, "image_size": 8, "cache": tmp_path / "cache"}
    for table in ("train.csv", "link.csv"):
        said = rf"train\.csv is the table of train and of {split} images; .*run test with --data\.train null"
        with pytest.raises(InputError, match=said):
            Manifest(**options, **{split: Path(table)}).setup("fit")
    data = Manifest(**options, train=None, **{split: Path("train.csv")})
    data.setup("test")
    assert len(getattr(data, f"{split}_set")) == 4
    data = Manifest(**options, val=Path("scored.csv"), test=Path("scored.csv"))
    data.setup("fit")
    assert len(data.val_set) == len(data.test_set) == 2


def rows(file: Path, seeds: range) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    file.parent.mkdir(parents=True, exist_ok=True)
    images = pa.array([picture(seed) for seed in seeds])
    pq.write_table(pa.table({"image": images, "label": [f"c{seed % 2}" for seed in seeds]}), file)


@pytest.mark.parametrize("name", ["val/0.parquet", "test.parquet"])
def test_a_copy_of_a_training_parquet_file(tmp_path, name):
    rows(tmp_path / "train" / "0.parquet", range(6))
    rows(tmp_path / "train" / "1.parquet", range(6, 12))
    (tmp_path / name).parent.mkdir(exist_ok=True)
    shutil.copy(tmp_path / "train" / "1.parquet", tmp_path / name)
    said = f"{re.escape(name)} holds (val|test) images and is a copy of .*train/1.parquet, whose images train"
    with pytest.raises(InputError, match=said):
        Parquet(root=tmp_path, image_size=8).setup("fit")


def test_a_copy_of_what_save_to_disk_wrote(tmp_path):
    datasets = pytest.importorskip("datasets")
    one = datasets.Dataset.from_dict({"image": [picture(seed) for seed in range(6)], "label": [*"ababab"]})
    one.save_to_disk(str(tmp_path / "train"))
    shutil.copytree(tmp_path / "train", tmp_path / "test")
    with pytest.raises(InputError, match=r"test/.*arrow holds test images and is a copy of .*train/.*arrow"):
        Parquet(root=tmp_path, image_size=8).setup("fit")


def test_a_copy_of_a_shard(tmp_path):
    """Shards of prepare are told by their checksums, others by their bytes."""
    one = RemoteFile("s3://x/train/chunk-0-0.bin", 9, "ab")
    copy = one._replace(url="s3://x/test/chunk-0-0.bin")
    with pytest.raises(InputError, match=r"test/chunk-0-0.bin holds test images and is a copy of .*train/chunk-0-0"):
        split_copies.check_shards({"train": [one], "test": [copy]})
    split_copies.check_shards({"train": [one], "val": [one], "test": [copy._replace(sha256="cd")]})
    split_copies.check_shards({"val": [one], "test": [copy]})


def test_a_copy_of_litdatas_shards(tmp_path):
    writer = pytest.importorskip("litdata.streaming.writer").BinaryWriter(str(tmp_path / "train"), chunk_size=2)
    for number in range(4):
        writer.add_item(number, (picture(number), number % 2))
    writer.done()
    writer.merge()
    shutil.copytree(tmp_path / "train", tmp_path / "val")
    (tmp_path / "names.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match=r"val/chunk.*bin holds val images and is a copy of .*train/chunk"):
        Shards(root=str(tmp_path), class_map=tmp_path / "names.txt", image_size=8).setup("fit")


def test_files_of_one_size_with_other_bytes(tmp_path):
    """Files that differ at one place, at an end or in the middle, are no copies."""
    content = bytes(range(256)) * 64
    (tmp_path / "train.bin").write_bytes(content)
    for place in (0, len(content) // 2, len(content) - 1):
        (tmp_path / "test.bin").write_bytes(content[:place] + b"?" + content[place + 1 :])
        split_copies.check_files({"train": [tmp_path / "train.bin"], "test": [tmp_path / "test.bin"]})
    with pytest.raises(InputError, match="is a copy"):
        split_copies.check_files({"train": [tmp_path / "train.bin"], "test": [tmp_path / "train.bin"]})
