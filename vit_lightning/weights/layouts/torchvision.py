"""torchvision's VisionTransformer."""

from pathlib import Path

import torch

from vit_lightning.models import Net, NetConfig, resolve
from vit_lightning.models.config import ResolvedConfig
from vit_lightning.weights.archive import Archive
from vit_lightning.weights.layouts.facts import IMAGENET
from vit_lightning.weights.layouts.shapes import heads_of, settle_table, variant_of
from vit_lightning.weights.layouts.tensor_mapping import (
    PATCHES,
    TensorMapping,
    Weights,
    axes,
    blocks_in,
    pair,
    rename,
    to_theirs,
)
from vit_lightning.weights.report import Report

NAME = "torchvision"
ANCHOR = "conv_proj.weight"
# Its MLP's layers before version 0.13.
OLD = {".mlp.linear_1.": ".mlp.0.", ".mlp.linear_2.": ".mlp.3."}
MEAN, STD = IMAGENET


def mappings(config: ResolvedConfig) -> list[TensorMapping]:
    """Returns the table of a net in torchvision's names."""
    table = [
        TensorMapping("class_token", ("class_token",)),
        TensorMapping("position.table", ("encoder.pos_embedding",)),
        *pair("patches.proj", "conv_proj", PATCHES),
        *pair("norm", "encoder.ln"),
        *pair("representation", "heads.pre_logits"),
        *pair("head", "heads.head"),
    ]
    for i in range(config.depth):
        ours, theirs = f"blocks.{i}", f"encoder.layers.encoder_layer_{i}"
        table += [
            *pair(f"{ours}.norm1", f"{theirs}.ln_1"),
            TensorMapping(f"{ours}.attention.qkv.weight", (f"{theirs}.self_attention.in_proj_weight",)),
            TensorMapping(f"{ours}.attention.qkv.bias", (f"{theirs}.self_attention.in_proj_bias",)),
            *pair(f"{ours}.attention.out", f"{theirs}.self_attention.out_proj"),
            *pair(f"{ours}.norm2", f"{theirs}.ln_2"),
            *pair(f"{ours}.mlp.up", f"{theirs}.mlp.0"),
            *pair(f"{ours}.mlp.down", f"{theirs}.mlp.3"),
        ]
    return table


def recognises(archive: Archive) -> bool:
    """Whether a file has this layout."""
    return ANCHOR in archive.stored and "encoder.pos_embedding" in archive.stored


def read(archive: Archive, heads: int | None, image_size: tuple[int, int] | None) -> Weights:
    """Reads the config of the net from the shapes of the file's tensors."""
    stored = rename(archive.stored, _modern)
    patch = axes(stored, ANCHOR, "d c p q")
    width, depth = patch["d"], blocks_in(stored, r"encoder\.layers\.encoder_layer_(\d+)\.")
    known = heads_of(width, heads)
    mlp = axes(stored, "encoder.layers.encoder_layer_0.mlp.0.weight", "m d")["m"]
    config = resolve(
        NetConfig(
            variant=variant_of((), patch["p"], (depth, width, mlp, known)),
            patch=patch["p"],
            width=width,
            depth=depth,
            heads=known,
            mlp=mlp,
            channels=patch["c"],
            representation=axes(stored, "heads.pre_logits.weight", "r d")["r"]
            if "heads.pre_logits.weight" in stored
            else 0,
            gelu="exact",
        )
    )
    length = axes(stored, "encoder.pos_embedding", "one n d")["n"]
    _, size = settle_table(length, (1,), config.patch, None, image_size)
    classes = axes(stored, "heads.head.weight", "k r")["k"] if "heads.head.weight" in stored else 0
    mean, std = (MEAN, STD) if config.channels == len(MEAN) else (None, None)
    weights = Weights(NAME, config, size, classes, mappings(config), stored, mean=mean, std=std)
    weights.assumed = ("gelu", "norm_eps")
    if heads is None:
        weights.notes.append(
            f"the file does not say its attention heads: {known}, as published nets of width {width} have"
        )
    return weights


def _modern(name: str) -> str:
    for old, new in OLD.items():
        name = name.replace(old, new)
    return name


def write(net: Net, report: Report, path: Path) -> None:
    """Writes the state_dict that torchvision's VisionTransformer loads."""
    torch.save(to_theirs(mappings(net.config), net.state_dict(), net.config, NAME), path)
