"""Images inside tars by the place of their header."""

import io
import tarfile
from pathlib import Path

import pytest

from datamodules.reading import tars
from vit_lightning.errors import InputError


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


LONG = "long/" * 30 + "x.png"


@pytest.fixture
def nested(tmp_path) -> Path:
    inner = {"n2.tar": {"b.JPEG": b"B" * 700, "notes.txt": b"x"}, "n1.tar": {"./a.JPEG": b"A", "c.JPEG": b""}}
    members = {"first.png": b"1" * 513, **{name: tar_of(each) for name, each in inner.items()}, LONG: b"9"}
    (tmp_path / "x.tar").write_bytes(tar_of(members))
    return tmp_path / "x.tar"


def test_each_image_is_read_where_its_header_lies(nested):
    found = {members.folder: members for members in tars.scan(nested)}
    assert {folder: members.names for folder, members in found.items()} == {
        "x.tar/n2.tar": ["b.JPEG"],
        "x.tar/n1.tar": ["a.JPEG", "c.JPEG"],
        "x.tar": ["first.png", LONG],
    }
    assert found["x.tar"].blocks[0] == 0 and found["x.tar/n2.tar"].blocks == [4]
    contents = {"first.png": b"1" * 513, "b.JPEG": b"B" * 700, "a.JPEG": b"A", "c.JPEG": b"", LONG: b"9"}
    for members in found.values():
        for name, block in zip(members.names, members.blocks, strict=True):
            assert tars.read(nested, block, name) == contents[name]


def test_another_thing_at_that_place_is_told(nested):
    with pytest.raises(InputError, match=r"a.JPEG is not where the index of \S*x.tar says \(first.png lies there\)"):
        tars.read(nested, 0, "a.JPEG")
    with pytest.raises(InputError, match=r"is not where the index"):
        tars.read(nested, 1, "first.png")
    nested.write_bytes(nested.read_bytes()[:600])
    with pytest.raises(InputError, match=r"first.png is not where the index .* give --data.reindex true once"):
        tars.read(nested, 0, "first.png")


@pytest.mark.parametrize("end", range(2048, 16384, 512))
def test_of_a_tar_that_is_cut_inside_a_tar_every_whole_image_is_left(tmp_path, end):
    """Images of two blocks behind their headers; the first one's header lies at block 1."""
    inner = tar_of({f"{number}.png": b"x" * 1024 for number in range(12)})
    (tmp_path / "x.tar").write_bytes(tar_of({"in.tar": inner})[:end])
    faults: list[InputError] = []
    found = next(iter(tars.scan(tmp_path / "x.tar", faults.append)))
    assert found.folder == "x.tar/in.tar"
    assert found.names == [f"{number}.png" for number in range((end - 512) // 1536)]
    assert any("x.tar/in.tar cannot be read as a tar" in str(fault) for fault in faults)


@pytest.mark.parametrize(("cut", "names"), [(1, ["a.png", "b.png"]), (512, ["a.png"]), (1023, ["a.png"])])
def test_of_a_tar_that_is_cut_what_it_holds_whole_is_left(tmp_path, cut, names):
    """Two images of one block each behind their headers: the second ends at block 4."""
    whole = tar_of({"a.png": b"a" * 512, "b.png": b"b" * 512})
    (tmp_path / "x.tar").write_bytes(whole[: 2048 + 1 - cut])
    faults: list[InputError] = []
    (members,) = tars.scan(tmp_path / "x.tar", faults.append)
    assert members.names == names and len(members.blocks) == len(names)
    assert len(faults) == 1 and "cannot be read as a tar" in str(faults[0])
    with pytest.raises(InputError, match=r"fetch it again if it is incomplete, decompress it if it is .gz"):
        list(tars.scan(tmp_path / "x.tar"))
