"""Whether weights are those of a whole net: every tensor there, in its shape and of its kind, and no other."""

from collections.abc import Iterable

import torch
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models import Net
from vit_lightning.weights.layouts import checkpoint
from vit_lightning.weights.layouts.tensor_mapping import TensorMapping, Weights, shape_of


def mappings_of(weights: Weights, net: Net) -> dict[str, TensorMapping]:
    """The table's mappings for the tensors of a net."""
    table = {mapping.ours: mapping for mapping in weights.mappings}
    return {name: table[name] for name in net.state_dict() if name in table}


def check_whole(weights: Weights, net: Net, source: str) -> None:
    """Refuses a file that is not exactly its net: every tensor there, in its shape, and no other."""
    mappings, wanted, held = mappings_of(weights, net), net.state_dict(), weights.stored
    if missing := [name for name in wanted if name not in mappings]:
        if weights.layout == checkpoint.NAME:  # which has a place for any
            raise InputError(f"{source} lacks {some(missing)}: it is damaged or cut down; take another copy of it.")
        raise InputError(f"{source} has no place for {some(missing)} in the layout of {weights.layout}.")
    needed = [name for mapping in mappings.values() for name in mapping.theirs]
    lacking, surplus = [name for name in needed if name not in held], held.keys() - set(needed)
    if lacking and surplus:
        raise InputError(
            f"{source} lacks {some(lacking)} and holds {some(surplus)}: it is of another kind of net than the "
            f"layout of {weights.layout} describes."
        )
    if lacking:
        raise InputError(f"{source} lacks {some(lacking)}: it is cut down.")
    if surplus:
        raise InputError(f"{source} holds {some(surplus)}, unknown in the layout of {weights.layout}.")
    for name, mapping in mappings.items():
        shape, expected = shape_of(mapping, held), tuple(wanted[name].shape)
        if shape != expected:
            raise InputError(
                f"{some(mapping.theirs)} of {source} would make {name} {shape}, but its net needs {expected}."
            )
        for theirs in mapping.theirs:
            check_dtype(theirs, held[theirs].dtype, wanted[name], source)


def check_dtype(name: str, dtype: torch.dtype | None, wanted: Tensor, source: str) -> None:
    """Refuses whole or complex numbers where a net computes with floating-point ones: they would be rounded or cut."""
    if dtype is not None and wanted.is_floating_point() and not dtype.is_floating_point:
        raise InputError(
            f"{name} of {source} is {str(dtype).removeprefix('torch.')}, but its net needs floating-point numbers: it "
            "is damaged or quantised; take weights in float32, float16 or bfloat16."
        )


def some(names: Iterable[str], most: int = 3) -> str:
    """Names for a sentence: the first few, and how many more."""
    names = sorted(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
