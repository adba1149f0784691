import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from datamodules.reading import array_cache, tars
from datamodules.reading.image_index import FolderImages, Index, IndexedImages, build, open_index
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.errors import InputError

NAMES = {
    "a": ["a_1.JPEG", "a_10.JPEG", "a_2.JPEG"],
    "b": ["x.jpg"],
    "c/deep": ["\u00e4.png", "b.png", "\udcff.png"],
    "d": [],
}


def place(root: Path) -> Path:
    for folder, names in NAMES.items():
        (root / folder).mkdir(parents=True)
        for name in names:
            (root / folder / name).write_bytes(f"{folder}/{name}".encode(errors="surrogateescape"))
    for junk in ("a/._a_1.JPEG", "a/Thumbs.db", "a/notes.txt", ".hidden/a.jpg", "__MACOSX/a.jpg"):
        (root / junk).parent.mkdir(exist_ok=True)
        (root / junk).write_bytes(b"junk")
    for folder in (root, *root.rglob("*/")):
        os.utime(folder, (1, 1))  # a change in the same tick of the clock would go unseen
    return root


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in members.items():
            add(tar, name, data)
    return buffer.getvalue()


@pytest.fixture
def tree(tmp_path) -> Path:
    return place(tmp_path / "tree")


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


ALL = ["a/a_1.JPEG", "a/a_10.JPEG", "a/a_2.JPEG", "b/x.jpg", "c/deep/b.png", "c/deep/\u00e4.png", "c/deep/\udcff.png"]


def test_folders(tree, cache):
    index = open_index(tree, cache)
    assert list(index) == ALL
    assert [index[number] for number in range(len(index))] == ALL
    assert [index.image(number).read_bytes() for number in (0, 6)] == [
        b"a/a_1.JPEG",
        "c/deep/\udcff.png".encode(errors="surrogateescape"),
    ]
    assert list(index.folders) == ["", "a", "b", "c", "c/deep", "d"]
    assert index.spread([-1, 0, 1, 2, 3, 4]).tolist() == [0, 0, 0, 1, 3, 3, 3]
    assert list(index.names(1)) == NAMES["a"]


def test_folders_inside_folders_come_in_the_order_of_their_names(tmp_path, cache):
    images = ["b/0.png", "b/p/x/1.png", "b/p/y/2.png", "b/q/3.png", "b/r/4.png", "c/a/5.png", "c/b/6.png"]
    for image in reversed(images):
        (tmp_path / "deep" / image).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "deep" / image).write_bytes(image.encode())
    index = open_index(tmp_path / "deep", cache)
    assert list(index) == images and [index.image(number).read_bytes().decode() for number in range(7)] == images
    assert list(index.folders) == ["", "b", "b/p", "b/p/x", "b/p/y", "b/q", "b/r", "c", "c/a", "c/b"]


def test_second_opening_lists_nothing(tree, cache, monkeypatch):
    first = list(open_index(tree, cache))
    monkeypatch.setattr(os, "scandir", None)
    assert list(open_index(tree, cache)) == first


def test_pickled_index_maps_the_file_again(tree, cache):
    images = IndexedImages(open_index(tree, cache), open_index(tree, cache).spread(range(6)))
    data = pickle.dumps(images)
    assert len(data) < 1000
    again = pickle.loads(data)
    assert list(again.keys) == ALL
    assert again[6] == images[6]


@pytest.mark.parametrize("change", ["add", "remove", "rename", "new folder", "no folder"])
def test_changed_folder_is_refused(tree, cache, change):
    open_index(tree, cache)
    match change:
        case "add":
            (tree / "a/a_3.JPEG").write_bytes(b"")
        case "remove":
            (tree / "a/a_10.JPEG").unlink()
        case "rename":
            (tree / "a/a_1.JPEG").rename(tree / "a/a_3.JPEG")
        case "new folder":
            (tree / "e").mkdir()
        case "no folder":
            (tree / "d").rmdir()
    with pytest.raises(InputError, match=r"tree\S* (has changed|is gone) since it was indexed; give --data\.reindex"):
        open_index(tree, cache)
    assert len(open_index(tree, cache, anew=True)) == len(ALL) + {"add": 1, "remove": -1}.get(change, 0)
    open_index(tree, cache)


def test_other_content_of_a_file_is_no_change_of_the_index(tree, cache):
    open_index(tree, cache)
    (tree / "a/a_1.JPEG").write_bytes(b"other")
    assert open_index(tree, cache).image(0).read_bytes() == b"other"


@pytest.mark.parametrize("packing", ["one tar", "tar per folder", "tar of tars"])
def test_tars(tmp_path, cache, packing):
    """Members are found and read where they lie, with long names, folders and other files between them."""
    long = "x" * 120 + ".jpg"
    a = {"./a_1.JPEG": b"first", "a_2.JPEG": b"", "notes.txt": b"no", "deep/a_3.JPEG": bytes(1000), long: b"long"}
    b = {"b_1.JPEG": b"last"}
    root = tmp_path / "packed"
    root.mkdir()
    if packing == "tar of tars":
        (root / "whole.tar").write_bytes(tar_of({"a.tar": tar_of(a), "./b.tar": tar_of(b)}))
        before = ["whole.tar/a.tar/", "whole.tar/b.tar/"]
    elif packing == "tar per folder":
        (root / "a.tar").write_bytes(tar_of(a))
        (root / "b.tar").write_bytes(tar_of(b))
        before = ["a.tar/", "b.tar/"]
    else:
        (root / "whole.tar").write_bytes(tar_of({**a, **b}))
        before = ["whole.tar/", "whole.tar/"]
    index = open_index(root / "whole.tar" if packing == "one tar" else root, cache)
    names = ["a_1.JPEG", "a_2.JPEG", "deep/a_3.JPEG", long]
    assert list(index) == [*(before[0] + name for name in names), before[1] + "b_1.JPEG"]
    assert [index.image(number) for number in range(5)] == [b"first", b"", bytes(1000), b"long", b"last"]
    assert pickle.loads(pickle.dumps(index)).image(4) == b"last"


def test_changed_tar_is_refused(tmp_path, cache):
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of({"a_1.JPEG": b"first", "a_2.JPEG": b"second"}))
    index = open_index(path, cache)
    state = path.stat()
    path.write_bytes(tar_of({"a_2.JPEG": b"second", "a_1.JPEG": b"first"}))
    with pytest.raises(InputError, match=r"a\.tar has changed since it was indexed; give --data\.reindex true"):
        open_index(path, cache)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # the same size and time: the header tells
    with pytest.raises(
        InputError, match=r"a_1\.JPEG is not where the index of \S+a\.tar says \(a_2\.JPEG lies there\)"
    ):
        open_index(path, cache).image(0)
    path.write_bytes(b"x" * state.st_size)
    with pytest.raises(InputError, match=r"a_1\.JPEG is not where .* says .*--data\.reindex true"):
        index.image(0)
    path.unlink()
    with pytest.raises(InputError, match=r"No such file"):
        index.image(0)
    with pytest.raises(InputError, match=r"a\.tar is gone"):
        index.check()


@pytest.mark.parametrize("keep", [0, 100, 512, 700, 1024, 2048])
def test_incomplete_tar_is_refused(tmp_path, keep):
    whole = tar_of({"a_1.JPEG": b"first", "a_2.JPEG": b"second"})
    (tmp_path / "a.tar").write_bytes(whole[:keep])
    with pytest.raises(InputError, match=r"a\.tar cannot be read as a tar \(.+\); fetch it again"):
        list(tars.scan(tmp_path / "a.tar"))
    damaged = bytearray(whole)
    damaged[1024 + 50] ^= 1
    (tmp_path / "a.tar").write_bytes(damaged)
    with pytest.raises(InputError, match=r"no end mark at byte 1024"):
        list(tars.scan(tmp_path / "a.tar"))


def test_damaged_index_is_named(tree, cache):
    open_index(tree, cache)
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"tree-\w+\.safetensors is damaged .*remove it"):
        open_index(tree, cache)


def test_cache_that_cannot_be_written(tree, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written .*give --data\.cache"):
        open_index(tree, tmp_path / "file/cache")


def test_narrow_numbers(tmp_path):
    rows, many = Ragged.of([[1, 2], [], [3]]), array_cache.compact(np.array([2**40]))
    array_cache.save(tmp_path / "x", {"rows": rows, "many": many})
    arrays = array_cache.load(tmp_path / "x")
    assert [row.tolist() for row in Ragged(arrays["rows.values"], arrays["rows.ends"])] == [[1, 2], [], [3]]
    assert arrays["many"].tolist() == [2**40]


def generated(classes: int, per_class: int):
    for number in range(classes):
        wnid = f"n{number:08d}"
        yield FolderImages(wnid, (1, 0), wnid, sorted(f"{wnid}_{k}.JPEG" for k in range(per_class)), [])


def test_generated_names_take_little_room(tmp_path):
    file = tmp_path / "index"
    build(generated(20, 1_000), file)
    index = Index(file, tmp_path)
    assert len(index) == 20_000
    assert index[19_999] == "n00000019/n00000019_999.JPEG"
    assert index[12_345] == f"n00000012/{sorted(f'n00000012_{k}.JPEG' for k in range(1000))[345]}"
    assert file.stat().st_size < 20_000 * 8


def test_a_tar_that_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "a.tar")
    with pytest.raises(InputError, match=r"a\.tar cannot be read as a tar: it is a FIFO, not a regular file"):
        open_index(tmp_path, tmp_path / "cache")
