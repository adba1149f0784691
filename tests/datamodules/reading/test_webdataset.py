"""Samples of tars by number, against the tars' own members."""

import io
import json
import pickle
import tarfile

import numpy as np
import pytest
import torch

from datamodules.reading import array_cache
from datamodules.reading.remote_files import MissingFile, RemoteFile, RemoteFiles
from datamodules.reading.shared_sequences import Ragged
from datamodules.reading.tar_parts import SampleForm
from datamodules.reading.webdataset import TarSamples, index_samples
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError


def pack(file, members) -> None:
    with tarfile.open(file, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def sample(key: str, label: str) -> list[tuple[str, bytes]]:
    return [(f"{key}.png", key.encode() * 100), (f"{key}.cls", label.encode())]


TARS = [
    [*sample("a", "owl"), *sample("b", "cat"), *sample("c", "owl")],
    [*sample("d", "bat")],
    [*sample("e", "cat"), *sample("f", "bat")],
]


def indexed(folder, tars=TARS, form=None, reports=None):
    for number, members in enumerate(tars):
        pack(folder / f"{number}.tar", members)
    files = RemoteFiles([RemoteFile(str(folder / f"{number}.tar")) for number in range(len(tars))], folder / "kept")
    faults = [] if reports is None else reports
    index_samples(files, folder / "index.safetensors", form or SampleForm(), faults.append)
    return files, folder / "index.safetensors"


def test_what_is_written_down_of_tars(tmp_path):
    _, file = indexed(tmp_path)
    arrays = array_cache.load(file)
    assert list(array_cache.MappedStrings(file, "keys")) == list("abcdef")
    assert list(array_cache.MappedStrings(file, "names")) == ["owl", "cat", "bat"]
    assert arrays["labels"].tolist() == [0, 1, 0, 2, 1, 2] and arrays["tars"].tolist() == [0, 0, 0, 1, 2, 2]
    assert arrays["lengths"].tolist() == [(tmp_path / f"{number}.tar").stat().st_size for number in range(3)]
    assert arrays["sizes"].tolist() == [100] * 6
    for place, tar, key in zip(arrays["places"], arrays["tars"], "abcdef", strict=True):
        assert (tmp_path / f"{tar}.tar").read_bytes()[place : place + 100] == key.encode() * 100


def test_samples_are_read_by_their_number(tmp_path):
    files, file = indexed(tmp_path)
    found = TarSamples(files, file, array_cache.load(file)["labels"], 3)
    for each in (found, pickle.loads(pickle.dumps(found))):
        assert len(each) == 6 and list(each.keys) == list("abcdef")
        assert [each[n] for n in range(6)] == [
            (k.encode() * 100, c) for k, c in zip("abcdef", (0, 1, 0, 2, 1, 2), strict=True)
        ]
        assert each.labels.tolist() == [0, 1, 0, 2, 1, 2] and not hasattr(each, "blocks")


def test_several_classes_are_a_vector(tmp_path):
    members = [
        (f"{key}.{end}", data)
        for key, some in (("a", [2, 0]), ("b", []), ("c", [1]))
        for end, data in (("png", b"x"), ("json", json.dumps({"label": [f"n{each}" for each in some]}).encode()))
    ]
    files, file = indexed(tmp_path, [members], SampleForm(multi_label=True))
    arrays = array_cache.load(file)
    assert arrays["labels.values"].tolist() == [0, 1, 2] and arrays["labels.ends"].tolist() == [0, 2, 2, 3]
    rows = Ragged(np.array([2, 0, 1]), np.array([0, 2, 2, 3]))
    found = TarSamples(files, file, rows, 4)
    assert [found[n][1].tolist() for n in range(3)] == [[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert found[0][1].dtype == torch.float32 and not hasattr(found, "labels")


def test_a_tar_that_ends_before_a_sample(tmp_path):
    files, file = indexed(tmp_path)
    found = TarSamples(files, file, array_cache.load(file)["labels"], 3)
    end = int(found.places[1]) + 99
    with (tmp_path / "0.tar").open("r+b") as opened:
        opened.truncate(end)
    with pytest.raises(BrokenImage, match=r"^b: .*0\.tar ends before it"):
        found[1]
    assert found[0][1] == 0
    found.sizes = np.array([2**40] * 6)
    with pytest.raises(BrokenImage, match=r"^a: "):
        found[0]


def test_what_comes_before_the_damage_of_a_tar_is_kept(tmp_path):
    reports: list[InputError] = []
    damaged = [*sample("a", "owl"), *sample("b", "cat"), ("c.png", b"x"), ("c.cls", b"\xff\xfe"), *sample("g", "owl")]
    _, file = indexed(tmp_path, [damaged, TARS[1]], reports=reports)
    assert list(array_cache.MappedStrings(file, "keys"))[:2] == ["a", "b"]
    assert list(array_cache.MappedStrings(file, "keys"))[-1] == "d"
    arrays = array_cache.load(file)
    assert arrays["tars"].tolist() == [0] * (len(arrays["tars"]) - 1) + [1]
    assert len(reports) == 1 and "0.tar" in str(reports[0])


def test_a_missing_tar_ends_it(tmp_path):
    files = RemoteFiles([RemoteFile(str(tmp_path / "nowhere.tar"))], tmp_path / "kept")
    with pytest.raises(MissingFile):
        index_samples(files, tmp_path / "x.safetensors", SampleForm(), pytest.fail)
    assert not (tmp_path / "x.safetensors").exists()


def test_tars_are_fetched_four_ahead_and_those_of_samples_that_come_soon(tmp_path, monkeypatch):
    asked: list[list[int]] = []
    monkeypatch.setattr(RemoteFiles, "announce", lambda self, numbers: asked.append(list(numbers)))
    files, file = indexed(tmp_path, [sample(key, "x") for key in "abcdef"])
    assert asked == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5], [4, 5], [5]]
    asked.clear()
    TarSamples(files, file, np.zeros(6, int), 1).announce(np.array([5, 0, 5, 2]))
    assert asked == [[5, 0, 2]]


def test_remote_samples_are_drawn_in_blocks_of_a_tar(tmp_path):
    _, file = indexed(tmp_path)
    remote = RemoteFiles([RemoteFile(f"http://x/{number}.tar") for number in range(3)], tmp_path)
    assert TarSamples(remote, file, np.zeros(6, int), 1).blocks.tolist() == [0, 0, 0, 1, 2, 2]
