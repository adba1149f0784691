"""Whether a checkpoint was written to its end."""

import zipfile
import zlib

import pytest
import torch

from vit_lightning.runs import checkpoint_names as names
from vit_lightning.runs.checkpoint_names import is_whole


def test_a_checkpoint_damaged_inside_is_not_whole(tmp_path):
    path = tmp_path / "a.ckpt"
    torch.save({"weights": torch.ones(5000)}, path)
    assert is_whole(path)
    content = bytearray(path.read_bytes())
    for place in range(1000, len(content) - 2000, 997):  # where the weights lie
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        assert zipfile.is_zipfile(path) and not is_whole(path)
    middle = len(content) // 2
    path.write_bytes(content[:middle] + b"\0" * 100 + content[middle + 100 :])
    assert zipfile.is_zipfile(path) and not is_whole(path)
    assert not is_whole(tmp_path / "none") and not is_whole(tmp_path)


def test_names_are_those_of_earlier_runs():
    assert (names.LAST, names.PREVIOUS, names.NEW) == ("last.ckpt", "previous.ckpt", "new.ckpt")
    assert (names.FACTS, names.RAW) == ("meta.pt", "current_model_state")


@pytest.mark.parametrize(
    ("held", "whole"),
    [((), False), ((".metadata",), False), (("meta.pt",), False), ((".metadata", "meta.pt"), True)],
)
def test_a_sharded_checkpoint_is_whole_once_both_files_are_there(tmp_path, held, whole):
    for name in held:
        (tmp_path / name).touch()
    (tmp_path / "__0_0.distcp").touch()
    assert names.is_sharded(tmp_path) is whole
    assert not names.is_sharded(tmp_path / "meta.pt")


def test_a_folder_of_that_name_is_no_file(tmp_path):
    for name in (".metadata", "meta.pt"):
        (tmp_path / name).mkdir()
    assert not names.is_sharded(tmp_path) and not names.is_whole(tmp_path)


def test_a_file_is_whole_by_its_sums(tmp_path):
    path = tmp_path / "x.ckpt"
    assert not names.is_whole(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", b"held" * 100)
    assert names.is_whole(path)
    content = path.read_bytes()
    for damaged in (content[:-1], content[:200], b"", content.replace(b"heldheld", b"heldhelt", 1), b"PK\x03\x04"):
        path.write_bytes(damaged)
        assert not names.is_whole(path)


@pytest.mark.parametrize(
    "error", [OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error]
)
def test_whatever_reading_raises_the_file_is_not_whole(tmp_path, monkeypatch, error):
    with zipfile.ZipFile(tmp_path / "x", "w") as file:
        file.writestr("a", b"held")

    def damaged(self: zipfile.ZipFile) -> None:
        raise error

    monkeypatch.setattr(zipfile.ZipFile, "testzip", damaged)
    assert not names.is_whole(tmp_path / "x")


@pytest.mark.parametrize("method", [8, 12, 14, 99], ids=["deflate", "bzip2", "LZMA", "unknown"])
def test_a_flipped_method_of_compression_is_damage(tmp_path, method):
    path = tmp_path / "x.ckpt"
    torch.save({"weights": torch.arange(500.0)}, path)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        last = max(file.infolist(), key=lambda one: one.file_size)
    central = content.rindex(last.filename.encode()) - 46
    assert content[central : central + 4] == b"PK\x01\x02"
    content[central + 10] = method
    path.write_bytes(content)
    assert not names.is_whole(path)


def test_a_checkpoint_is_a_whole_file_or_a_whole_folder(tmp_path):
    torch.save({"weights": torch.ones(3)}, tmp_path / "a.ckpt")
    assert names.is_complete(tmp_path / "a.ckpt") and not names.is_complete(tmp_path)
    for name in (".metadata", "meta.pt"):
        (tmp_path / name).touch()
    assert names.is_complete(tmp_path)
