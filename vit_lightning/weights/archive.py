"""Opening weights files of every format without running code from them."""

import argparse
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.files import check_regular, in_utf8
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import is_sharded, is_whole
from vit_lightning.runs.checkpoint_structure import check_structure
from vit_lightning.weights.averages import innermost, without_the_other

FOLDER_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
T = TypeVar("T")


@dataclass(frozen=True)
class Stored:
    """A tensor in a file, read on demand.

    Args:
        shape: its shape.
        read: reads it; the tensor may go on using the mapped file.
        glance: reads it for a moment, without keeping the file mapped; None: `read` does not either.
        dtype: what its numbers are, if that is known before it is read.
    """

    shape: tuple[int, ...]
    read: Callable[[], Tensor]
    glance: Callable[[], Tensor] | None = None
    dtype: torch.dtype | None = None


@dataclass
class Archive:
    """The tensors of a file by name, and the plain facts that came with them.

    Args:
        path: the file or folder.
        stored: every tensor.
        facts: what our own files say about themselves.
        dropped: tensors of a second net in the file, with the reason.
        notes: which of two nets was taken.
    """

    path: Path
    stored: dict[str, Stored]
    facts: dict[str, Any] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def json(self, name: str) -> dict[str, Any]:
        """Returns the object in a JSON file beside the tensors; empty if there is no such file.

        Raises:
            InputError: the file holds no JSON object.
        """
        return _json((self.path if self.path.is_dir() else self.path.parent) / name)


def open_archive(path: Path, raw: bool = False) -> Archive:
    """Opens a file or a folder; the content decides about the format, not the name.

    Args:
        path: safetensors, npz, a torch file, or a folder with one of them and its config.json.
        raw: of a file with averaged weights, take those that were trained.

    Raises:
        InputError: the file is damaged, holds no tensors, or could only be read by running code from it.
    """
    archive = _guarded(path, partial(_open_folder if path.is_dir() else _open_file, path, raw))
    if not archive.stored:
        raise InputError(f"{path} holds no tensors: give the file that holds the weights.")
    archive.dropped, notes = without_the_other(archive.stored, raw)
    archive.stored = {name: tensor for name, tensor in archive.stored.items() if name not in archive.dropped}
    archive.notes += notes
    if raw and not archive.notes:
        raise InputError(f"{path} holds no averaged weights, so none of its weights are the raw ones: leave out raw.")
    return archive


def _guarded(path: Path, read: Callable[[], T]) -> T:
    """Reads foreign bytes; whatever a parser makes of damaged ones becomes one sentence."""
    try:
        return read()
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, pickle.UnpicklingError) and "weights_only" in str(error).lower():
            raise _needs_code(path) from error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        raise InputError(f"{path} cannot be read ({reason}): it may be cut off, or of another format.") from error


def _needs_code(path: Path) -> InputError:
    return InputError(f"{path} holds Python objects, which only running its code could read: ask for safetensors.")


def _json(path: Path) -> dict[str, Any]:
    content = _guarded(path, lambda: json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object: it is not the config of a net.")
    return content


def _open_folder(path: Path, raw: bool) -> Archive:
    if is_sharded(path):
        from vit_lightning.runs.sharded import read_facts, read_weights

        return archive_of(path, read_facts(path) | read_weights(path), raw)
    if (path / ".metadata").is_file():
        raise InputError(f"{path} is a sharded checkpoint that was not written to its end: give the one before it.")
    name = next((name for name in FOLDER_FILES if (path / name).is_file()), None)
    if name is None and any(map(folders.is_run, path.iterdir())):
        raise InputError(f"{path}: {folders.not_a_run(path)}")
    if name is None:
        raise InputError(f"The folder {path} holds none of {', '.join(FOLDER_FILES)}: name the weights file itself.")
    if not name.endswith(".index.json"):
        return _open_file(path / name, raw)
    stored: dict[str, Stored] = {}
    for part in sorted(set(_json(path / name)["weight_map"].values())):
        stored |= _open_file(path / Path(part).name, raw).stored
    return Archive(path, stored)


def _open_file(path: Path, raw: bool) -> Archive:
    check_regular(path, str(path))
    with path.open("rb") as file:
        start = file.read(9)
    if start.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            arrays = any(name.endswith(".npy") for name in archive.namelist())
        if arrays:
            return _open_npz(path)
        if not is_whole(path):
            raise InputError(f"{path} is damaged: it does not hold what was written; take another copy of it.")
        return _open_torch(path, raw)
    if start[8:] == b"{":
        return _open_safetensors(path)
    if start.startswith(b"\x80"):
        return _open_torch(path, raw)
    raise InputError(f"{path} is neither safetensors nor npz nor a torch file: look at what it really is.")


def _stored(
    path: Path,
    shape: tuple[int, ...],
    read: Callable[[], Tensor],
    glance: Callable[[], Tensor] | None = None,
    dtype: torch.dtype | None = None,
) -> Stored:
    """A tensor that is in float32 once read, if it is a floating-point one."""

    def convert(read: Callable[[], Tensor]) -> Tensor:
        tensor = _guarded(path, read)
        return tensor.float() if tensor.is_floating_point() else tensor

    return Stored(tuple(shape), partial(convert, read), glance and partial(convert, glance), dtype)


def _in_memory(tensor: Tensor) -> Tensor:
    return tensor


def _open_safetensors(path: Path) -> Archive:
    """Tensors stay views of the mapped file until they are written to."""
    with in_utf8(path) as name:
        file = safe_open(name, framework="pt")

    def glance(name: str) -> Tensor:
        with in_utf8(path) as link, safe_open(link, framework="pt") as again:
            return again.get_tensor(name)

    stored = {
        name: _stored(path, file.get_slice(name).get_shape(), partial(file.get_tensor, name), partial(glance, name))
        for name in file.keys()  # noqa: SIM118 (it is no mapping)
    }
    return Archive(path, stored, facts=json.loads((file.metadata() or {}).get("vit_lightning", "{}")))


def _open_npz(path: Path) -> Archive:
    archive = zipfile.ZipFile(path)
    stored = {}
    for member in archive.namelist():
        with archive.open(member) as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(file)
        if dtype.hasobject:
            raise _needs_code(path)
        stored[member.removesuffix(".npy")] = _stored(path, shape, partial(_read_array, archive, member))
    return Archive(path, stored)


def _read_array(archive: zipfile.ZipFile, member: str) -> Tensor:
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    if array.dtype.itemsize == 2 and array.dtype.kind == "V":
        # bfloat16, which numpy lacks: the upper half of a float32.
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return torch.from_numpy(array)


def _open_torch(path: Path, raw: bool) -> Archive:
    # The arguments of training that MAE's files hold are plain values under names.
    with torch.serialization.safe_globals([argparse.Namespace]):
        if path.suffix == ".safetensors":
            # torch would go by the name.
            with path.open("rb") as file:
                content = torch.load(file, map_location="cpu", weights_only=True)
        else:
            with in_utf8(path) as name:
                content = torch.load(name, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__} in place of named tensors: save a state_dict.")
    return archive_of(path, content, raw)


def archive_of(path: Path, content: dict[str, Any], raw: bool = False) -> Archive:
    """Returns the tensors and facts in what a training code saved: `open_archive` has the arguments."""
    facts = content if "hyper_parameters" in content else {}
    if isinstance(hyper := facts.get("hyper_parameters"), dict) and "net" in hyper:
        check_structure(path, content)
    tensors, notes = innermost(content, raw)
    stored = {
        name: _stored(path, tensor.shape, partial(_in_memory, tensor), dtype=tensor.dtype)
        for name, tensor in tensors.items()
        if isinstance(name, str) and isinstance(tensor, Tensor)
    }
    return Archive(path, stored, facts, notes=notes)
