"""Arrays that are computed once, kept in a file, and mapped into memory by every process that opens it."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR
from zlib import crc32

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from datamodules.reading.shared_sequences import Ragged, Strings
from vit_lightning.errors import InputError

CACHE_FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vit_lightning"
"""Folder of such files unless the user names another one."""

CHECKSUM = "crc32"
_compared: set[tuple[str, int, int, int]] = set()
"""Files whose checksum this process or its parent has compared, in their present state."""


class MappedStrings(Strings):
    """Strings in a file that `save` has written.

    Args:
        file: the file.
        name: their name in it.
    """

    def __init__(self, file: Path, name: str) -> None:
        self.file = file
        self.name = name
        arrays = load(file)
        self.text = arrays[f"{name}.text"]
        self.ends = arrays[f"{name}.ends"]

    def __reduce__(self) -> tuple:
        return MappedStrings, (self.file, self.name)


def cache_file(cache: Path | None, source: Path, version: str) -> Path:
    """Return the file that keeps what was computed from a source.

    Args:
        cache: folder of such files; None: `CACHE_FOLDER`.
        source: the folder or file, absolute.
        version: what was computed and how, so that a later version does not meet an earlier one's file.
    """
    digest = hashlib.sha256(f"{version}\n{source}".encode(errors="surrogateescape")).hexdigest()
    return (CACHE_FOLDER if cache is None else Path(cache).expanduser()) / f"{source.name}-{digest[:12]}.safetensors"


def save(file: Path, arrays: Mapping[str, np.ndarray | Strings | Ragged]) -> None:
    """Write arrays to a file, completely or not at all."""
    plain = {}
    for name, value in arrays.items():
        match value:
            case Strings():
                plain |= {f"{name}.text": value.text, f"{name}.ends": compact(value.ends)}
            case Ragged():
                plain |= {f"{name}.values": value.values, f"{name}.ends": compact(value.ends)}
            case _:
                plain[name] = value
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
            made = Path(folder) / file.name
            made.touch()
            mode = made.stat().st_mode
            save_file(plain, made, {CHECKSUM: str(_checksum(plain))})
            made.chmod(mode)  # safetensors makes it unreadable for others
            made.replace(file)
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}); give --data.cache a folder for it") from error


def load(file: Path) -> dict[str, np.ndarray]:
    """Map the arrays of a file; their pages are read when they are used, and shared by all processes.

    Raises:
        InputError: if the file is damaged; its checksum is compared once in a process.
    """
    try:
        status = os.stat(file)
        with safe_open(file, "pt") as opened:  # for numpy it would copy
            arrays = {name: opened.get_tensor(name).numpy() for name in opened.keys()}  # noqa: SIM118
            stated = opened.metadata()
    except SafetensorError as error:
        raise InputError(f"{file} is damaged ({error}); remove it to have it made anew") from error
    state = str(file), status.st_ino, status.st_mtime_ns, status.st_size
    if state not in _compared and stated is not None:  # earlier versions wrote none
        if stated.get(CHECKSUM) != str(_checksum(arrays)):
            raise InputError(f"{file} is damaged (its checksum is another); remove it to have it made anew")
        _compared.add(state)
    return arrays


def _checksum(arrays: Mapping[str, np.ndarray]) -> int:
    """Return a checksum of arrays with their names and forms, in which no wrong byte goes unnoticed."""
    found = 0
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found = crc32(f"{name} {array.dtype} {array.shape}".encode(), found)
        found = crc32(array.reshape(-1).view(np.uint8), found)
    return found


def file_state(path: Path) -> tuple[int, int]:
    """Return what changes with a file's content or with a folder's entries; (0, 0) if nothing is there."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_mtime_ns, 0 if S_ISDIR(status.st_mode) else status.st_size


def content_state(path: Path) -> tuple[int, int, int, int]:
    """Return what changes with a file's content, even where its size stays and its time is set back; zeros if none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino % 2**63


def compact(values: np.ndarray) -> np.ndarray:
    """Return whole numbers from 0 in 32 bits if they fit."""
    return values.astype(np.uint32) if values.max(initial=0) < 2**32 else values
