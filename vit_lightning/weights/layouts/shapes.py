"""What tensors' shapes tell about a net, and where they leave it open."""

import math
from collections.abc import Iterable

from vit_lightning.errors import InputError
from vit_lightning.models.variants import RESNETS, SIZES, STEMS

# Attention heads by width, for the widths that published nets use with one number of heads only.
_HEADS = [(width, heads) for _, width, _, heads in SIZES.values()]
HEADS = {width: heads for width, heads in _HEADS if all(other == heads for w, other in _HEADS if w == width)}


def heads_of(width: int, given: int | None, known: dict[int, int] = HEADS) -> int:
    """Returns the number of attention heads of a layout that does not store it.

    Args:
        width: width of a token.
        given: what the caller says.
        known: heads by width in the family at hand.

    Raises:
        InputError: the width is none that published nets have, and the caller does not say.
    """
    if given is None and width not in known:
        raise InputError(
            f"The file does not say how many attention heads its width of {width} has, and no published net has that "
            "width: pass heads, the number of attention heads."
        )
    heads = given or known[width]
    if width % heads:
        raise InputError(f"{heads} heads do not divide the file's width of {width}: pass its true number of heads.")
    return heads


Size = tuple[int, int]


def settle_table(
    length: int, prefixes: Iterable[int], patch: int, stated: Size | None, wanted: Size | None, stem: int = 1
) -> tuple[int, Size]:
    """Returns how many rows of a position table belong to no patch, and the image size that the table is for.

    Args:
        length: rows of the table.
        prefixes: numbers of leading rows that the layout can have.
        patch: side of a patch, on the stem's map if there is one.
        stated: image size (y, x) that the file states.
        wanted: image size that the caller works with; it may be the table's own where no square grid fits.
        stem: pixels of the image per pixel of the stem's map.

    Raises:
        InputError: no grid of patches fits, or several do.
    """
    cell = patch * stem
    sides = {prefix: math.isqrt(max(length - prefix, 0)) for prefix in prefixes}
    squares = [(prefix, (side * cell, side * cell)) for prefix, side in sides.items() if 0 < side**2 == length - prefix]

    def fitting(size: Size | None) -> list[tuple[int, Size]]:
        patches = math.prod(-(-side // stem) // patch for side in size) if size else 0
        return [(prefix, size) for prefix in sides if size and 0 < patches == length - prefix]

    for found in (fitting(stated), squares, fitting(wanted)):
        if len(found) == 1:
            return found[0]
    raise InputError(
        f"A position table of {length} rows fits {'several grids' if squares else 'no square grid'} of patches: "
        "pass the image size that it was made for, as (y, x) in pixels."
    )


def variant_of(stages: tuple[int, ...], patch: int, row: tuple[int, int, int, int]) -> str:
    """Returns the name of the variant that is nearest to a file's net, for people to read.

    Args:
        stages: ResNet units per stage in front of the patches.
        patch: side of a patch, on the ResNet's map if there is one.
        row: depth, width, MLP width and heads.
    """
    size = next((name for name, known in SIZES.items() if known == row), "B")
    stem = next((name for name, known in STEMS.items() if known == (stages, patch)), None)
    if stem is None:
        return f"{size}/{patch}"
    root, _, total = stem.partition("/")
    return f"{root}+{size}/{total}"


def stem_scale(stages: tuple[int, ...]) -> int:
    """Returns how many pixels of an image become one of the map behind a hybrid's stem; 1: there is no stem."""
    return 2 ** (len(stages) + 1) if stages else 1


def resnet_variant(stages: tuple[int, ...], width: int) -> str:
    """Returns the name of the BiT that is nearest to a file's net, for people to read.

    Args:
        stages: units per stage.
        width: channels of the root.
    """
    layers = next((name for name, units in RESNETS.items() if units == stages), "50")
    return f"R{layers}x{width / 64:g}"
