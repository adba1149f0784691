"""The one table of variants: what a name such as B/16, R50+B/16 or R50x1 means."""

import difflib
import re
from collections.abc import Mapping
from typing import Any

from vit_lightning.errors import InputError

# name: (depth, width, mlp, heads), from the paper's Table 1, AugReg's Table 1 and big_vision.
SIZES = {
    "mu": (1, 32, 128, 2),
    "Ti": (12, 192, 768, 3),
    "S": (12, 384, 1536, 6),
    "M": (12, 512, 2048, 8),
    "B": (12, 768, 3072, 12),
    "L": (24, 1024, 4096, 16),
    "So400m": (27, 1152, 4304, 16),
    "H": (32, 1280, 5120, 16),
    "g": (40, 1408, 6144, 16),
    "g-opt": (40, 1536, 6144, 16),
    "G": (48, 1664, 8192, 16),
    "G-opt": (48, 1536, 8192, 16),
    "e": (56, 1792, 15360, 16),
}

# name and total downsampling of a hybrid's stem: (units per stage, patch on its map).
# R+Ti/16 really downsamples by 32: root 4, patch 8, as in the official code.
STEMS = {
    "R/16": ((0,), 8),
    "R26/32": ((2, 2, 2, 2), 1),
    "R50/32": ((3, 4, 6, 3), 1),
    "R50/16": ((3, 4, 9), 1),
}

# layers: units per stage of a BiT ResNet.
RESNETS = {
    "26": (2, 2, 2, 2),
    "50": (3, 4, 6, 3),
    "101": (3, 4, 23, 3),
    "152": (3, 8, 36, 3),
    "200": (3, 24, 36, 3),
}

RESNET_NAME = re.compile(r"R(\d+)x(\d+(?:\.\d+)?)")

# Names to suggest when a name is unknown.
VARIANTS = (
    *(f"{size}/{patch}" for size in SIZES for patch in (8, 14, 16, 32)),
    *("R+Ti/16", "R26+S/32", "R26+B/32", "R50+B/32", "R50+B/16", "R50+L/32", "R50+L/16"),
    *("R50x1", "R50x2", "R50x3", "R101x1", "R101x3", "R152x1", "R152x2", "R152x4", "R200x3"),
)

# What a variant's name begins with if timm builds the net.
TIMM = "timm/"


def row_of(variant: str) -> dict[str, Any]:
    """Returns the table row of a variant as NetConfig fields.

    Raises:
        InputError: there is no such variant.
    """
    if (match := re.fullmatch(r"(?:(R\d*)\+)?([\w-]+)/([1-9]\d*)", variant)) and match[2] in SIZES:
        stem, size, patch = match.groups()
        row: dict[str, Any] = dict(zip(("depth", "width", "mlp", "heads"), SIZES[size], strict=True))
        if stem is None:
            return row | {"patch": int(patch)}
        if f"{stem}/{patch}" in STEMS:
            stages, patch = STEMS[f"{stem}/{patch}"]
            return row | {"stages": stages, "patch": patch}
    if (match := RESNET_NAME.fullmatch(variant)) and match[1] in RESNETS:
        row = {"stages": RESNETS[match[1]], "width": int(64 * float(match[2])), "pool": "gap", "position": "none"}
        return row | {"heads": 0, "mlp": 0, "patch": 1}
    if variant.startswith(TIMM):
        return dict.fromkeys(("patch", "width", "depth", "heads", "mlp"), 1) | {"pool": "gap", "position": "none"}
    near = _nearest(variant)
    hint = f"did you mean {near}?" if near else "choose for example Ti/16, B/16, R50+B/16 or R50x1."
    raise InputError(f"There is no net variant {variant!r}: {hint}")


def _nearest(variant: str) -> str | None:
    """Returns the variant that is meant: one that differs in its separator or in large letters alone, or is alike."""
    if match := re.fullmatch(r"([A-Za-z]+)[\W_]*([1-9]\d*)", variant):
        sizes = [size for size in SIZES if size == match[1]] or [
            size for size in SIZES if size.lower() == match[1].lower()
        ]
        if sizes:
            return f"{sizes[0]}/{match[2]}"
    names = {name.lower(): name for name in VARIANTS}
    close = difflib.get_close_matches(variant.lower(), names, n=1, cutoff=0.5)
    return names[close[0]] if close else None


def described(variant: str, fields: Mapping[str, Any]) -> str:
    """Returns a variant's name, and the fields of its row that a net has otherwise: B/16 with depth 3, width 192."""
    row = row_of(variant)
    others = [f"{name} {fields[name]}" for name in row if name in fields and fields[name] != row[name]]
    return variant + f" with {', '.join(others)}" * bool(others)
