"""LitData's chunk format, against bytes written out by hand and against LitData itself."""

import hashlib
import json
import os
import struct
from contextlib import nullcontext

import numpy as np
import pytest

from vit_lightning.data import chunks
from vit_lightning.errors import InputError


def test_the_bytes_of_a_chunk(tmp_path):
    one = struct.pack("<3I", 3, 8, 1) + b"abc" + struct.pack("<q", 7) + b"k"
    many = struct.pack("<3I", 1, 8, 2) + b"d" + struct.pack("<2i", 0, 5) + "é".encode()
    assert chunks.item(b"abc", 7, "k") == one
    assert chunks.item(b"d", np.array([0, 5]), "é") == many
    digest = chunks.write(tmp_path / "chunk-0-0.bin", [one, many])
    start = 4 + 3 * 4
    expected = struct.pack("<4I", 2, start, start + len(one), start + len(one) + len(many)) + one + many
    assert (tmp_path / "chunk-0-0.bin").read_bytes() == expected
    assert digest == hashlib.sha256(expected).hexdigest()
    assert [path.name for path in tmp_path.iterdir()] == ["chunk-0-0.bin"]


def test_a_file_lies_on_the_disk_before_it_takes_the_place_of_another(tmp_path, monkeypatch):
    file, seen = tmp_path / "index.json", []
    file.write_bytes(b"old")

    def fsync(descriptor: int) -> None:
        part = next(path for path in tmp_path.iterdir() if path != file)
        assert os.fstat(descriptor).st_ino == part.stat().st_ino
        seen.append((file.read_bytes(), part.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    assert chunks.put(file, [b"ne", b"w"]) == hashlib.sha256(b"new").hexdigest()
    assert seen == [(b"old", b"new")] and file.read_bytes() == b"new" and list(tmp_path.iterdir()) == [file]


def test_a_shard_has_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "LARGEST", 30)
    with pytest.raises(InputError, match=r"2 images of 36 bytes together exceed the 4 GiB of a shard; give fewer"):
        chunks.write(tmp_path / "chunk-0-0.bin", [b"x" * 10] * 2)
    assert not list(tmp_path.iterdir())


def test_fields_come_back_and_nonsense_does_not():
    assert chunks.fields(chunks.item(b"abc", 7, "k"), 3) == [b"abc", struct.pack("<q", 7), b"k"]
    for data in (b"", b"\0" * 11, chunks.item(b"abc", 7, "k")[:-1], chunks.item(b"abc", 7, "k") + b"x"):
        with pytest.raises(ValueError, match="do not add up"):
            chunks.fields(data, 3)


@pytest.mark.parametrize("several", [False, True])
def test_litdata_reads_what_we_write(tmp_path, several):
    litdata = pytest.importorskip("litdata")
    labels = [np.array([1, 4]) if several else 4, np.array([0]) if several else 2]
    items = [chunks.item(bytes([number]) * 9, label, f"cat/{number}") for number, label in enumerate(labels)]
    entry = {"filename": "chunk-0-0.bin", "chunk_size": 2, "sha256": chunks.write(tmp_path / "chunk-0-0.bin", items)}
    entry["chunk_bytes"] = (tmp_path / "chunk-0-0.bin").stat().st_size
    chunks.put(tmp_path / chunks.INDEX, [chunks.index([entry], several).encode()])
    dataset = litdata.StreamingDataset(str(tmp_path))
    assert [(bytes(row["image"]), row["key"]) for row in dataset] == [(b"\0" * 9, "cat/0"), (b"\1" * 9, "cat/1")]
    assert [np.asarray(row["label"]).tolist() for row in dataset] == [np.asarray(label).tolist() for label in labels]


def test_other_layouts_are_named():
    config = json.loads(chunks.index([], several=False))["config"]
    layout = chunks.Layout.of(config)
    assert (layout.image, layout.label, layout.key, layout.several) == (0, 1, 2, False)
    assert chunks.Layout.of(config | {"data_format": ["int", "jpeg"]}) == chunks.Layout(("int", "jpeg"), 1, 0, None)
    with pytest.raises(ValueError, match="compressed"):
        chunks.Layout.of(config | {"compression": "zstd"})
    with pytest.raises(ValueError, match="records are of pil, int"):
        chunks.Layout.of(config | {"data_format": ["pil", "int"]})


@pytest.mark.parametrize("name", ["compression", "encryption", "ipc_compression"])
def test_what_is_packed_otherwise_is_refused(name):
    config = json.loads(chunks.index([], several=False))["config"]
    with pytest.raises(ValueError, match="it is compressed or encrypted"):
        chunks.Layout.of(config | {name: "zstd"})


@pytest.mark.parametrize(
    ("formats", "places"),
    [
        (["str", "int", "image:png"], (2, 1, 0)),
        (["image:jpg", "no_header_numpy:2"], (0, 1, None)),
        (["int", "bytes", "str", "str"], (1, 0, 2)),
        (["int", "int", "bytes"], None),
        (["int", "no_header_numpy:2", "bytes"], None),
        (["bytes", "jpeg", "int"], None),
        (["bytes", "str"], None),
        (["tensor", "int"], None),
    ],
)
def test_a_record_is_one_encoded_image_and_one_label(formats, places):
    if places is None:
        with pytest.raises(ValueError, match="not one encoded image and one class"):
            chunks.Layout.of({"data_format": formats})
        return
    layout = chunks.Layout.of({"data_format": formats})
    assert (layout.image, layout.label, layout.key) == places and layout.formats == tuple(formats)
    assert layout.several == (formats[layout.label] != "int")


def test_a_shard_may_be_as_large_as_its_places_can_say(tmp_path, monkeypatch):
    for most, fits in ((36, True), (35, False)):
        monkeypatch.setattr(chunks, "LARGEST", most)
        with nullcontext() if fits else pytest.raises(InputError, match="2 images of 36 bytes"):
            chunks.write(tmp_path / "chunk-0-0.bin", [b"x" * 10] * 2)


@pytest.mark.parametrize(("several", "label"), [(False, "int"), (True, "no_header_numpy:2")])
def test_an_index_says_all_that_litdata_asks_for(several, label):
    entries = [{"filename": f"{size}.bin", "chunk_size": size, "chunk_bytes": 10 * size} for size in (2, 5, 3)]
    found = json.loads(chunks.index(entries, several))
    assert found["chunks"] == [{"dim": None, **entry} for entry in entries]
    spec = json.loads(found["config"].pop("data_spec"))
    assert found["config"] == {
        "chunk_bytes": None,
        "chunk_size": 5,
        "compression": None,
        "data_format": ["bytes", label, "str"],
        "encryption": None,
        "item_loader": "PyTreeLoader",
    }
    leaf = {"type": None, "context": None, "children_spec": []}
    fields = '["image", "label", "key"]'
    assert spec == [1, {"type": "builtins.dict", "context": fields, "children_spec": [leaf] * 3}]
    assert json.loads(chunks.index([], several))["config"]["chunk_size"] == 0
