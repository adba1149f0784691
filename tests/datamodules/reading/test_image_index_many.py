"""Indices of more folders than are asked for at a time, of folders beside tars, and of tars that are damaged."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from datamodules.reading.image_index import IndexedData, open_index
from vit_lightning.errors import InputError

COUNT = 520  # the root beside them: a third batch of 256 with nine


def test_the_first_change_in_any_of_many_folders_is_found(tmp_path):
    root = tmp_path / "set"
    for number in range(COUNT):
        (root / f"{number:03}").mkdir(parents=True)
    (root / "519/a.png").touch()
    index = open_index(root, tmp_path / "cache")
    assert list(index) == ["519/a.png"] and len(index.sources) == COUNT + 1
    index.check()
    for changed in (519, 511, 510, 256, 255, 254, 0):
        (root / f"{changed:03}/more").mkdir()
        with pytest.raises(InputError, match=rf"set/{changed:03} has changed since it was indexed"):
            index.check()


def pack(file: Path, *names: str) -> None:
    with tarfile.open(file, "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))


def test_where_folders_lie_beside_tars_the_folders_are_read(tmp_path):
    (tmp_path / "set/a").mkdir(parents=True)
    (tmp_path / "set/a/x.png").touch()
    pack(tmp_path / "set/b.tar", "y.png")
    assert list(open_index(tmp_path / "set", tmp_path / "cache")) == ["a/x.png"]


def test_what_could_be_read_of_damaged_tars_is_no_index_of_a_later_run(tmp_path):
    (tmp_path / "set").mkdir()
    for name in "abc":
        pack(tmp_path / f"set/{name}.tar", "0.png", "1.png")
    whole = (tmp_path / "set/b.tar").read_bytes()
    (tmp_path / "set/b.tar").write_bytes(whole[:1024] + b"?" * 512 + whole[1536:])
    for _ in range(2):
        faults: list[InputError] = []
        found = open_index(tmp_path / "set", tmp_path / "cache", report=faults.append)
        assert list(found) == ["a.tar/0.png", "a.tar/1.png", "b.tar/0.png", "c.tar/0.png", "c.tar/1.png"]
        assert len(faults) == 1 and "b.tar cannot be read as a tar" in str(faults[0])
        with pytest.raises(InputError, match=r"b\.tar cannot be read as a tar"):
            open_index(tmp_path / "set", tmp_path / "cache")
    (tmp_path / "set/b.tar").write_bytes(whole)
    assert len(open_index(tmp_path / "set", tmp_path / "cache", report=faults.append)) == 6 and len(faults) == 1
    (tmp_path / "set/b.tar").write_bytes(whole[:-1])
    with pytest.raises(InputError, match=r"b\.tar has changed since it was indexed"):  # that of the whole one is kept
        open_index(tmp_path / "set", tmp_path / "cache")


class Indexed(IndexedData):
    num_classes = 1

    def places(self) -> list[Path]:
        return [self.root]

    def setup(self, stage: str) -> None:
        pass


def test_a_damaged_tar_is_reported_once_to_who_wants_all_faults(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/a.tar").write_bytes(b"?" * 1024)
    data = Indexed(tmp_path / "set", cache=tmp_path / "cache")
    data.faults = []
    data.prepare_data()
    first = data.index(tmp_path / "set")
    assert data.index(tmp_path / "set") is first and len(first) == 0
    assert len(data.faults) == 1


def test_indices_are_made_anew_where_that_is_asked_for(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/a.png").touch()
    Indexed(tmp_path / "set", cache=tmp_path / "cache").prepare_data()
    (tmp_path / "set/b.png").touch()
    os.utime(tmp_path / "set", (5, 5))
    with pytest.raises(InputError, match="has changed since it was indexed"):
        Indexed(tmp_path / "set", cache=tmp_path / "cache").prepare_data()
    data = Indexed(tmp_path / "set", cache=tmp_path / "cache", reindex=True)
    data.prepare_data()
    assert list(data.index(tmp_path / "set")) == ["a.png", "b.png"]
