"""Low-rank updates (LoRA) in our own files, merged into the kernels that they belong to."""

import math
from pathlib import Path
from typing import Any

from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models.lora import PART, merged
from vit_lightning.weights.archive import Stored
from vit_lightning.weights.layouts.facts import fact


def with_merged_kernels(stored: dict[str, Stored], facts: dict[str, Any], path: Path) -> tuple[dict[str, Stored], int]:
    """Returns the tensors without factors of updates, kernels that had some updated, and the number of these.

    Args:
        stored: the net's tensors by name.
        facts: the checkpoint's hyper-parameters.
        path: the file, for messages.

    Raises:
        InputError: a kernel's factors are not those of an update of it.
    """
    layers = sorted({name.partition(PART)[0] for name in stored if PART in name})
    if not layers:
        return stored, 0
    alpha = fact(fact(facts, "lora", dict, {}), "alpha", (int, float), 0)
    plain = {name: tensor for name, tensor in stored.items() if PART not in name}
    for layer in layers:
        kernel = f"{layer}.weight"
        parts = [stored.get(name) for name in (kernel, f"{layer}{PART}a", f"{layer}{PART}b")]
        plain[kernel] = _updated(kernel, parts, alpha, path)
    return plain, len(layers)


def _updated(name: str, parts: list[Stored | None], alpha: float, path: Path) -> Stored:
    found = [part for part in parts if part is not None and len(part.shape) == 2]
    floats = all(part.dtype is None or part.dtype.is_floating_point for part in found)
    if len(found) == 3 and floats and 0 < alpha < math.inf:
        weight, a, b = found
        (rows, columns), rank = weight.shape, a.shape[0]
        if rank and a.shape == (rank, columns) and b.shape == (rows, rank):

            def read() -> Tensor:
                kernel = weight.read()
                return merged(kernel.float(), a.read().float(), b.read().float(), alpha / rank).to(kernel.dtype)

            return Stored(weight.shape, read, dtype=weight.dtype)
    shapes = ", ".join("none" if part is None else str(part.shape) for part in parts)
    raise InputError(
        f"{path} is damaged: {name} and the factors A and B of its low-rank update have the shapes {shapes}, with "
        f"alpha {alpha}, which do not belong together; give another checkpoint"
    )
