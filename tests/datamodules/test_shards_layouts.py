"""Shards that LitData and others write, and shards whose side files are damaged."""

import io
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.shards import Shards
from tests.datamodules.test_shards import COUNT, NET, write
from vit_lightning.data import images
from vit_lightning.errors import InputError

CHANCE = np.random.default_rng(0)


@pytest.fixture
def root(tmp_path) -> Path:
    return write(tmp_path / "set")


def ready(root: Path, **options) -> Shards:
    data = Shards(str(root), image_size=8, batch_size=4, num_workers=0, **options)
    data.setup("fit")
    return data


def litdata_set(root: Path, form: str) -> list[dict]:
    """Twelve records that LitData writes; returns what it reads back."""
    streaming = pytest.importorskip("litdata.streaming")
    writer = pytest.importorskip("litdata.streaming.writer").BinaryWriter(str(root / "train"), chunk_size=5)
    root.mkdir(exist_ok=True)
    for number in range(12):
        image = Image.fromarray(CHANCE.integers(0, 256, (9, 12, 3), dtype=np.uint8))
        content = io.BytesIO()
        image.save(content, "JPEG" if "jp" in form else "PNG")
        value = content.getvalue()
        if form != "bytes":
            from litdata.streaming.serializers import Image as Kept

            path = root / f"x.{form.partition(':')[2]}"
            path.write_bytes(value)
            value = Kept(path=str(path))
        writer[number] = (value, number % 3)
    writer.done()
    writer.merge()
    found = streaming.StreamingDataset(str(root / "train"))
    return [found[number] for number in range(len(found))]


@pytest.mark.parametrize("form", ["image:jpg", "image:png", "bytes"])
def test_what_litdata_writes_is_read_as_litdata_reads_it(tmp_path, form):
    theirs = litdata_set(tmp_path / "set", form)
    assert json.loads((tmp_path / "set/train/index.json").read_text())["config"]["data_format"] == [form, "int"]
    (tmp_path / "classes").write_text("x\ny\nz\n")
    found = ready(tmp_path / "set", class_map=tmp_path / "classes", val_fraction=0).train_set
    assert len(found) == len(theirs) == 12
    for number, (image, label) in enumerate(theirs):
        ours, our_label = found[number]
        assert our_label == label
        if form == "image:png":
            assert torch.equal(images.decode(ours, name=""), image)
        elif form == "bytes":
            assert ours == image
        else:  # two decoders
            assert (images.decode(ours, name="").int() - image.int()).abs().max() <= 3


def labelled(root: Path, labels: list) -> Path:
    """A set of LitData whose records have these labels, and a class_map of x, y and z."""
    writer = pytest.importorskip("litdata.streaming.writer").BinaryWriter(str(root / "set/train"), chunk_size=2)
    content = io.BytesIO()
    Image.new("RGB", (8, 8)).save(content, "PNG")
    for number, label in enumerate(labels):
        writer[number] = (content.getvalue(), label)
    writer.done()
    writer.merge()
    (root / "classes").write_text("x\ny\nz\n")
    return root / "set"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, -1, 3], r"record 1 of .*chunk-0-1\.bin has label -1, outside the 3 classes"),
        ([0, 3, -1], r"record 1 of .*chunk-0-0\.bin has label 3, outside the 3 classes"),
        ([[0], [1, 3]], r"record 1 of .* has label 3, outside the 3 classes"),
        ([[0, 1], [1, 0, 0]], r"record 1 of .* has a 0 or 1 for each class, expected the numbers"),
    ],
)
def test_labels_of_litdata_that_are_no_classes(app, tmp_path, labels, message):
    several = isinstance(labels[0], list)
    root = labelled(tmp_path, [np.array(label, np.int32) for label in labels] if several else labels)
    with pytest.raises(InputError, match=message):
        ready(root, class_map=tmp_path / "classes", val_fraction=0)
    words = ("--data", "Shards", "--data.root", root, "--data.class_map", tmp_path / "classes", "--data.image_size", 8)
    done = app("doctor", *NET[:4], *words, "--data.batch_size", 2, "--data.num_workers", 0)
    assert done.code == 1 and re.search(message, done.out + done.err)


@pytest.mark.parametrize("names", ["2 1 0", "2 1 0 cat"])
def test_a_class_map_of_numbers_in_another_order(app, tmp_path, names):
    root = labelled(tmp_path, [0, 1, 2])
    (tmp_path / "classes").write_text(names.replace(" ", "\n"))
    with pytest.raises(InputError, match=r"set has numbers as labels, .*: 0 may be the name of a class or the place"):
        ready(root, class_map=tmp_path / "classes", val_fraction=0)
    words = ("--data", "Shards", "--data.root", root, "--data.class_map", tmp_path / "classes", "--data.image_size", 8)
    assert "0 may be the name of a class" in (done := app("doctor", *NET[:4], *words)).out + done.err
    (tmp_path / "classes").write_text("1\n2\n3\n")
    assert ready(root, class_map=tmp_path / "classes", val_fraction=0).class_names == ["1", "2", "3"]


def test_lists_of_litdata_that_may_be_vectors(tmp_path):
    root = labelled(tmp_path, [np.array(label, np.int32) for label in ([1, 0], [0, 1])])
    (tmp_path / "classes").write_text("x\ny\n")
    with pytest.raises(InputError, match=r"train has the list 0, 1 or 1, 0 for every image, which may name both"):
        ready(root, class_map=tmp_path / "classes", val_fraction=0)
    (tmp_path / "classes").write_text("x\ny\nz\n")
    found = ready(root, class_map=tmp_path / "classes", val_fraction=0).train_set
    assert found[0][1].tolist() == found[1][1].tolist() == [1, 1, 0]


def test_labels_beside_the_shards_are_compared_with_the_classes(root):
    np.save(root / "val/labels.npy", np.array([0, 1, 2] * 3 + [1, 7, 0], np.int32))
    with pytest.raises(InputError, match=r"record 2 of .*val/chunk-0-1\.bin has label 7, outside the 3 classes"):
        ready(root)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_labels_are_hidden_in_no_split_but_test(tmp_path, split):
    root = labelled(tmp_path, [0, -100, 2])
    (root / "train").rename(root / split)
    if split == "test":
        assert [ready(root, class_map=tmp_path / "classes").test_set[n][1] for n in range(3)] == [0, -100, 2]
        return
    with pytest.raises(
        InputError, match=rf"record 1 of .*{split}/chunk-0-0\.bin has label -100, outside the 3 classes"
    ):
        ready(root, class_map=tmp_path / "classes", val_fraction=0)


def test_a_class_map_beside_a_manifest_names_the_same_classes(root, tmp_path):
    (tmp_path / "classes").write_text("a\nb\nc\n")
    assert ready(root, class_map=tmp_path / "classes").class_names == ["a", "b", "c"]
    (tmp_path / "classes").write_text("b\na\nc\n")
    with pytest.raises(InputError, match=r"classes and .*manifest\.json differ in classes; drop it"):
        ready(root, class_map=tmp_path / "classes")


@pytest.mark.parametrize("folder", ["train", "."])
def test_mosaics_shards_are_refused_by_name(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    shard = {"column_names": ["image", "label"], "format": "mds", "samples": 3, "version": 2}
    (tmp_path / folder / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))
    (tmp_path / "classes").write_text("x\n")
    for options in ({}, {"class_map": tmp_path / "classes"}):
        with pytest.raises(
            InputError, match=r"holds MosaicML Streaming's shards \(MDS\), which are not read; write its"
        ):
            ready(tmp_path, **options)
    with pytest.raises(InputError, match="MDS"):
        Shards(str(tmp_path)).num_classes  # noqa: B018


def test_a_set_without_a_folder_of_its_split(tmp_path):
    litdata_set(tmp_path / "set", "bytes")
    (tmp_path / "classes").write_text("x\ny\nz\n")
    with pytest.raises(InputError, match=r"train itself holds an index.json; move its files into a folder train there"):
        ready(tmp_path / "set/train", class_map=tmp_path / "classes")


class Trap:
    """What would leave a mark if it were unpickled."""

    def __reduce__(self) -> tuple:
        return Path.touch, (Path("unpickled"),)


def saved(values: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, values, allow_pickle=True)
    return content.getvalue()


def archive() -> bytes:
    content = io.BytesIO()
    np.savez(content, labels=np.zeros(COUNT, np.int32))
    return content.getvalue()


SIDE_FILES = {
    "labels cut": ("train/labels.npy", saved(np.zeros(COUNT, np.int32))[:-3], "train/labels.npy is damaged"),
    "labels empty": ("train/labels.npy", b"", "train/labels.npy is damaged"),
    "labels pickled": ("train/labels.npy", pickle.dumps(Trap()), "train/labels.npy is damaged"),
    "labels of objects": ("train/labels.npy", saved(np.array([Trap()] * COUNT)), "train/labels.npy is damaged"),
    "labels of an archive": ("train/labels.npy", archive(), "train/labels.npy holds an archive, expected 64 whole"),
    "labels too few": (
        "train/labels.npy",
        saved(np.zeros(3, np.int32)),
        "train/labels.npy holds int32 (3,), expected 64",
    ),
    "labels fractions": ("train/labels.npy", saved(np.zeros(COUNT)), "train/labels.npy holds float64 (64,), expected"),
    "index {}": ("train/index.json", b"{}", "train/index.json cannot be read (KeyError 'config')"),
    "index []": ("train/index.json", b"[]", "train/index.json is damaged: it is no object"),
    "index not UTF-8": ("train/index.json", b"\xff\xfe{", "train/index.json is damaged: "),
    "index nested": ("train/index.json", b"[" * 100_000, "train/index.json is damaged: "),
    "index without chunks": (
        "train/index.json",
        b'{"config": {"data_format": ["bytes", "int"]}, "chunks": [{}]}',
        "train/index.json cannot be read (KeyError 'filename')",
    ),
    "index negative": (
        "train/index.json",
        b'{"config": {"data_format": ["bytes", "int"]}, "chunks": [{"filename": "x", "chunk_size": -1}]}',
        "train/index.json cannot be read (a chunk_size of -1)",
    ),
    "classes no list": (
        "manifest.json",
        b'{"classes": 3}',
        "manifest.json is damaged: its classes are no list of names",
    ),
    "manifest cut": ("manifest.json", b'{"classes": ["a"', "manifest.json is damaged: "),
}


@pytest.mark.parametrize("name", SIDE_FILES)
def test_damaged_side_files_are_named(root, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    file, data, said = SIDE_FILES[name]
    (root / file).write_bytes(data)
    with pytest.raises(InputError) as caught:
        ready(root)
    assert f"{root}/{said}" in str(caught.value) and "\n" not in str(caught.value)
    assert not Path("unpickled").exists()


def rolled(root):
    labels = np.load(root / "train/labels.npy")
    np.save(root / "train/labels.npy", np.roll(labels, 1))
    return "train/labels.npy is not the one that prepare has written, by the checksum in manifest.json"


def turned_round(root):
    index = json.loads((root / "train/index.json").read_text())
    index["chunks"].reverse()
    (root / "train/index.json").write_text(json.dumps(index))
    return "train/index.json is not the one that prepare has written, by the checksum in manifest.json"


def without_labels(root):
    (root / "train/labels.npy").unlink()
    return "train/labels.npy is missing, by the checksum"


def without_a_split(root):
    (root / "val/index.json").unlink()
    return "val/index.json is missing, by the checksum"


@pytest.mark.parametrize("change", [rolled, turned_round, without_labels, without_a_split])
def test_labels_and_shards_are_those_that_were_written(app, root, change):
    said = change(root)
    with pytest.raises(InputError, match=said):
        ready(root)
    words = (*NET[:4], "--data", "Shards", "--data.root", root, "--data.image_size", 8, "--data.num_workers", 0)
    done = app("doctor", *words)
    assert done.code == 1 and said in done.out + done.err and "Traceback" not in done.err


@pytest.mark.parametrize("change", [rolled, turned_round])
def test_shards_of_before_have_no_such_checksums(root, change):
    manifest = json.loads((root / "manifest.json").read_text())
    for facts in manifest["splits"].values():
        del facts["labels_sha256"], facts["index_sha256"]
    (root / "manifest.json").write_text(json.dumps(manifest))
    change(root)
    assert len(ready(root).train_set) == COUNT


@pytest.mark.parametrize("name", ["labels cut", "index {}"])
def test_doctor_names_them(app, root, name):
    file, data, said = SIDE_FILES[name]
    (root / file).write_bytes(data)
    words = (*NET[:4], "--data", "Shards", "--data.root", root, "--data.image_size", 8, "--data.batch_size", 4)
    done = app("doctor", *words, "--data.num_workers", 0)
    assert done.code == 1 and "Traceback" not in done.err
    assert said in done.out + done.err


def test_a_long_list_of_damaged_shards_is_cut(root):
    for file in (root / "train").glob("chunk-*.bin"):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    with pytest.raises(InputError, match=r"and 3 more are damaged; remove them and run prepare again"):
        Shards(str(root), verify=True).prepare_data()
