"""Remote files: fetched once, checked, ahead of their use, in bounded space."""

import gzip
import hashlib
import os
import pickle
import threading
from pathlib import Path

import pytest

from datamodules.reading import remote_files as module
from datamodules.reading.remote_files import RemoteFile, RemoteFiles, cache_folder, content, is_remote
from tests import servers
from vit_lightning.errors import InputError

CONTENTS = [bytes([number]) * 1000 for number in range(6)]


@pytest.fixture(scope="module")
def remote(tmp_path_factory) -> str:
    """Six files of 1,000 bytes behind a plain HTTP server."""
    folder = tmp_path_factory.mktemp("server")
    for number, data in enumerate(CONTENTS):
        (folder / f"{number}.bin").write_bytes(data)
    (folder / "packed.tar.gz").write_bytes(gzip.compress(b"inside"))
    with servers.http(folder) as address:
        yield address


def listed(remote: str) -> list[RemoteFile]:
    digests = [hashlib.sha256(data).hexdigest() for data in CONTENTS]
    return [RemoteFile(f"{remote}/{number}.bin", 1000, digest) for number, digest in enumerate(digests)]


def kept(folder: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[2] for path in folder.glob("[!.]*"))


def test_each_is_fetched_once_and_read_in_parts(remote, tmp_path, monkeypatch):
    fetched = []
    get = module._get
    monkeypatch.setattr(module, "_get", lambda file, part: fetched.append(file.url) or get(file, part))
    files = RemoteFiles(listed(remote), tmp_path)
    assert files.remote
    assert files.read(3, 10, 5) == CONTENTS[3][:5]
    assert files.read(3, 998, 5) == CONTENTS[3][:2]
    again = pickle.loads(pickle.dumps(files))
    assert again.read(3, 0, 1000) == CONTENTS[3]
    assert fetched == [f"{remote}/3.bin"]
    assert kept(tmp_path) == ["3.bin"]


def test_a_file_is_seen_at_its_place_once_it_is_whole(tmp_path, monkeypatch):
    inodes = []

    def get(file: RemoteFile, part: Path) -> None:
        part.write_bytes(b"whole")
        inodes.append(part.stat().st_ino)
        assert kept(tmp_path) == []

    monkeypatch.setattr(module, "_get", get)
    place = RemoteFiles([RemoteFile("http://x/a.bin")], tmp_path).path(0)
    assert [place.stat().st_ino] == inodes and kept(tmp_path) == ["a.bin"]


def test_processes_that_want_the_same_fetch_it_once(remote, tmp_path, monkeypatch):
    fetched = []
    get = module._get
    monkeypatch.setattr(module, "_get", lambda file, part: fetched.append(file.url) or get(file, part))
    threads = [threading.Thread(target=RemoteFiles(listed(remote), tmp_path).path, args=(0,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == [f"{remote}/0.bin"]


def test_a_shard_that_was_made_anew_under_its_old_name_is_fetched_again(tmp_path):
    """Its index gives another checksum then; one that is the same is not fetched twice."""
    folder = tmp_path / "server"
    folder.mkdir()
    with servers.http(folder) as address:
        for data in (CONTENTS[1], CONTENTS[2], CONTENTS[1]):
            (folder / "shard.bin").write_bytes(data)
            shard = RemoteFile(f"{address}/shard.bin", 1000, hashlib.sha256(data).hexdigest())
            assert RemoteFiles([shard], tmp_path / "cache").read(0, 0, 1000) == data
    assert kept(tmp_path / "cache") == ["shard.bin"] * 2


def test_what_is_announced_comes_in_the_background(remote, tmp_path):
    files = RemoteFiles(listed(remote), tmp_path)
    files.announce(range(6))
    for thread in list(files._threads.values()):
        thread.join()
    assert kept(tmp_path) == [f"{number}.bin" for number in range(module.THREADS)]
    files.announce([0, 5])
    assert list(files._threads) == [5]


def test_what_was_used_longest_ago_makes_room(remote, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 1)
    monkeypatch.setattr(module, "THREADS", 1)
    files = RemoteFiles(listed(remote), tmp_path, limit=3000 / 2**30)
    for number in (0, 1, 2):
        files.path(number)
    files.path(0)
    files.path(3)
    assert kept(tmp_path) == ["0.bin", "2.bin", "3.bin"]
    assert files.read(1, 0, 1) == b"\1"  # fetched again
    with pytest.raises(InputError, match=r"--data.cache_limit is 1e-06 GiB, but 0.00 are read at a time; give more"):
        RemoteFiles(listed(remote), tmp_path, limit=1e-6)


def test_a_wrong_or_absent_file_is_an_error(remote, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RETRY_PAUSES", (0.0,))
    with pytest.raises(InputError, match=r"0.bin cannot be fetched: its checksum .* its index gives; upload it again"):
        RemoteFiles([RemoteFile(f"{remote}/0.bin", 1000, "0" * 64)], tmp_path).path(0)
    with pytest.raises(InputError, match=r"0.bin cannot be fetched: it has 1,000 bytes where 999 are expected"):
        RemoteFiles([RemoteFile(f"{remote}/0.bin", 999)], tmp_path).path(0)
    with pytest.raises(InputError, match=r"absent.bin does not exist; upload it, or correct --data.root"):
        RemoteFiles([RemoteFile(f"{remote}/absent.bin")], tmp_path).path(0)
    with pytest.raises(InputError, match=r"gone.bin is missing"):
        RemoteFiles([RemoteFile(str(tmp_path / "gone.bin"))], tmp_path / "cache").path(0)
    assert kept(tmp_path) == []


def test_a_hiccup_is_tried_again(remote, tmp_path, monkeypatch):
    get, states = module._get, iter([OSError("connection reset"), None])
    monkeypatch.setattr(module, "RETRY_PAUSES", (0.0,))

    def flaky(file: RemoteFile, part: Path) -> None:
        error = next(states)
        if error:
            raise error
        get(file, part)

    monkeypatch.setattr(module, "_get", flaky)
    assert RemoteFiles(listed(remote), tmp_path).read(2, 0, 1) == b"\2"


def test_packed_files_are_unpacked(remote, tmp_path):
    assert RemoteFiles([RemoteFile(f"{remote}/packed.tar.gz")], tmp_path / "one").read(0, 0, 9) == b"inside"
    (tmp_path / "near.tgz").write_bytes(gzip.compress(b"near"))
    near = RemoteFiles([RemoteFile(str(tmp_path / "near.tgz"))], tmp_path / "two")
    assert near.read(0, 0, 9) == b"near" and not near.remote


def test_small_files_and_addresses(remote, tmp_path):
    assert content(f"{remote}/1.bin") == CONTENTS[1]
    assert content(f"{remote}/absent.json") is None and content(str(tmp_path / "absent.json")) is None
    with pytest.raises(InputError, match="nowhere://x"):
        content("nowhere://x")
    with pytest.raises(
        InputError, match=r"gs://x/y needs a package that is missing: pip install 'vit-lightning\[gcs\]'"
    ):
        content("gs://x/y")
    assert is_remote("s3://a/b") and not is_remote("/a/b")
    assert cache_folder(tmp_path, "s3://a/set") != cache_folder(tmp_path, "s3://b/set")
    assert cache_folder(tmp_path, "s3://a/set").name.startswith("set-")


def test_a_file_s_place_stands_for_its_address_and_its_checksum(tmp_path):
    files = [
        RemoteFile("s3://a/x.bin", 1, "1"),
        RemoteFile("s3://b/x.bin", 1, "1"),
        RemoteFile("s3://a/x.bin", 1, "2"),
        RemoteFile("s3://a/x.bin", 1, None),
        RemoteFile("s3://a/y.bin", 1, "1"),
        RemoteFile("/near/z.tar.gz"),
        RemoteFile("/near/z.tgz"),
    ]
    found = RemoteFiles(files, tmp_path)
    places = [found._place(number) for number in range(len(files))]
    assert len(set(places)) == len(files) and all(place.parent == tmp_path for place in places)
    assert [place.name.rpartition("-")[2] for place in places] == [file.url.rpartition("/")[2] for file in files]
    near = RemoteFiles([RemoteFile("/near/z.tar"), RemoteFile("/near/z.bin", 1, "1")], tmp_path)
    assert [str(near._place(number)) for number in range(2)] == ["/near/z.tar", "/near/z.bin"]
    assert found.remote and not near.remote
    assert RemoteFiles([RemoteFile("/near/z.tar"), RemoteFile("s3://a/b")], tmp_path).remote


def test_a_root_has_its_folder_in_the_cache_that_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module.array_cache, "CACHE_FOLDER", tmp_path / "own")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = cache_folder(None, "s3://a/set")
    assert folder.parent == tmp_path / "own" and folder == cache_folder(None, "s3://a/set")
    assert cache_folder(Path("~/x"), "s3://a/set") == tmp_path / "home/x" / folder.name


def test_only_so_many_files_are_open_and_each_is_opened_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "OPEN", 2)
    files = []
    for number in range(3):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number]) * 4)
        files.append(RemoteFile(str(tmp_path / f"{number}.bin")))
    found = RemoteFiles(files, tmp_path / "cache")
    assert [found.read(number, 1, 2) for number in (0, 1, 0, 2)] == [bytes([number]) * 2 for number in (0, 1, 0, 2)]
    assert list(found._opened) == [1, 2] and found.open(2) is found.open(2)


def test_room_is_made_up_to_the_limit_and_never_of_the_newest(tmp_path):
    """Ten bytes may stay; of equal ages the smaller goes first, and what is hidden is not counted."""
    found = RemoteFiles([], tmp_path, limit=10 / 2**30)
    for name, size, age in (("a", 4, 1), ("b", 3, 2), ("c", 5, 3), (".lock", 50, 0), ("new", 6, 0)):
        (tmp_path / name).write_bytes(b"x" * size)
        os.utime(tmp_path / name, (age, age))
    found._make_room(tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "new"]
    for name, size, age in (("a", 2, 2), ("b", 2, 1)):
        (tmp_path / name).write_bytes(b"x" * size)
        os.utime(tmp_path / name, (age, age))
    found._make_room(tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "a", "b", "new"]  # ten in all


@pytest.mark.parametrize("attempts", [0, 4])
def test_a_fetch_is_tried_five_times_with_longer_and_longer_pauses(monkeypatch, attempts):
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    states = iter([OSError("reset by\n peer")] * (attempts or 5) + [None])

    def fetch() -> None:
        if error := next(states):
            raise error

    if attempts:
        module._patiently(fetch, RemoteFile("s3://a/x"))
        assert slept == [0.1, 0.5, 2.0, 10.0]
    else:
        with pytest.raises(InputError, match="s3://a/x cannot be fetched: reset by peer"):
            module._patiently(fetch, RemoteFile("s3://a/x"))
        assert slept == [0.1, 0.5, 2.0, 10.0]
