"""What fetching leaves on this machine: whole files and locks, nothing else; and what is not asked for again."""

import gzip
from pathlib import Path

import pytest

from datamodules.reading import remote_files as module
from datamodules.reading.remote_files import MissingFile, RemoteFile, RemoteFiles
from vit_lightning.errors import InputError


def left(folder: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[2] for path in folder.iterdir() if path.suffix != ".lock")


@pytest.mark.parametrize(
    ("data", "size"),
    [(gzip.compress(b"inside" * 999)[:-9], None), (b"no gzip", None), (gzip.compress(b"inside"), 5)],
    ids=["cut short", "not packed", "of another size"],
)
def test_a_file_that_cannot_be_fetched_leaves_nothing(tmp_path, monkeypatch, data, size):
    monkeypatch.setattr(module, "RETRY_PAUSES", ())
    (tmp_path / "a.tgz").write_bytes(data)
    files = RemoteFiles([RemoteFile(str(tmp_path / "a.tgz"), size)], tmp_path / "kept")
    for _ in range(2):  # nor does the second attempt take what the first one left
        with pytest.raises(InputError, match=r"a\.tgz cannot be fetched: "):
            files.path(0)
        assert left(tmp_path / "kept") == []
    (tmp_path / "a.tgz").write_bytes(gzip.compress(b"whole"))
    files = RemoteFiles([RemoteFile(str(tmp_path / "a.tgz"))], tmp_path / "kept")
    assert files.read(0, 0, 99) == b"whole" and left(tmp_path / "kept") == ["a.tgz"]


@pytest.mark.parametrize(
    "error", [MissingFile("x does not exist"), InputError("x needs a package"), FileNotFoundError()]
)
def test_what_is_not_there_is_not_asked_for_again(monkeypatch, error):
    slept: list[float] = []
    monkeypatch.setattr(module.time, "sleep", slept.append)
    asked: list[int] = []

    def fetch() -> None:
        asked.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        module._patiently(fetch, RemoteFile("s3://a/x"))
    assert caught.value is error and asked == [1] and not slept
