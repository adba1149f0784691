"""Names and kinds of files: those that no library opens, those that are none, and what a spreadsheet makes of them."""

import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from vit_lightning.errors import InputError
from vit_lightning.files import (
    check_place,
    check_regular,
    in_utf8,
    is_utf8,
    looked_for_in,
    open_regular,
    special_kind,
    spreadsheet_cell,
    typed_cell,
    unwritable,
    write_atomically,
    written,
)

ODD = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(("name", "plain"), [("a", True), ("é", True), ("", True), (ODD, False), (f"{ODD}/x", False)])
def test_names_in_utf_8(name, plain):
    assert is_utf8(name) is is_utf8(Path(name)) is plain


@pytest.mark.parametrize("folder", [False, True])
def test_a_file_is_opened_by_a_name_that_libraries_take(tmp_path, monkeypatch, folder):
    for name in ("é", ODD):
        place = tmp_path / name
        (place.mkdir() or place / "in").write_text(name, errors="surrogateescape") if folder else place.write_text("x")
        monkeypatch.chdir(tmp_path)
        for given in (place, name):
            with in_utf8(given) as opened:
                assert is_utf8(opened) and opened.samefile(place)
                assert (opened == Path(given)) == (name == "é")
                assert opened.is_dir() == folder
            assert opened.exists() == (name == "é")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "é", tmp_path / ODD])


def test_a_relative_path_is_looked_for_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert looked_for_in("x/y") == looked_for_in(Path("x")) == f" in {tmp_path}"
    assert looked_for_in("/x") == looked_for_in("~/x") == looked_for_in(tmp_path) == ""


def test_only_regular_files_are_opened(tmp_path):
    (tmp_path / "file").write_bytes(b"held")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"held"
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        assert special_kind(tmp_path / "socket") == "socket"
    for place, kind in ((tmp_path / "fifo", "FIFO"), (Path("/dev/zero"), "device")):
        with pytest.raises(OSError, match=f"it is a {kind}, not a regular file") as told:
            open_regular(place)
        assert told.value.errno == errno.EINVAL and told.value.filename == str(place)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")


def test_a_fifo_is_refused_by_what_names_it_and_a_missing_file_passes(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError, match=rf"^{tmp_path}/fifo is a FIFO, not a regular file; copy what it gives"):
        check_regular(tmp_path / "fifo")
    with pytest.raises(InputError, match=r"^--x y is a FIFO"):
        check_regular(tmp_path / "fifo", "--x y")
    for place in (tmp_path / "none", tmp_path, Path(__file__), Path("a\0b")):
        check_regular(place)
    assert special_kind(Path("a\0b")) is None
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *((text, f"'{text}") for text in ("=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx", "'=1", "''@x", "-", "-1-1")),
        *((text, text) for text in ("x", "'x", "x=1", " =1", "", "-1", "+2.5", "-1e-05", "1E+3", "a\t")),
        (-3.5, "-3.5"),
        (-0.0, "-0.0"),
        (None, "None"),
        (float("-inf"), "'-inf"),
    ],
)
def test_a_spreadsheet_computes_no_cell_and_numbers_stay_numbers(value, cell):
    assert spreadsheet_cell(value) == cell and typed_cell(cell) == str(value)


# Places that cannot be written --------------------------------------------------------------------------------------


def test_a_place_is_a_file_in_a_folder_that_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=rf"^--out {tmp_path} cannot be written: it is a folder; name a file in it$"):
        check_place(tmp_path, "--out")
    with pytest.raises(InputError, match=rf"there is no folder new in {tmp_path}; make it first$"):
        check_place(Path("new/x.csv"), "--out")
    with pytest.raises(InputError, match=rf"there is no folder {tmp_path}/new; make it first$"):
        check_place(tmp_path / "new/x.csv", "--out")
    Path("old.csv").write_text("kept")
    check_place(Path("old.csv"), "--out")
    check_place(Path("/dev/null"), "--out")
    assert Path("old.csv").read_text() == "kept" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EACCES, "Permission denied"), "x cannot be written: Permission denied; name another place"),
        (OSError("odd"), "x cannot be written: odd; name another place"),
        (OSError(errno.ENOSPC, "No space left on device"), "x cannot be written: no space left; free space there"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "x cannot be written: no space left; free space there"),
        (
            OSError(errno.ENXIO, "No such device or address"),
            "x cannot be written: it is a FIFO or socket from which no process reads; name another place",
        ),
        (RuntimeError("write failed: File too large"), "x cannot be written: it would exceed the size that a file may"),
        (RuntimeError("PytorchStreamWriter failed inline_container.cc"), "x cannot be written: no space left; free"),
    ],
)
def test_every_way_of_not_being_written_has_its_sentence(error, said):
    assert str(unwritable("x", error)).startswith(said)


@pytest.mark.parametrize("error", [InputError("File too large"), KeyError("x"), ValueError("no file"), RuntimeError()])
def test_other_errors_have_none(error):
    assert unwritable("x", error) is None


def test_a_limit_on_sizes_is_named_where_torch_s_writer_fails(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda which: (0, 10**6))
    for text, said in (("inline_container.cc", "ulimit -f"), ("No space left on device", "no space left")):
        assert said in str(unwritable("x", RuntimeError(text)))


def test_a_written_file_is_made_in_a_new_folder_and_stands_in_no_other_s_place(tmp_path):
    place = tmp_path / "a" / "b" / "net.ckpt"
    with written(place) as made:
        assert made.name == "net.ckpt" and made.parent != place.parent and not made.exists() and not place.exists()
        made.write_text("x")
        (made.parent / "net.data").write_text("beside")
    assert sorted(file.name for file in place.parent.iterdir()) == ["net.ckpt", "net.data"]
    with pytest.raises(InputError, match=rf"^{place} exists already: choose another name, or remove it first"):
        written(place).__enter__()
    assert place.read_text() == "x"


def test_an_error_from_within_names_the_file_that_was_given(tmp_path):
    def fail() -> None:
        with written(tmp_path / "out") as made:
            made.write_text("half")
            raise InputError(f"{made} is wrong")

    with pytest.raises(InputError, match=rf"^{tmp_path}/out is wrong$"):
        fail()
    assert not list(tmp_path.iterdir())


def test_text_is_written_in_utf_8_and_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    write_atomically(tmp_path / "x", "é\r\n")
    assert (tmp_path / "x").read_bytes() == b"\xc3\xa9\r\n"
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, "Read-only")))
    with pytest.raises(InputError, match=r"x cannot be written: Read-only; name another place"):
        write_atomically(tmp_path / "x", "new")
    assert [file.name for file in tmp_path.iterdir()] == ["x"] and (tmp_path / "x").read_bytes() == b"\xc3\xa9\r\n"
