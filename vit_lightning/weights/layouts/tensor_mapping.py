"""The reversible table: where each of our tensors lies in another layout, and how its axes are arranged there.

Read forwards, a mapping imports; with the sides of its pattern swapped it exports the very same numbers.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from einops import EinopsError, rearrange
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models.config import ResolvedConfig
from vit_lightning.weights.archive import Stored
from vit_lightning.weights.layouts.facts import IMAGENET

SAME = "... -> ..."
# Several of their tensors, laid one after the other along our first axis: weights and biases alike.
CONCATENATE = "s o ... -> (s o) ..."
# A convolution's kernel as the matrix that projects a flattened patch (equation 1 of the paper).
PATCHES = "d c p q -> d (p q c)"


@dataclass(frozen=True)
class TensorMapping:
    """One tensor of ours and what holds it elsewhere.

    Args:
        ours: our name.
        theirs: their name, or several names whose tensors are stacked along a new first axis.
        pattern: einops pattern "theirs -> ours"; empty: the same tensor.
    """

    ours: str
    theirs: tuple[str, ...]
    pattern: str = ""


@dataclass
class Weights:
    """A weights file, understood so far that a net can be built for it; tensors are read when they are needed.

    Args:
        layout: whose layout it is, in words.
        config: the resolved config of the net that the file belongs to.
        image_size: (y, x) in pixels that the positions were made for.
        num_classes: size of the head; 0: the file has none.
        mappings: how our names map to the file's.
        stored: the file's tensors by their names in the table.
        dropped: tensors of the file that no net needs, with the reason.
        notes: what the file does not say and we took for granted.
        assumed: fields of the config that neither the file's tensors nor its config tell.
        mean, std: how the images that it expects were normalised; None: the file does not say.
        window: values of its images that became 0 and 1; None: those of 8 bits, or the file does not say.
        class_names: in the head's order; empty: the file does not say.
        training: what a checkpoint of ours says about its run: recipe, data, step, metrics.
        of_data: what a checkpoint of ours keeps of its data, under the keys that it has there: split and seen labels.
        is_dinov2: whether the net is laid out as those of DINOv2 alone are.
        assumes_statistics: whether mean and std are not the file's own, but those of all nets of its kind.
    """

    layout: str
    config: ResolvedConfig
    image_size: tuple[int, int]
    num_classes: int
    mappings: list[TensorMapping]
    stored: dict[str, Stored]
    dropped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    assumed: tuple[str, ...] = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    window: tuple[float, float] | None = None
    class_names: list[str] = field(default_factory=list)
    training: dict[str, Any] = field(default_factory=dict)
    of_data: dict[str, Any] = field(default_factory=dict)
    is_dinov2: bool = False
    assumes_statistics: bool = False

    def assume_statistics(self) -> None:
        """Takes ImageNet's mean and std for a net of DINOv2 whose file says none: all of these were trained so."""
        if not self.is_dinov2 or self.mean or self.std:
            return
        self.mean, self.std = IMAGENET
        self.assumes_statistics = True
        self.notes.append(
            "the file does not say the images' mean and std: ImageNet's are assumed, as for every net of DINOv2; "
            "--data.mean and --data.std (of convert and export: --mean and --std) state others"
        )


def pair(ours: str, theirs: str | tuple[str, ...], weight: str = "", bias: str = "") -> list[TensorMapping]:
    """Returns the mappings of a layer's `weight` and `bias` that are called the same on both sides.

    Args:
        ours: our layer.
        theirs: their layer or layers.
        weight: pattern of the weight.
        bias: pattern of the bias.
    """
    layers = (theirs,) if isinstance(theirs, str) else theirs
    return [
        TensorMapping(f"{ours}.{part}", tuple(f"{layer}.{part}" for layer in layers), pattern)
        for part, pattern in (("weight", weight), ("bias", bias))
    ]


def shape_of(mapping: TensorMapping, stored: dict[str, Stored]) -> tuple[int, ...]:
    """Returns the shape that theirs would give our tensor, without reading anything.

    Raises:
        InputError: theirs do not have the axes that the layout prescribes.
    """
    first, *others = (stored[name].shape for name in mapping.theirs)
    whole = torch.empty((1 + len(others), *first) if others else first, device="meta")
    try:
        if any(shape != first for shape in others):
            raise EinopsError
        return tuple(rearrange(whole, mapping.pattern or SAME).shape)
    except EinopsError as error:
        shapes = ", ".join(f"{name} {stored[name].shape}" for name in mapping.theirs)
        raise InputError(f"The axes of {shapes} are not those of the layout ({mapping.pattern}).") from error


def to_ours(mapping: TensorMapping, stored: dict[str, Stored]) -> Tensor:
    """Returns our tensor from theirs, whose shapes `shape_of` has checked."""
    if not mapping.pattern:
        return stored[mapping.theirs[0]].read()
    tensors = [(stored[name].glance or stored[name].read)() for name in mapping.theirs]
    return rearrange(tensors if len(tensors) > 1 else tensors[0], mapping.pattern)


def to_theirs(
    mappings: list[TensorMapping], state: dict[str, Tensor], config: ResolvedConfig, layout: str
) -> dict[str, Tensor]:
    """Returns their tensors from all of ours: the exact inverse of `to_ours`.

    Raises:
        InputError: the layout has no place for one of ours.
    """
    table = {mapping.ours: mapping for mapping in mappings}
    if missing := [name for name in state if name not in table]:
        raise InputError(
            f"The layout of {layout} has no place for {missing[0]}: convert to checkpoint, which holds any."
        )
    theirs: dict[str, Tensor] = {}
    for name, tensor in state.items():
        mapping = table[name]
        left, right = (mapping.pattern or SAME).split(" -> ")
        sizes = {"s": len(mapping.theirs), "h": config.heads, "p": config.patch, "q": config.patch}
        sizes = {axis: size for axis, size in sizes.items() if axis in re.findall(r"\w", right)}
        parts = rearrange(tensor, f"{right} -> {left}", **sizes)
        for theirs_name, part in zip(mapping.theirs, parts if len(mapping.theirs) > 1 else [parts], strict=True):
            theirs[theirs_name] = part.detach().clone(memory_format=torch.contiguous_format)
    return theirs


def axes(stored: dict[str, Stored], name: str, pattern: str) -> dict[str, int]:
    """Returns the sizes of a tensor's axes by the names that `pattern` gives them.

    Raises:
        InputError: the tensor is missing, or has another number of axes.
    """
    if name not in stored:
        raise InputError(f"The file lacks the tensor {name}: it may be cut down, or of another layout.")
    names, shape = pattern.split(), stored[name].shape
    if len(names) != len(shape):
        raise InputError(f"{name} has the shape {shape}, which does not have the layout's axes ({pattern}).")
    return dict(zip(names, shape, strict=True))


def rename(stored: dict[str, Stored], new: Callable[[str], str]) -> dict[str, Stored]:
    """Returns the tensors under new names.

    Raises:
        InputError: two tensors get the same name.
    """
    renamed = {new(name): tensor for name, tensor in stored.items()}
    if len(renamed) < len(stored):
        raise InputError("Two tensors of the file have the same meaning: it mixes two layouts or two nets.")
    return renamed


def blocks_in(stored: Collection[str], pattern: str) -> int:
    """Returns the number of blocks: one more than the largest number that `pattern` captures in a name.

    Raises:
        InputError: there are more blocks than tensors.
    """
    count = 1 + max((int(match[1]) for name in stored if (match := re.match(pattern, name))), default=-1)
    if count > len(stored):
        raise InputError(f"The file counts {count} blocks, but holds {len(stored)} tensors: its names are damaged.")
    return count


def with_class_row(table: Stored) -> Stored:
    """Returns a position table that gives the class token the position zero, which it has in a layout without one."""

    def read() -> Tensor:
        rows = table.read()
        return torch.cat([torch.zeros_like(rows[:, :1]), rows], dim=1)

    one, length, width = table.shape
    return Stored((one, length + 1, width), read)


def fill_biases(stored: dict[str, Stored], biases: dict[str, int]) -> list[str]:
    """Gives layers that were made without bias one of zeros, which changes nothing, and returns a note of it.

    Args:
        stored: the tensors; those of `biases` are added if none of them is there.
        biases: names and lengths.
    """
    if any(name in stored for name in biases):
        return []
    stored |= {name: Stored((length,), partial(torch.zeros, length)) for name, length in biases.items()}
    return [f"no {next(iter(biases))} in the file: zeros, which change nothing"]
