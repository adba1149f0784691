"""Which fields of a net a layout has no place for, and which layouts hold it: found by trying on a small net."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, build
from vit_lightning.weights.report import Report

Saves = Callable[[Net, Report, Path, str], float]
NAMED = ("npz", "timm", "huggingface", "torchvision")
"""Layouts that hold some nets; a checkpoint holds any."""
SIZES = ("variant", "patch", "stride", "width", "depth", "heads", "mlp", "channels", "stages", "resnet_code")
TRAINING = ("attention_init", "dropout", "stochastic_depth", "patch_dropout", "head_bias")
"""Fields that no layout need hold."""
SMALL = NetConfig("Ti/8", width=32, depth=1, heads=2, mlp=128)
SIDE = 32


def unheld(net: Net, to: str, save: Saves) -> str | None:
    """Return the sentence about a net that a layout cannot hold; None where no field of it is the reason.

    Args:
        net: The net.
        to: Name of the layout.
        save: What writes a net, reads it back, and raises where that is another one.
    """
    config = net.config
    if config.stages:
        found = {"stages": config.stages} if to in ("huggingface", "torchvision") else {}
        holders = [] if not found else ["npz", "timm"][config.resnet_code == "timm" :][:1]
    else:
        given = {field.name: getattr(config, field.name) for field in fields(NetConfig)}
        given = {name: value for name, value in given.items() if name not in (*SIZES, *TRAINING)}
        found = _hindering(given, to, save)
        holders = [name for name in NAMED if name != to and found and _holds(given, name, save)]
    if not found:
        return None
    named = " and ".join(f"net.{name}={value}" for name, value in found.items())
    others = f"{', '.join(holders)} or checkpoint" if holders else "checkpoint, which holds any"
    return f"The layout of {to} cannot hold a net with {named}: convert to {others}."


def _hindering(given: dict[str, Any], to: str, save: Saves) -> dict[str, Any]:
    """Fields that a small net, otherwise such as the layout holds, cannot have there."""
    plain = _plain(to, save)
    own = {name: value for name, value in given.items() if value != plain[name]}
    found = {name: value for name, value in own.items() if not _holds(plain | {name: value}, to, save)}
    if "pool" in own and "pool" not in found:  # others may ask for this pooling
        beside = plain | {"pool": own["pool"], "class_token": given["class_token"]}
        found = {name: value for name, value in found.items() if not _holds(beside | {name: value}, to, save)}
    return {name: value for name, value in found.items() if name != "class_token" or "pool" not in found}


@cache
def _plain(to: str, save: Saves) -> dict[str, Any]:
    """Fields of a small net that a layout holds."""
    for gelu in ("tanh", "exact"):
        config = vars(build(replace(SMALL, gelu=gelu), SIDE, 2).config)
        plain = {name: value for name, value in config.items() if name not in (*SIZES, *TRAINING)}
        if _holds(plain, to, save):
            return plain
    raise AssertionError(f"{to} holds no plain net")


def _holds(given: dict[str, Any], to: str, save: Saves) -> bool:
    """Whether a layout holds a small net with these fields; one that there is not is held nowhere."""
    try:
        with torch.random.fork_rng(devices=[]), TemporaryDirectory() as folder:
            net = build(replace(SMALL, **given), SIDE, 2)
            assert isinstance(net.head, nn.Linear)
            nn.init.normal_(net.head.weight)
            save(net, Report("", ""), Path(folder) / f"small{'.npz' * (to == 'npz')}", to)
    except (InputError, TypeError, ValueError):
        return False
    return True
