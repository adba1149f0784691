"""Copies among several files, shards and tars: each is found, wherever it stands, and both are named."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from datamodules.reading import array_cache, split_copies
from datamodules.reading.remote_files import RemoteFile, RemoteFiles
from datamodules.reading.split_copies import (
    check_files,
    check_samples,
    check_shards,
    copies_that_train,
    shards_that_train,
)
from datamodules.reading.tar_parts import SampleForm
from datamodules.reading.webdataset import TarSamples, index_samples
from vit_lightning.errors import InputError


@pytest.fixture
def put(tmp_path):
    def put(**contents: bytes) -> list[Path]:
        for name, data in contents.items():
            (tmp_path / name).write_bytes(data)
        return [tmp_path / name for name in contents]

    return put


@pytest.fixture(autouse=True)
def short_ends(monkeypatch):
    """Files are compared by two bytes at either end first."""
    monkeypatch.setattr(split_copies, "EDGE", 2)


def test_a_copy_of_any_training_file_is_found_behind_others_that_look_alike(put):
    first, between, copy = put(a=b"xx1yy", b=b"xx2yy", c=b"xx1yy")
    said = f"{copy} is a copy of {first}, and both train; take one of them away if their images are not to count twice"
    assert copies_that_train([first, between, copy], is_drawn=False) == said
    with pytest.raises(InputError, match=r"c is a copy of .*a, and both train: images drawn from one for validation"):
        copies_that_train([first, between, copy], is_drawn=True)
    assert copies_that_train([first, between], is_drawn=True) is None


def test_files_in_which_nothing_stands_are_no_copies(put):
    files = put(a=b"", b=b"x", c=b"")
    assert copies_that_train(files, is_drawn=True) is None
    check_files({"train": files[:1], "val": files[2:]})


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_second_file_of_a_split_may_be_a_copy_of_the_second_that_trains(put, split):
    one, two, other, copy = put(a=b"xx1yy", b=b"xx2yy", c=b"xx3yy", d=b"xx2yy")
    splits = {"val": [], "test": [], "train": [one, two]} | {split: [other, copy]}
    with pytest.raises(InputError, match=rf"^{copy} holds {split} images and is a copy of {two}, whose images train"):
        check_files(splits)
    check_files({"val": [other], "test": [copy], "train": [one]})
    check_files({"val": [copy], "test": [two], "train": [one]})  # scored twice, trained never


def test_a_folder_stands_for_its_arrow_files(tmp_path):
    for name, data in {"train/0": b"1", "train/1": b"2", "val/0": b"3", "val/1": b"2"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.arrow").write_bytes(data)
    (tmp_path / "val/state.json").write_bytes(b"1")
    with pytest.raises(InputError, match=r"val/1\.arrow holds val images and is a copy of .*train/1\.arrow"):
        check_files({"train": [tmp_path / "train"], "val": [tmp_path / "val"]})
    (tmp_path / "val/1.arrow").unlink()
    check_files({"train": [tmp_path / "train"], "val": [tmp_path / "val"]})


def remote(name: str, digest: str | None) -> RemoteFile:
    return RemoteFile(f"s3://a/{name}", 5, digest)


def test_shards_that_train_twice_are_told_by_their_checksums(put):
    shards = [remote("0", "x"), remote("1", None), remote("2", "y"), remote("3", None), remote("4", "x")]
    said = shards_that_train(shards, is_drawn=False)
    assert said is not None and said.startswith("s3://a/4 is a copy of s3://a/0, and both train; ")
    with pytest.raises(InputError, match=r"s3://a/4 is a copy of s3://a/0, .* validation images of their own"):
        shards_that_train(shards, is_drawn=True)
    assert shards_that_train(shards[:4], is_drawn=True) is None
    assert shards_that_train([shards[0], shards[0]], is_drawn=True) is None  # one shard, named twice
    files = put(a=b"xx1yy", b=b"xx1yy")
    bare = [RemoteFile(str(file)) for file in files]
    assert "b is a copy of " in shards_that_train(bare, is_drawn=False)
    listed = [RemoteFile(str(file), 5, digest) for file, digest in zip(files, "xy", strict=True)]
    assert shards_that_train(listed, is_drawn=False) is None  # their checksums are asked, not their bytes


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_shard_that_is_scored_and_trains_is_told_by_its_checksum_or_its_bytes(put, split):
    training = [remote("0", "x"), remote("1", "y"), remote("2", None)]
    others = {"val": [remote("5", "v")], "test": [remote("6", "t"), remote("7", None)]}
    check_shards({"train": training, **others})
    copied = {"train": training, **others, split: [*others[split], remote("8", "y")]}
    with pytest.raises(InputError, match=f"^s3://a/8 holds {split} images and is a copy of s3://a/1, whose images tr"):
        check_shards(copied)
    check_shards({"train": training, **others, split: [training[1]]})  # by its address: it is meant to
    one, two, copy = (RemoteFile(str(file)) for file in put(a=b"xx1yy", b=b"xx2yy", c=b"xx2yy"))
    with pytest.raises(InputError, match=f"c holds {split} images and is a copy of .*b, whose images train"):
        check_shards({"train": [one, two], split: [copy]})
    check_shards({"train": [one, two], split: [two]})


def tars(folder: Path, *contents: Mapping[str, bytes], address: str = "") -> TarSamples:
    """Samples of tars, each of which holds these images by name."""
    folder.mkdir()
    files = []
    for number, images in enumerate(contents):
        with tarfile.open(folder / f"{number}.tar", "w") as tar:
            for key, image in images.items():
                for name, data in ((f"{key}.png", image), (f"{key}.cls", b"0")):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        files.append(RemoteFile(str(folder / f"{number}.tar")))
    found = RemoteFiles(files, folder / "kept")
    index_samples(found, folder / "index", SampleForm(), pytest.fail)
    return TarSamples(found, folder / "index", array_cache.load(folder / "index")["labels"], 1)


A, B, C, D, E = (letter.encode() * 9 for letter in "ABCDE")


def test_a_sample_of_any_tar_may_be_one_of_any_that_train(tmp_path):
    train = tars(tmp_path / "train", {"0": A, "1": B}, {"0": C, "1": D})
    other = tars(tmp_path / "val", {"0": E}, {"0": B, "1": D})
    with pytest.raises(InputError, match=r"val/1\.tar: sample 1 is a val image, and .*train/1\.tar has the same one"):
        check_samples(train, other, "val")
    check_samples(train, tars(tmp_path / "test", {"0": B, "1": A}, {"9": D}), "test")  # by other names
    check_samples(train, tars(tmp_path / "more", {"0": A + A, "1": E}), "test")


def test_an_image_that_its_training_tar_holds_again_is_no_sign_of_a_copy(tmp_path):
    black = tars(tmp_path / "val", {"0": A})
    check_samples(tars(tmp_path / "train", {"0": A, "1": A}), black, "val")
    with pytest.raises(InputError, match=r"train2/0\.tar has the same one"):  # what another tar holds does not matter
        check_samples(tars(tmp_path / "train2", {"0": A, "1": B}, {"7": A}), black, "val")


@pytest.mark.parametrize("looked_at", [1, 2, 3])
def test_samples_from_everywhere_in_each_tar_are_looked_at(tmp_path, monkeypatch, looked_at):
    """The first of each tar alone, the first and the last, and one between them."""
    monkeypatch.setattr(split_copies, "LOOKED_AT", 2 * looked_at)
    other = tars(tmp_path / "val", dict.fromkeys("abcde", A), dict.fromkeys("fg", A))
    expected = {1: [0, 5], 2: [0, 4, 5, 6], 3: [0, 2, 4, 5, 6]}[looked_at]
    assert split_copies._spread(other).tolist() == expected
    assert split_copies._spread(other).dtype == np.int64


def test_of_remote_tars_few_samples_are_read_and_none_where_a_pair_shares_but_one(tmp_path, monkeypatch):
    read: list[tuple[RemoteFiles, int]] = []
    train = tars(tmp_path / "train", {"0": A, "1": B}, {"0": C}, {"0": D, "1": E})
    other = tars(tmp_path / "val", {"0": B, "1": A})  # the same names and sizes, and other bytes
    plain = RemoteFiles.read
    noted = lambda files, tar, *part: read.append((files, tar)) or plain(files, tar, *part)  # noqa: E731
    monkeypatch.setattr(RemoteFiles, "read", noted)
    check_samples(train, other, "val")
    assert {tar for files, tar in read if files is train.files} == {0, 1, 2}
    for side in (train, other):
        read.clear()
        side.files.remote = True
        check_samples(train, other, "val")
        assert [tar for files, tar in read if files is train.files] == [0, 2]
        side.files.remote = False
    read.clear()
    monkeypatch.setattr(split_copies, "READ_FROM_AFAR", 1)
    train.files.remote = True
    check_samples(train, other, "val")
    assert [tar for files, tar in read if files is train.files] == [0]
