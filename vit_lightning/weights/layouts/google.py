"""The official JAX files: vision_transformer and its hybrids, big_vision, BiT ResNets.

The table speaks the names of the published files; the reader turns every other dialect into them.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from einops import rearrange
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, resolve
from vit_lightning.models.config import Pool, ResolvedConfig, is_resnet
from vit_lightning.weights.archive import Archive, Stored
from vit_lightning.weights.layouts.shapes import resnet_variant, settle_table, stem_scale, variant_of
from vit_lightning.weights.layouts.tensor_mapping import (
    TensorMapping,
    Weights,
    axes,
    blocks_in,
    rename,
    to_theirs,
    with_class_row,
)
from vit_lightning.weights.report import Report

NAME = "Google's npz"
PREFIXES = ("", "opt/target/", "target/", "params/img/", "params/", "img/")
# The first layer of a net, after which a file is recognised.
ANCHOR = re.compile(r"(embedding|resnet/root_block/standardized_conv2d(_\d+)?)/kernel")
ROOT = "resnet/root_block/standardized_conv2d/kernel"
# What lies beside an unprefixed net: trees of the training state.
TRAINING = ("opt", "chrono", "state", "step", "rng")
TABLE = "Transformer/posembed_input/pos_embedding"
# A block's children in their order: the published files count them through, linen counts every kind for itself.
PUBLISHED = ("LayerNorm_0", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3")
LINEN = ("LayerNorm_0", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0")
MAP_HEAD = ("probe", "MultiHeadDotProductAttention_0", "LayerNorm_0", "MlpBlock_0")
BLOCK = re.compile(r"Transformer/encoderblock_(\d+)/([A-Za-z]+)_(\d+)/")
HALF = (0.5,)  # of each channel

DENSE = "i o -> o i"
KERNEL = "y x i o -> o i y x"


def _norm(ours: str, theirs: str) -> list[TensorMapping]:
    return [TensorMapping(f"{ours}.weight", (f"{theirs}/scale",)), TensorMapping(f"{ours}.bias", (f"{theirs}/bias",))]


def _group_norm(ours: str, theirs: str) -> list[TensorMapping]:
    return [replace(mapping, pattern="1 1 1 c -> c") for mapping in _norm(ours, theirs)]


def _dense(ours: str, theirs: str, pattern: str = DENSE) -> list[TensorMapping]:
    return [
        TensorMapping(f"{ours}.weight", (f"{theirs}/kernel",), pattern),
        TensorMapping(f"{ours}.bias", (f"{theirs}/bias",)),
    ]


def _heads(ours: str, theirs: str, *parts: str) -> list[TensorMapping]:
    """Projections to heads, stacked: queries, keys, values."""
    s, left = ("s ", "s d h k") if len(parts) > 1 else ("", "d h k")
    return [
        TensorMapping(f"{ours}.weight", tuple(f"{theirs}/{part}/kernel" for part in parts), f"{left} -> ({s}h k) d"),
        TensorMapping(f"{ours}.bias", tuple(f"{theirs}/{part}/bias" for part in parts), f"{s}h k -> ({s}h k)"),
    ]


def _mlp(ours: str, theirs: str) -> list[TensorMapping]:
    return [*_dense(f"{ours}.up", f"{theirs}/Dense_0"), *_dense(f"{ours}.down", f"{theirs}/Dense_1")]


def mappings(config: ResolvedConfig) -> list[TensorMapping]:
    """Returns the table of a net in the published names."""
    if is_resnet(config):
        return _resnet(config)
    out = "h k d -> d (h k)"
    table = [
        TensorMapping("class_token", ("cls",)),
        TensorMapping("position.table", (TABLE,)),
        *_dense("patches.proj", "embedding", "p q c d -> d (p q c)"),
        *_norm("norm", "Transformer/encoder_norm"),
        TensorMapping("pool.probe", ("MAPHead_0/probe",)),
        *_heads("pool.attention.q", f"MAPHead_0/{MAP_HEAD[1]}", "query"),
        *_heads("pool.attention.kv", f"MAPHead_0/{MAP_HEAD[1]}", "key", "value"),
        *_dense("pool.attention.out", f"MAPHead_0/{MAP_HEAD[1]}/out", out),
        *_norm("pool.norm", f"MAPHead_0/{MAP_HEAD[2]}"),
        *_mlp("pool.mlp", f"MAPHead_0/{MAP_HEAD[3]}"),
        *_dense("representation", "pre_logits"),
        *_dense("head", "head"),
        *_stem(config),
    ]
    for i in range(config.depth):
        ours = f"blocks.{i}"
        norm1, attention, norm2, mlp = (f"Transformer/encoderblock_{i}/{child}" for child in PUBLISHED)
        table += [
            *_norm(f"{ours}.norm1", norm1),
            *_heads(f"{ours}.attention.qkv", attention, "query", "key", "value"),
            *_dense(f"{ours}.attention.out", f"{attention}/out", out),
            *_norm(f"{ours}.norm2", norm2),
            *_mlp(f"{ours}.mlp", mlp),
        ]
    return table


def _stem(config: ResolvedConfig) -> list[TensorMapping]:
    """The hybrids' ResNet."""
    table = [
        TensorMapping("stem.conv_root.weight", ("conv_root/kernel",), KERNEL),
        *_group_norm("stem.norm_root", "gn_root"),
    ]
    for stage, count in enumerate(config.stages):
        for unit in range(count):
            ours, theirs = f"stem.stages.{stage}.{unit}", f"block{stage + 1}/unit{unit + 1}"
            for part in ("1", "2", "3", "_proj"):
                table.append(TensorMapping(f"{ours}.conv{part}.weight", (f"{theirs}/conv{part}/kernel",), KERNEL))
                table += _group_norm(f"{ours}.norm{part}", f"{theirs}/gn{part}")
    return table


def _resnet(config: ResolvedConfig) -> list[TensorMapping]:
    """BiT: a unit's parts a, b, c hold a norm and the convolution after it."""

    def norm(ours: str, theirs: str) -> list[TensorMapping]:
        return [
            TensorMapping(f"{ours}.weight", (f"{theirs}/gamma",)),
            TensorMapping(f"{ours}.bias", (f"{theirs}/beta",)),
        ]

    table = [
        TensorMapping("conv_root.weight", (ROOT,), KERNEL),
        *norm("norm", "resnet/group_norm"),
        *_dense("head", "resnet/head/conv2d", "1 1 i o -> o i"),
    ]
    for stage, count in enumerate(config.stages):
        for unit in range(count):
            ours, theirs = f"stages.{stage}.{unit}", f"resnet/block{stage + 1}/unit{unit + 1:02}"
            for number, part in enumerate("abc", start=1):
                table += norm(f"{ours}.norm{number}", f"{theirs}/{part}/group_norm")
                kernel = f"{theirs}/{part}/standardized_conv2d/kernel"
                table.append(TensorMapping(f"{ours}.conv{number}.weight", (kernel,), KERNEL))
            kernel = f"{theirs}/a/proj/standardized_conv2d/kernel"
            table.append(TensorMapping(f"{ours}.conv_proj.weight", (kernel,), KERNEL))
    return table


def recognises(archive: Archive) -> bool:
    """Whether a file has this layout."""
    return _prefix(archive.stored) is not None


def _prefix(stored: Iterable[str]) -> str | None:
    """What stands before the names of the net; None: no net of this layout."""
    anchors = [match for name in stored if (match := re.search(rf"(^|/){ANCHOR.pattern}$", name))]
    found = {match.string[: match.start() + len(match[1])] for match in anchors}
    return next((prefix for prefix in PREFIXES if prefix in found), None)


def read(archive: Archive, heads: int | None, image_size: tuple[int, int] | None) -> Weights:
    """Reads the config of the net from the shapes of the file's tensors."""
    stored, dropped = _inside(archive.stored, _prefix(archive.stored) or "")
    if any(name.startswith("resnet/") for name in stored):
        return _read_resnet(stored, dropped, image_size)
    stored = _split_scan(stored)
    linen = not any(match[3] == "2" for name in stored if (match := BLOCK.match(name)))
    stored = _publish(stored)
    config = _config(stored, linen)
    weights = Weights(
        NAME, config, image_size or (224, 224), _classes(stored, "head/kernel", "i o"), mappings(config), stored
    )
    weights.dropped, weights.mean, weights.std = dropped, HALF * config.channels, HALF * config.channels
    weights.assumed = ("gelu", "norm_eps", *(("resnet_code",) if config.stages else ()))
    if config.position == "learned":
        _settle_positions(weights, image_size)
    elif image_size is None:
        weights.notes.append("the file holds no position table: sine and cosine positions for 224 pixels")
    return weights


def _inside(stored: dict[str, Stored], prefix: str) -> tuple[dict[str, Stored], dict[str, str]]:
    """Parts the net's tensors, without their prefix, from the training state."""

    def belongs(name: str) -> bool:
        return name.startswith(prefix) if prefix else name.partition("/")[0] not in TRAINING

    inside = {name.removeprefix(prefix): tensor for name, tensor in stored.items() if belongs(name)}
    return inside, {name: "beside the net: training state" for name in stored if not belongs(name)}


def _split_scan(stored: dict[str, Stored]) -> dict[str, Stored]:
    """Gives every block its own tensors where one array holds those of all blocks."""
    scan = "Transformer/encoderblock/"
    split: dict[str, Stored] = {}
    for name, tensor in stored.items():
        if not name.startswith(scan):
            split[name] = tensor
            continue
        read = cache(tensor.read)
        for i in range(tensor.shape[0]):
            block = name.replace(scan, f"Transformer/encoderblock_{i}/")
            split[block] = Stored(tensor.shape[1:], partial(_of_block, read, i))
    return split


def _of_block(read: Callable[[], Tensor], block: int) -> Tensor:
    return read()[block]


def _publish(stored: dict[str, Stored]) -> dict[str, Stored]:
    """Renames every dialect's tensors as the published files call them, and gives GroupNorm's their four axes."""
    children: dict[tuple[str, str], set[int]] = {}
    for match in filter(None, map(BLOCK.match, stored)):
        children.setdefault((match[1], match[2]), set()).add(int(match[3]))
    order = {
        kind: [child for child in PUBLISHED if child.startswith(f"{kind}_")]
        for kind in ("LayerNorm", "MultiHeadDotProductAttention", "MlpBlock")
    }

    def new(name: str) -> str:
        name = re.sub(r"^(Transformer/)?pos_embedding$", TABLE, name)
        if name.partition("/")[0] in MAP_HEAD:
            return f"MAPHead_0/{name}"
        match = BLOCK.match(name)
        if match is None or match[2] not in order:
            return name
        place = sorted(children[match[1], match[2]]).index(int(match[3]))
        names = order[match[2]]
        return (
            f"Transformer/encoderblock_{match[1]}/{names[place]}/{name[match.end() :]}" if place < len(names) else name
        )

    published = rename(stored, new)
    for name, tensor in published.items():
        if re.search(r"(^|/)gn\w+/", name) and len(tensor.shape) == 1:
            published[name] = Stored((1, 1, 1, *tensor.shape), partial(_with_axes, tensor))
    return published


def _with_axes(tensor: Stored) -> Tensor:
    return rearrange(tensor.read(), "c -> 1 1 1 c")


def _config(stored: dict[str, Stored], linen: bool) -> ResolvedConfig:
    patch = axes(stored, "embedding/kernel", "p q c d")
    if patch["p"] != patch["q"]:
        raise InputError(f"The file's patches have {patch['p']}x{patch['q']} pixels: only square patches are known.")
    stages = _stages(stored)
    first = f"Transformer/encoderblock_0/{PUBLISHED[1]}/query/kernel"
    heads = axes(stored, first, "d h k")["h"]
    mlp = axes(stored, f"Transformer/encoderblock_0/{PUBLISHED[3]}/Dense_0/kernel", "i o")["o"]
    depth = blocks_in(stored, r"Transformer/encoderblock_(\d+)/")
    pool: Pool = "token" if "cls" in stored else "map" if "MAPHead_0/probe" in stored else "gap"
    if pool == "map" and axes(stored, f"MAPHead_0/{MAP_HEAD[1]}/query/kernel", "d h k")["h"] != heads:
        raise InputError(f"The file's attention pooling has another number of heads than its blocks, {heads}.")
    fixed = linen and pool != "token" and TABLE not in stored
    return resolve(
        NetConfig(
            variant=variant_of(stages, patch["p"], (depth, patch["d"], mlp, heads)),
            patch=patch["p"],
            width=patch["d"],
            depth=depth,
            heads=heads,
            mlp=mlp,
            channels=axes(stored, "conv_root/kernel", "p q c d")["c"] if stages else patch["c"],
            stages=stages,
            pool=pool,
            representation=_classes(stored, "pre_logits/kernel", "i o"),
            position="sincos_2d" if fixed else "learned",
        )
    )


def _stages(stored: Collection[str]) -> tuple[int, ...]:
    """Units per stage of a hybrid's ResNet; empty: a plain ViT."""
    if "conv_root/kernel" not in stored:
        return ()
    count = blocks_in(stored, r"block(\d+)/") - 1
    return tuple(blocks_in(stored, rf"block{stage}/unit(\d+)/") - 1 for stage in range(1, count + 1)) or (0,)


def _classes(stored: dict[str, Stored], name: str, pattern: str) -> int:
    """Outputs of a dense layer; 0 if the file has none."""
    return axes(stored, name, pattern)["o"] if name in stored else 0


def _settle_positions(weights: Weights, image_size: tuple[int, int] | None) -> None:
    """Finds the table's grid, and gives the class token the row of zeros that big_vision leaves out."""
    stored, config = weights.stored, weights.config
    table, token = axes(stored, TABLE, "one n d"), config.class_token
    stem, prefixes = stem_scale(config.stages), (0, 1) if token else (0,)
    prefix, weights.image_size = settle_table(table["n"], prefixes, config.patch, None, image_size, stem)
    if token and not prefix:
        stored[TABLE] = with_class_row(stored[TABLE])


def _read_resnet(stored: dict[str, Stored], dropped: dict[str, str], image_size: tuple[int, int] | None) -> Weights:
    stored = rename(stored, lambda name: re.sub(r"standardized_conv2d_\d+/", "standardized_conv2d/", name))
    root = axes(stored, ROOT, "p q c d")
    count = blocks_in(stored, r"resnet/block(\d+)/") - 1
    stages = tuple(blocks_in(stored, rf"resnet/block{stage}/unit(\d+)/") - 1 for stage in range(1, count + 1))
    config = resolve(NetConfig(resnet_variant(stages, root["d"]), width=root["d"], channels=root["c"], stages=stages))
    classes = _classes(stored, "resnet/head/conv2d/kernel", "p q i o")
    half = HALF * config.channels
    weights = Weights(
        NAME, config, image_size or (224, 224), classes, mappings(config), stored, dropped, mean=half, std=half
    )
    weights.assumed = ("resnet_code",)
    if image_size is None:
        weights.notes.append("a ResNet takes any image size: 224 pixels")
    return weights


def write(net: Net, report: Report, path: Path) -> None:
    """Writes a net's npz under the published names, or big_vision's for what only it has."""
    if net.config.resnet_code == "timm":
        raise InputError(
            "The official code of npz files has other epsilons and padding than net.resnet_code=timm: convert to timm "
            "or checkpoint."
        )
    tensors = to_theirs(mappings(net.config), net.state_dict(), net.config, NAME)
    if net.config.pool == "map" or net.config.position == "sincos_2d":
        tensors = {_linen(name): tensor for name, tensor in tensors.items()}
    with path.open("wb") as file:
        arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
        np.savez(file, **arrays)


def _linen(name: str) -> str:
    for ours, theirs in zip(PUBLISHED, LINEN, strict=True):
        name = re.sub(rf"(encoderblock_\d+)/{ours}/", rf"\1/{theirs}/", name)
    return name.replace(TABLE, "pos_embedding")
