"""Tars that are compressed as a whole, unpacked once and again where they made room for others."""

import gzip
from pathlib import Path

import pytest

from datamodules.reading import remote_files
from datamodules.webshards import WebShards
from tests.datamodules.test_webshards import pack, picture


def write(folder: Path, ending: str) -> dict[str, bytes]:
    """Two packed tars of two samples."""
    files = {}
    for number in range(2):
        keys = [f"{number}{letter}" for letter in "ab"]
        members = [(f"{key}.{kind}", data) for key in keys for kind, data in (("png", picture()), ("cls", b"0"))]
        plain = folder / f"{number}.plain"
        files |= pack(plain, members)
        (folder / f"train-{number}{ending}").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    return files


@pytest.mark.parametrize("ending", [".tgz", ".tar.gz"])
def test_a_packed_tar_that_made_room_is_unpacked_again(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(remote_files, "RETRY_PAUSES", ())
    files, cache = write(tmp_path / "set", ending), tmp_path / "cache"

    def images() -> list[bytes]:
        data = WebShards(str(tmp_path / "set"), train=f"train-*{ending}", val_fraction=0, cache=cache, image_size=8)
        data.setup("fit")
        return [data.train_set[number][0] for number in range(len(data.train_set))]

    expected = [files[f"{key}.png"] for key in ("0a", "0b", "1a", "1b")]
    assert images() == expected
    unpacked = list(cache.glob(f"*/*{ending}"))
    assert len(unpacked) == 2
    unpacked[1].unlink()
    assert images() == expected
    for file in unpacked:
        file.unlink()
    assert images() == expected
