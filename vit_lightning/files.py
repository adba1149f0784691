"""Files and folders: written whole or not at all, replaced, removed; and the sentence where they cannot be written."""

import csv
import difflib
import errno
import glob
import io
import os
import re
import resource
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from vit_lightning.errors import InputError, listing, one_line
from vit_lightning.processes import exists

KINDS = {stat.S_ISFIFO: "FIFO", stat.S_ISSOCK: "socket", stat.S_ISCHR: "device", stat.S_ISBLK: "device"}
"""What a file may be that ends never, or when another process likes."""
TOO_LARGE = "it would exceed the size that a file may have here; ulimit -f unlimited raises it"
"""What the system's word for that leaves open."""
FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""How a cell begins that a spreadsheet computes, or one that was kept from it."""
FEW = 5
"""Names of a folder that are told where none of them is alike the one that is looked for."""
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
"""What is a number in a spreadsheet too."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file to read its bytes, if it is a regular one.

    Raises:
        OSError: if it is not there, may not be read, or is a FIFO, a socket, a device or a folder; its `strerror` says
            so.
    """
    opened = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - the caller closes it
    mode = os.fstat(opened.fileno()).st_mode
    if kind := next((name for is_such, name in KINDS.items() if is_such(mode)), None):
        opened.close()
        raise OSError(errno.EINVAL, f"it is a {kind}, not a regular file", str(path))
    return opened


def special_kind(path: Path) -> str | None:
    """What a path is if reading it may never end, such as a FIFO; None for a file, a folder or nothing."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    return next((name for is_such, name in KINDS.items() if is_such(mode)), None)


def check_regular(path: Path, what: str = "") -> None:
    """Refuse a file to be read that is none, before anything waits for it; a missing file and a folder pass.

    Args:
        path: The file.
        what: What names it and its flag; unset: its path.
    """
    if kind := special_kind(path):
        what = what or str(path)
        raise InputError(f"{what} is a {kind}, not a regular file; copy what it gives to a file and name that")


def _open_at_once(path: str, flags: int) -> int:
    """Open a FIFO without waiting for whoever may write to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def is_utf8(path: str | Path) -> bool:
    """Whether the bytes of a name are UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def in_utf8(path: str | Path) -> Iterator[Path]:
    """Yield a name of a file for libraries that open no other than UTF-8 ones: its own, or that of a link to it."""
    if is_utf8(path):
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "link")
        link.symlink_to(Path(path).absolute())
        yield link


def looked_for_in(path: str | Path) -> str:
    """Say where a relative path was looked for, after the words that it is not there; nothing for an absolute one."""
    return "" if Path(path).expanduser().is_absolute() else f" in {Path.cwd()}"


def meant(path: str | Path) -> str:
    """Say which path may be meant by one that is not there, or what the innermost folder of it holds, after a sentence.

    Nothing is said where that folder is empty, cannot be read, or holds many names of which none is alike.
    """
    if Path(path).expanduser().exists():
        return ""
    missing = Path(path).expanduser()
    rest: list[str] = []
    while not missing.parent.is_dir() and missing.parent != missing:
        rest.insert(0, missing.name)
        missing = missing.parent
    try:
        names = sorted(name for name in os.listdir(missing.parent) if not name.startswith("."))
    except OSError:
        return ""
    by_letters = {name.lower(): name for name in names}
    if near := difflib.get_close_matches(missing.name.lower(), by_letters, n=1, cutoff=0.6):
        found = missing.parent.joinpath(by_letters[near[0]])
        return f"; did you mean {one_line(str(found.joinpath(*rest) if found.joinpath(*rest).exists() else found))}?"
    if not names or len(names) > FEW or (not Path(path).expanduser().is_absolute() and missing.parent == Path()):
        return ""
    return f"; {one_line(str(missing.parent))} holds {listing(names)}"


def check_data_root(root: Path) -> None:
    """Refuse a place of data that is not there, before anything is said of what it lacks."""
    if not root.exists():
        where = looked_for_in(root)
        raise InputError(f"--data.root {root}: no such folder{where}; give the folder of the images{meant(root)}")


def check_place(path: Path, flag: str) -> None:
    """Refuse a file, given with `flag`, that could not be written, before long work for it."""
    if path.is_dir():
        raise InputError(f"{flag} {path} cannot be written: it is a folder; name a file in it")
    if path.parent.exists() and not path.parent.is_dir():
        raise InputError(f"{flag} {path} cannot be written: {path.parent} is no folder; name another place")
    if not path.parent.is_dir():
        raise InputError(
            f"{flag} {path} cannot be written: there is no folder {path.parent}{looked_for_in(path)}; make it first"
        )
    if _is_device(path):
        return
    try:
        tempfile.TemporaryFile(dir=path.parent).close()  # what the system allows, only trying tells
    except OSError as error:
        raise unwritable(f"{flag} {path}", error) or error from error


def unwritable(what: str | Path, error: Exception) -> InputError | None:
    """The sentence about a file or folder that the system does not let us write; None for any other exception.

    torch and safetensors tell of a full disk by exceptions of their own.
    """
    said = str(error).lower()
    if "file too large" in said or getattr(error, "errno", None) == errno.EFBIG:
        return None if isinstance(error, InputError) else InputError(f"{what} cannot be written: {TOO_LARGE}")
    full = any(sign in said for sign in ("inline_container", "no space left", "quota exceeded"))
    if isinstance(error, InputError) or not (full or isinstance(error, OSError)):
        return None
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if full and "inline" in said and limit >= 0:
        return InputError(f"{what} cannot be written: {TOO_LARGE}")
    reason = "no space left" if full else getattr(error, "strerror", None) or error
    if getattr(error, "errno", None) == errno.ENXIO:
        reason = "it is a FIFO or socket from which no process reads"
    return InputError(f"{what} cannot be written: {reason}; {'free space there' if full else 'name another place'}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, so that a reader sees the old content or the new, never a part.

    Raises:
        InputError: the system does not let it be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    data = content.encode() if isinstance(content, str) else content
    try:
        if _is_device(path):
            with open(path, "wb", opener=_open_at_once) as file:
                os.set_blocking(file.fileno(), True)
                file.write(data)
            return
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error) or error from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV whose cells are safe in a spreadsheet.

    A row with a carriage return in it is quoted, which Python's writer does from 3.13 on.
    """
    text = io.StringIO()
    plain, quoted = (csv.writer(text, lineterminator="\n", quoting=each) for each in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for row in rows:
        cells = [spreadsheet_cell(cell) for cell in row]
        (quoted if any("\r" in str(cell) for cell in cells) else plain).writerow(cells)
    return text.getvalue()


def spreadsheet_cell(value: object) -> str:
    """Return a CSV cell as text, behind an apostrophe where a spreadsheet would compute it as a formula.

    One apostrophe is taken off again where a cell is one or more of them and then one of these signs.
    """
    text = str(value)
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def typed_cell(text: str) -> str:
    """Return what `spreadsheet_cell` was given, without the apostrophe that it put there."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def _is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, which is written in place: a file would take its name."""
    return path.exists() and not path.is_file()


def replace(source: Path, target: Path) -> None:
    """Rename over what is there, be it a file or a folder."""
    if source.is_dir() or target.is_dir():
        remove(target)
    os.replace(source, target)


def remove(path: Path) -> None:
    """Remove a file or a folder with all that it holds, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_new(path: Path) -> None:
    """Refuse a file or folder to be made that is there already, before long work for it."""
    if path.exists():
        raise InputError(f"{path} exists already: choose another name, or remove it first.")


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yields a path of the same name in a new folder beside it; what is there at the end takes the place of `path`.

    Args:
        path: file or folder to make; nothing may be there yet.

    Raises:
        InputError: something is there already, or the system does not let it be written.
    """
    check_new(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.{os.getpid()}.") as folder:
            try:
                yield Path(folder) / path.name
            except InputError as error:  # from within: the folder beside the path is no name that was given
                raise InputError(str(error).replace(str(Path(folder) / path.name), str(path))) from error
            for made in Path(folder).iterdir():
                _open_as_usual(made)
                os.replace(made, path.parent / made.name)
    except Exception as error:
        if fault := unwritable(path, error):
            raise fault from error
        raise


def _open_as_usual(made: Path) -> None:
    """Give files the rights that the umask leaves: safetensors writes for its owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    for path in [made, *made.rglob("*")] if made.is_dir() else [made]:
        if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o666 & ~mask)


def _remove_abandoned(path: Path) -> None:
    """Remove what killed calls of `written` have left beside a path; one that is under way keeps its own."""
    for folder in path.parent.glob(f".{glob.escape(path.name)}.*"):
        found = re.fullmatch(rf"\.{re.escape(path.name)}\.(\d+)\.\w+", folder.name)
        if found and folder.is_dir() and not exists(int(found[1])):
            shutil.rmtree(folder, ignore_errors=True)
