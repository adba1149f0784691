"""Sharded checkpoints: folders into which every process of a ModelParallelStrategy wrote its part of each tensor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from vit_lightning.files import check_regular
from vit_lightning.runs.checkpoint_names import FACTS


def read_facts(path: Path) -> dict[str, Any]:
    """Return all that is not sharded: hyper-parameters, progress, callbacks."""
    for file in path.iterdir():
        check_regular(file, str(file))
    return torch.load(path / FACTS, map_location="cpu", weights_only=True)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the whole tensors of the model by name."""
    return _read(path, lambda place: place[0] == "state_dict")["state_dict"]


def read_shapes(path: Path) -> dict[str, Tensor]:
    """Return the model's tensors by name without their storage."""
    metadata = dcp.FileSystemReader(path).read_metadata()
    shapes = {place: metadata.state_dict_metadata[key] for key, place in metadata.planner_data.items()}
    return {
        str(place[-1]): torch.empty(stored.size, dtype=stored.properties.dtype, device="meta")
        for place, stored in shapes.items()
        if place[0] == "state_dict" and isinstance(stored, TensorStorageMetadata)
    }


def read_sharded_run(path: Path) -> dict[str, Any]:
    """Return a checkpoint as a single process would have written it, its optimisers' states included."""
    held = _read(path, lambda place: True)
    names = sorted(name for name in held if name.startswith("optimizer_"))
    return read_facts(path) | {
        "state_dict": held["state_dict"],
        "optimizer_states": [_by_number(held[name]) for name in names],
    }


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
