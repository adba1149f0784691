"""Images inside tar files, read where they lie: nothing is unpacked."""

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from datamodules.reading.image_files import is_image
from vit_lightning.data.images import check_bytes
from vit_lightning.errors import InputError
from vit_lightning.files import open_regular

BLOCK = tarfile.BLOCKSIZE


class Members(NamedTuple):
    """Images of one tar, in its order."""

    folder: str
    """Names of the tars inside each other, joined by slashes."""
    names: list[str]
    blocks: list[int]
    """Where each image's header lies in the outermost file, in blocks of 512 bytes."""


def scan(path: Path, report: Callable[[InputError], None] | None = None) -> Iterator[Members]:
    """Yield the images of a tar and of each tar inside it.

    Args:
        path: the tar.
        report: called with the fault of each that is compressed, incomplete or damaged; the images that it holds whole
            are yielded all the same.

    Raises:
        InputError: if one is, without `report`.
    """
    try:
        file = open_regular(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read as a tar: {error.strerror}") from error
    with file:
        yield from _scan(file, 0, path, "", report)


def read(path: Path, block: int, name: str) -> bytes:
    """Return a member of a tar.

    Args:
        path: the outermost tar.
        block: where the member's header lies, as `scan` found it.
        name: the member's name, as `scan` found it.

    Raises:
        InputError: if another thing lies there now.
    """
    try:
        with open_regular(path) as file:
            file.seek(block * BLOCK)
            member = tarfile.TarInfo.frombuf(file.read(BLOCK), "utf-8", "surrogateescape")
            check_bytes(member.size, name)
            data = file.read(member.size)
    except (OSError, tarfile.HeaderError) as error:
        raise InputError(_changed(path, name, str(error))) from error
    if len(data) != member.size or not _same(member.name, name):
        raise InputError(_changed(path, name, f"{member.name} lies there"))
    return data


def _scan(
    file: BinaryIO, start: int, path: Path, inside: str, report: Callable[[InputError], None] | None
) -> Iterator[Members]:
    found = Members(path.name + inside, [], [])
    try:
        with tarfile.TarFile(fileobj=file) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if member.isfile() and name.endswith(".tar"):
                    place = start + member.offset_data
                    part = tar.extractfile(member).raw  # behind a buffer, which fails whole where the tar is cut off
                    yield from _scan(part, place, path, f"{inside}/{name}", report)
                elif member.isfile() and is_image(name):
                    found.names.append(name)
                    found.blocks.append((start + member.offset_data) // BLOCK - 1)
            file.seek(tar.offset)
            if file.read(BLOCK) != tarfile.NUL * BLOCK:  # where tarfile just stops
                raise tarfile.ReadError(f"it has no end mark at byte {tar.offset}")
    except tarfile.TarError as error:
        fault = InputError(
            f"{path}{inside} cannot be read as a tar ({error}); fetch it again if it is incomplete, decompress it if "
            "it is .gz"
        )
        if report is None:
            raise fault from error
        report(fault)
        if found.names and not _holds(file, found.blocks[-1] * BLOCK - start):
            del found.names[-1], found.blocks[-1]
    yield found


def _holds(file: BinaryIO, header: int) -> bool:
    """Whether a tar, which may end anywhere, holds all of the member whose header lies there."""
    file.seek(header)
    size = tarfile.TarInfo.frombuf(file.read(BLOCK), "utf-8", "surrogateescape").size
    try:
        return len(file.read(size)) == size
    except tarfile.ReadError:  # of a tar inside a tar that is cut off
        return False


def _same(header: str, name: str) -> bool:
    """Compare a header's name, which has room for 100 characters, with the whole one."""
    return header.removeprefix("./") == name or len(name) >= tarfile.LENGTH_NAME


def _changed(path: Path, name: str, reason: str) -> str:
    return (
        f"{name} is not where the index of {path} says ({reason}); "
        "give --data.reindex true once, for a tar that has changed"
    )
