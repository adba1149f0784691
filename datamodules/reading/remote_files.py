"""Large files that make up a set, local or remote: fetched ahead of their use, checked, kept, and read in parts."""

import gzip
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, NamedTuple

from filelock import FileLock

from datamodules.reading import array_cache
from datamodules.reading.downloads import TooLarge, download
from vit_lightning.data.sampling import WINDOW
from vit_lightning.errors import InputError
from vit_lightning.files import open_regular

LARGEST_INDEX = 2**31
"""Bytes that an index, a manifest or a list of labels may have."""
OPEN = 64
"""Files that a process keeps open."""
THREADS = 4
"""Files that a process fetches at once, ahead of their use."""
UPLOAD = "upload it again, with the index.json beside it, from the folder that prepare has written"
"""What to do about a shard that does not arrive as it was written."""
RETRY_PAUSES = (0.1, 0.5, 2.0, 10.0)
"""Seconds before each further attempt to fetch a file."""


class MissingFile(InputError):  # noqa: N818
    """A file is not where it must be."""


class RemoteFile(NamedTuple):
    """One file."""

    url: str
    size: int | None = None
    """Bytes that it must have."""
    sha256: str | None = None
    """Checksum that it must have."""


class RemoteFiles(Sequence[RemoteFile]):
    """Files by number. Remote and packed ones are kept in a folder, which all processes share.

    Args:
        files: the files.
        folder: where to keep them.
        limit: GiB to keep; what was used longest ago makes room. None: all.
    """

    def __init__(self, files: Sequence[RemoteFile], folder: Path, limit: float | None = None) -> None:
        self.files = files
        self.folder = folder
        self.limit = limit
        self.remote = any(is_remote(file.url) for file in files)
        self._opened: dict[int, BinaryIO] = {}
        self._threads: dict[int, Thread] = {}
        sizes = [file.size or 0 for file in files]
        least = min(sum(sizes), max(sizes, default=0) * (WINDOW + 2 * THREADS)) / 2**30
        if limit is not None and limit < least:
            raise InputError(f"--data.cache_limit is {limit} GiB, but {least:.2f} are read at a time; give more")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> RemoteFile:
        return self.files[number]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}, "_threads": {}}

    def read(self, number: int, start: int, size: int) -> bytes:
        """Return a part of a file; less, if the file ends before."""
        return os.pread(self.open(number).fileno(), size, start)

    def open(self, number: int) -> BinaryIO:
        """Return a file, open; another may read it at the same time."""
        if number not in self._opened:
            if len(self._opened) >= OPEN:
                self._opened.pop(next(iter(self._opened)))
            self._opened[number] = open_regular(self.path(number))
        return self._opened[number]

    def path(self, number: int) -> Path:
        """Return where a file lies on this machine, after fetching it if need be.

        Raises:
            InputError: if it cannot be had, or is not what it must be.
        """
        place = self._place(number)
        if place.exists():
            if place.parent == self.folder:
                os.utime(place)
        elif place.parent != self.folder:
            raise MissingFile(f"{place} is missing; put it there again, or correct --data.root")
        else:
            self._fetch(number, place)
        return place

    def announce(self, numbers: Iterable[int]) -> None:
        """Begin to fetch files that will be read soon."""
        self._threads = {number: thread for number, thread in self._threads.items() if thread.is_alive()}
        for number in numbers:
            if len(self._threads) >= THREADS:
                return
            if number not in self._threads and not self._place(number).exists():
                self._threads[number] = Thread(target=self._fetch_quietly, args=(number,), daemon=True)
                self._threads[number].start()

    def _place(self, number: int) -> Path:
        url, _, digest = self.files[number]
        if not is_remote(url) and not is_packed(url):
            return Path(url)
        tag = hashlib.sha256(f"{url} {digest}".encode()).hexdigest()[:16]  # a shard that was made anew is another one
        return self.folder / f"{tag}-{url.rpartition('/')[2]}"

    def _fetch_quietly(self, number: int) -> None:
        try:
            self.path(number)
        except Exception:  # who reads the file meets the error again
            return

    def _fetch(self, number: int, place: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_name(f".{place.name}.lock")):
            if place.exists():  # another process was faster
                return
            part = place.with_name(f".{place.name}.part")
            try:
                _patiently(lambda: _get(self.files[number], part), self.files[number])
                part.replace(place)
            finally:
                part.unlink(missing_ok=True)
        self._make_room(place)

    def _make_room(self, newest: Path) -> None:
        if self.limit is None:
            return
        found = []
        for path in self.folder.glob("[!.]*"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another process makes room too
                continue
            found.append((status.st_mtime_ns, status.st_size, path))
        excess = sum(size for _, size, _ in found) - self.limit * 2**30
        for _, size, path in sorted(found):
            if excess <= 0:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                excess -= size


def is_remote(url: str) -> bool:
    """Tell whether a path is an address in a network."""
    return "://" in url


def is_packed(url: str) -> bool:
    """Tell whether a file is compressed as a whole."""
    return url.endswith((".gz", ".tgz"))


def cache_folder(cache: Path | None, root: str) -> Path:
    """Return the folder that keeps files of a root, in `cache` or the user's own cache."""
    name = f"{root.rpartition('/')[2]}-{hashlib.sha256(root.encode()).hexdigest()[:12]}"
    return (array_cache.CACHE_FOLDER if cache is None else Path(cache).expanduser()) / name


def content(url: str) -> bytes | None:
    """Return a small file, or None if there is none."""
    try:
        if not is_remote(url):
            with open_regular(url) as file:
                return file.read()
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "content")
            _patiently(lambda: download(url, place, LARGEST_INDEX), RemoteFile(url))
            return place.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{url} cannot be read: {_reason(error)}") from error


def _patiently(fetch: Callable[[], None], file: RemoteFile) -> None:
    """Fetch a file, again after a pause if that fails."""
    for pause in (*RETRY_PAUSES, None):
        try:
            return fetch()
        except (InputError, FileNotFoundError):
            raise
        except TooLarge as error:
            raise InputError(f"{file.url} cannot be fetched: {error}; {_fix(file)}") from error
        except Exception as error:
            if pause is None:
                raise InputError(f"{file.url} cannot be fetched: {_reason(error)}") from error
            time.sleep(pause)


def _get(file: RemoteFile, part: Path) -> None:
    if is_remote(file.url):
        try:
            download(file.url, part, file.size)
        except FileNotFoundError as error:
            raise MissingFile(f"{file.url} does not exist; upload it, or correct --data.root") from error
    else:
        shutil.copyfile(file.url, part)
    size = part.stat().st_size
    if file.size is not None and size != file.size:
        raise OSError(f"it has {size:,} bytes where {file.size:,} are expected; {_fix(file)}")
    if file.sha256 is not None and sha256(part) != file.sha256:
        raise OSError(f"its checksum is not the one that its index gives; {UPLOAD}")
    if is_packed(file.url):
        unpacked = part.with_name(f"{part.name}.unpacked")
        try:
            with gzip.open(part) as source, unpacked.open("wb") as target:
                shutil.copyfileobj(source, target, 2**20)
            unpacked.replace(part)
        finally:
            unpacked.unlink(missing_ok=True)


def _fix(file: RemoteFile) -> str:
    return UPLOAD if file.sha256 else "fetch it with another --data.cache if it was changed"


def sha256(file: Path) -> str:
    """Return the checksum of a file."""
    with open_regular(file) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text or ("it comes too slowly" if isinstance(error, TimeoutError) else type(error).__name__)
