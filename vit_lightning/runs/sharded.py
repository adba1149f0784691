"""Sharded checkpoints: folders into which every process of a ModelParallelStrategy wrote its part of each tensor.

Imported where one is read: torch's part for it takes long to load.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.tensor import DTensor, distribute_tensor

from vit_lightning.files import check_regular, in_utf8
from vit_lightning.runs.checkpoint_names import FACTS, RAW, is_sharded


def read_facts(path: Path) -> dict[str, Any]:
    """Return all that is not sharded: hyper-parameters, progress, callbacks."""
    for file in path.iterdir():
        check_regular(file, str(file))
    with in_utf8(path / FACTS) as name:
        return torch.load(name, map_location="cpu", weights_only=True)


def read_weights(path: Path) -> dict[str, dict[str, Tensor]]:
    """Return the whole tensors of the model by name, and beside an average's those that were trained, by their keys."""
    return _with_raw_beside(_read(path, lambda place: place[0] == "state_dict"))


def read_shapes(path: Path) -> dict[str, Tensor]:
    """Return the model's tensors by name without their storage."""
    metadata = dcp.FileSystemReader(path).read_metadata()
    shapes = {place: metadata.state_dict_metadata[key] for key, place in metadata.planner_data.items()}
    return {
        str(place[-1]): torch.empty(stored.size, dtype=stored.properties.dtype, device="meta")
        for place, stored in shapes.items()
        if place[0] == "state_dict" and len(place) == 2 and isinstance(stored, TensorStorageMetadata)
    }


def read_sharded_run(path: Path) -> dict[str, Any]:
    """Return a checkpoint as a single process would have written it, its optimisers' states included."""
    held = _with_raw_beside(_read(path, lambda place: True))
    states = [_by_number(held.pop(name)) for name in sorted(held) if name.startswith("optimizer_")]
    return read_facts(path) | held | {"optimizer_states": states}


@torch.no_grad()
def read_into(path: Path, averaged: dict[str, Tensor], trained: dict[str, Tensor]) -> None:
    """Fill shards with the averaged and the trained weights of a checkpoint: of a folder, or of a file."""
    if is_sharded(path):
        dcp.load({"state_dict": averaged | {RAW: trained}}, checkpoint_id=path)
        return
    with in_utf8(path) as name:
        whole = torch.load(name, map_location="cpu", weights_only=True, mmap=True)
    for key, tensors in (("state_dict", averaged), (RAW, trained)):
        for name, tensor in tensors.items():
            tensor.copy_(_sharded_as(tensor, whole[key][name]))


def _with_raw_beside(held: dict[str, Any]) -> dict[str, Any]:
    """What a folder holds, with the trained weights beside the averaged ones as in a file."""
    raw = held["state_dict"].pop(RAW, None)
    return held if raw is None else held | {RAW: raw}


def _sharded_as(tensor: Tensor, whole: Tensor) -> Tensor:
    """Cut a whole tensor, which every process has, as another one is."""
    if isinstance(tensor, DTensor):
        return distribute_tensor(whole, tensor.device_mesh, tensor.placements, src_data_rank=None)
    return whole


def _read(path: Path, wanted: Callable[[tuple], bool]) -> dict[str, Any]:
    reader = dcp.FileSystemReader(path)
    metadata = reader.read_metadata()
    places = {key: place for key, place in metadata.planner_data.items() if wanted(place)}
    stored = metadata.state_dict_metadata
    flat = {key: _place_for(stored[key]) for key in places}
    dcp.load(flat, storage_reader=reader, no_dist=True)
    nested: dict[str, Any] = {}
    for key, place in places.items():
        inner = nested
        for name in place[:-1]:
            inner = inner.setdefault(name, {})
        inner[place[-1]] = flat[key]
    return nested


def _place_for(stored: Any) -> Tensor | None:
    """A tensor to read one into; None for anything else."""
    if isinstance(stored, TensorStorageMetadata):
        return torch.empty(stored.size, dtype=stored.properties.dtype)
    return None


def _by_number(state: dict[str, Any]) -> dict[str, Any]:
    """An optimiser's state with parameters by their number, as torch has it, in place of their names."""
    groups = state["param_groups"]
    groups = [groups[number] for number in sorted(groups)] if isinstance(groups, dict) else groups
    numbers = {name: number for number, name in enumerate(name for group in groups for name in group["params"])}
    return {
        "state": {numbers[name]: values for name, values in state["state"].items()},
        "param_groups": [{**group, "params": [numbers[name] for name in group["params"]]} for group in groups],
    }
