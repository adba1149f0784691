"""Facts that stand beside tensors in JSON or in a checkpoint, checked before they are used."""

from collections.abc import Mapping
from typing import Any

from vit_lightning.errors import InputError
from vit_lightning.models.config import ResolvedConfig

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and std of ImageNet's images in [0, 1], by channel."""
DINOV2_PATCH, DINOV2_GRID = 14, 37 * 37
"""Patch size and number of patches that every net of DINOv2 was trained with at last (Oquab et al., 2023)."""


def is_dinov2(config: ResolvedConfig, positions: int) -> bool:
    """Return whether a net with so many positions in its file is laid out as those of DINOv2 alone are."""
    is_of_kind = bool(config.layer_scale) and (config.patch, config.channels) == (DINOV2_PATCH, 3)
    return is_of_kind and positions - DINOV2_GRID in (0, 1, 1 + config.registers)


def fact(said: dict[str, Any], name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    """Returns what a config says under a name.

    Args:
        said: the config.
        name: the entry.
        kind: type or types that it must have; float admits int, and int admits no bool.
        default: value of an entry that is not there.

    Raises:
        InputError: the entry has another type.
    """
    value = said.get(name, default)
    if value is default:
        return value
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds + (int,) * (float in kinds)) or (isinstance(value, bool) and bool not in kinds):
        raise InputError(
            f"The file's config says {name}={value!r}, which is no {' or '.join(k.__name__ for k in kinds)}."
        )
    return value


def size_fact(said: dict[str, Any], name: str, default: Any = None) -> tuple[int, int] | None:
    """Returns an image size (y, x) that a config states as one side, as two, or as channels and two.

    Raises:
        InputError: the entry is nothing of the kind.
    """
    value = fact(said, name, (int, list, tuple), default)
    sides = [value, value] if isinstance(value, int) else list(value or [])[-2:]
    if not sides:
        return None
    if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        raise InputError(f"The file's config says {name}={value!r}, which is no image size.")
    return sides[0], sides[1]


def numbers_fact(said: dict[str, Any], name: str, count: int) -> tuple[float, ...] | None:
    """Returns one number per channel; None: the config states none, or for another number of channels.

    Raises:
        InputError: the entry is no list of numbers.
    """
    values = fact(said, name, (list, tuple), None)
    if values is not None and not all(type(value) in (int, float) for value in values):
        raise InputError(f"The file's config says {name}={values!r}, which are no numbers.")
    return tuple(values) if values is not None and len(values) == count else None


def names_in(facts: Mapping[str, Any]) -> list[str]:
    """Return the class names in a checkpoint; for those that are numbers alone, what its training set calls them."""
    names = list(facts.get("class_names") or [])
    seen = facts.get("seen_labels")
    carried = seen.get("class_names") if isinstance(seen, Mapping) else None
    numbers = range(len(names))
    if names != list(map(str, numbers)) or not isinstance(carried, Mapping) or {*carried} != {*numbers}:
        return names
    return [", ".join(carried[number]) for number in numbers]
