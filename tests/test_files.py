"""Files that the system does not let us write, in one sentence."""

import csv
import errno
import io
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vit_lightning.errors import InputError
from vit_lightning.files import (
    check_place,
    csv_text,
    remove,
    replace,
    special_kind,
    typed_cell,
    unwritable,
    write_atomically,
    written,
)


@pytest.mark.parametrize("place", ["/proc/x", "/dev/null/x"])
def test_what_the_system_refuses_is_a_sentence(place):
    with pytest.raises(InputError, match=f"^{place} cannot be written: .*; name another place$"):
        write_atomically(Path(place), "text")


def test_a_place_is_tried_and_left_as_it_was(tmp_path):
    check_place(tmp_path / "x", "--json")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"^--json /proc/x cannot be written: "):
        check_place(Path("/proc/x"), "--json")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        RuntimeError("[enforce fail at inline_container.cc:664] unexpected pos 64 vs 0"),
        Exception("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_in_the_words_of_system_torch_and_safetensors(error, tmp_path):
    with (
        pytest.raises(InputError, match="out cannot be written: no space left; free space there"),
        written(tmp_path / "out"),
    ):
        raise error
    assert not list(tmp_path.iterdir())


def test_other_exceptions_stay_what_they_are(tmp_path):
    assert unwritable("x", RuntimeError("shapes differ")) is None
    assert unwritable("x", InputError("x cannot be written: no space left")) is None
    with pytest.raises(KeyError), written(tmp_path / "out"):
        raise KeyError("x")


def test_a_device_is_written_in_place(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_place(pipe, "--json")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, "figures")
    assert os.read(reader, 99) == b"figures" and pipe.is_fifo()
    os.close(reader)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is no folder; name another place"):
        check_place(tmp_path / "file" / "x.json", "--json")


def test_files_are_replaced_whole(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_bytes_are_written_as_they_are(tmp_path):
    write_atomically(tmp_path / "a.png", b"\x89PNG\r\n")
    assert (tmp_path / "a.png").read_bytes() == b"\x89PNG\r\n"


@pytest.mark.parametrize("old", ["file", "folder", None])
@pytest.mark.parametrize("new", ["file", "folder"])
def test_a_file_or_folder_replaces_either(tmp_path, old, new):
    for name, kind in (("old", old), ("new", new)):
        if kind == "folder":
            (tmp_path / name).mkdir()
            (tmp_path / name / "part").write_text(name)
        elif kind:
            (tmp_path / name).write_text(name)
    replace(tmp_path / "new", tmp_path / "old")
    left = tmp_path / "old" / "part" if new == "folder" else tmp_path / "old"
    assert left.read_text() == "new" and [path.name for path in tmp_path.iterdir()] == ["old"]


def test_what_is_not_there_needs_no_removal(tmp_path):
    remove(tmp_path / "none")
    (tmp_path / "folder").mkdir()
    remove(tmp_path / "folder")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out", "o[u]t", "o*t", "o.t"])
def test_what_a_killed_call_left_goes_and_what_is_under_way_stays(tmp_path, name):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, live = tmp_path / f".{name}.{ended.pid}.abc", tmp_path / f".{name}.{os.getpid()}.abc"
    others = [
        tmp_path / f".{name}er.{ended.pid}.abc",
        tmp_path / f".{name}.mine",
        tmp_path / f".{name}.{ended.pid}.x.y",
    ]
    others.append(tmp_path / f".oxt.{ended.pid}.abc")
    for folder in (left, live, *others):
        folder.mkdir()
    with written(tmp_path / name) as place:
        place.write_text("x")
    assert not left.exists() and all(folder.is_dir() for folder in (live, *others))
    assert (tmp_path / name).read_text() == "x"


def test_a_limit_on_the_size_of_files_is_no_full_disk(tmp_path):
    error = OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    assert "the size that a file may have here; ulimit -f" in str(unwritable(tmp_path / "x", error))
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); import signal; "
    code += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from vit_lightning.files import write_atomically; "
    code += f"from pathlib import Path; write_atomically(Path({str(tmp_path / 'big')!r}), b'0' * 10**6)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the size that a file may have here; ulimit -f" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_special_kinds(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    assert special_kind(tmp_path / "fifo") == "FIFO" and special_kind(Path("/dev/null")) == "device"
    assert special_kind(tmp_path / "file") is special_kind(tmp_path) is special_kind(tmp_path / "none") is None


@pytest.mark.parametrize("content", ["new", b"new"])
def test_who_reads_while_a_file_is_replaced_keeps_the_old_one(tmp_path, content):
    path = tmp_path / "x"
    path.write_text("old and longer")
    with path.open() as reader:
        write_atomically(path, content)
        assert reader.read() == "old and longer" and path.read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_files_have_the_rights_that_the_umask_leaves(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        with written(tmp_path / "made") as place:
            place.mkdir()
            (place / "model").touch(0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "made" / "model").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("limit", [resource.RLIM_INFINITY, 10**9])
def test_a_disk_is_full_also_where_files_have_a_limit(monkeypatch, limit):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, resource.RLIM_INFINITY))
    for number in (errno.ENOSPC, errno.EDQUOT):
        said = str(unwritable("x", OSError(number, os.strerror(number))))
        assert said == "x cannot be written: no space left; free space there"
    cut = str(unwritable("x", RuntimeError("inline_container.cc:664 unexpected pos")))
    assert ("ulimit -f" in cut) == (limit > 0) and ("no space left" in cut) == (limit < 0)


def test_a_hidden_file_of_nearly_that_name_is_not_ours_to_use(tmp_path):
    (tmp_path / ".a.json").write_text("mine")
    write_atomically(tmp_path / "a.json", "new")
    assert (tmp_path / ".a.json").read_text() == "mine" and (tmp_path / "a.json").read_text() == "new"


def test_more_than_a_pipe_holds_is_written_to_its_reader(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(opened, True)

    def read() -> None:
        with open(opened, "rb") as file:
            found.append(file.read())

    held = os.open(pipe, os.O_WRONLY)  # else the reader would meet the end before the writer's beginning
    reader = threading.Thread(target=read)
    reader.start()
    write_atomically(pipe, b"0123456789" * 50_000)
    os.close(held)
    reader.join()
    assert found == [b"0123456789" * 50_000]


def test_rights_of_what_a_link_points_to_are_left(tmp_path):
    (tmp_path / "own").touch(0o600)
    with written(tmp_path / "made") as place:
        place.mkdir()
        (place / "link").symlink_to(tmp_path / "own")
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600 and (tmp_path / "made" / "link").is_symlink()


def test_an_error_from_within_names_the_path_that_was_given(tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}/out holds nothing$"), written(tmp_path / "out") as place:
        raise InputError(f"{place} holds nothing")
    with pytest.raises(InputError, match="exists already"), written(tmp_path):
        raise AssertionError("nothing is made where something is")


def test_rows_with_line_ends_in_them_are_read_back():
    rows = [["file", "class"], ["a\rb", "x"], ["a\nb", "y"], ["a\u2028b", "=1"], ['say "no"', "a,b"], ["plain", "3"]]
    text = csv_text(rows)
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert [[typed_cell(cell) for cell in row] for row in found] == rows
    assert text.endswith("plain,3\n") and text.count("\r") == 1
