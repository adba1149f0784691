"""timm's ResNets of the paper: the stems of its hybrid ViTs, and its BiT nets (`resnetv2_*_bit`).

Their numbers are Google's, their epsilons and padding are timm's own: `net.resnet_code` says which a net computes with.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, resolve
from vit_lightning.models.config import ResolvedConfig
from vit_lightning.weights.archive import Archive, Stored
from vit_lightning.weights.layouts.facts import fact, numbers_fact, size_fact
from vit_lightning.weights.layouts.shapes import resnet_variant
from vit_lightning.weights.layouts.tensor_mapping import TensorMapping, Weights, axes, blocks_in, pair, to_theirs
from vit_lightning.weights.layouts.timm_folder import odd_arguments, said_by, write_folder
from vit_lightning.weights.report import Report

NAME = "timm's BiT"
ROOT = "stem.conv.weight"
BACKBONE = "patch_embed.backbone."
# timm's nets by their units per stage: only these have such a ResNet in front of a ViT, and only these are BiT's.
HYBRIDS = {
    (0,): "vit_tiny_r_s16_p8_224",
    (2, 2, 2, 2): "vit_small_r26_s32_224",
    (3, 4, 9): "vit_base_r50_s16_224",
    (3, 4, 6, 3): "vit_large_r50_s32_224",
}
BITS = ("R50x1", "R50x3", "R101x1", "R101x3", "R152x2", "R152x4")
# The parts of a unit and of its shortcut, ours and theirs.
CONVS = {"conv1": "conv1", "conv2": "conv2", "conv3": "conv3", "conv_proj": "downsample.conv"}
NORMS = {"norm1": "norm1", "norm2": "norm2", "norm3": "norm3", "norm_proj": "downsample.norm"}


def _units(ours: str, theirs: str, stages: tuple[int, ...]) -> list[TensorMapping]:
    table = []
    for stage, count in enumerate(stages):
        for unit in range(count):
            here, there = f"{ours}stages.{stage}.{unit}", f"{theirs}stages.{stage}.blocks.{unit}"
            for part, name in CONVS.items():
                table.append(TensorMapping(f"{here}.{part}.weight", (f"{there}.{name}.weight",)))
            for part, name in NORMS.items():
                table += pair(f"{here}.{part}", f"{there}.{name}")
    return table


def stem_mappings(stages: tuple[int, ...]) -> list[TensorMapping]:
    """Returns the table of a hybrid's stem in timm's names."""
    root = BACKBONE if stages == (0,) else f"{BACKBONE}stem."
    return [
        TensorMapping("stem.conv_root.weight", (f"{root}conv.weight",)),
        *pair("stem.norm_root", f"{root}norm"),
        *_units("stem.", BACKBONE, stages),
    ]


def stem_root(stages: tuple[int, ...]) -> str:
    """Returns timm's name of the layer of a hybrid that reads the image."""
    return f"{BACKBONE}conv" if stages == (0,) else f"{BACKBONE}stem.conv"


def stem_stages(stored: Collection[str]) -> tuple[int, ...]:
    """Returns the units per stage of a hybrid's stem; empty: no ResNet of the paper's is in front."""
    if f"{BACKBONE}conv.weight" in stored:
        return (0,)
    return _stages(stored, BACKBONE) if f"{BACKBONE}{ROOT}" in stored else ()


def _stages(stored: Collection[str], prefix: str) -> tuple[int, ...]:
    start = re.escape(prefix)
    count = blocks_in(stored, rf"{start}stages\.(\d+)\.")
    return tuple(blocks_in(stored, rf"{start}stages\.{stage}\.blocks\.(\d+)\.") for stage in range(count))


def check_code(config: ResolvedConfig) -> None:
    """Refuses a net that timm would compute with other epsilons and padding.

    Raises:
        InputError: its ResNet is that of the official code.
    """
    if config.stages and config.resnet_code != "timm":
        raise InputError(
            f"timm's ResNets have other epsilons and padding than net.resnet_code={config.resnet_code}: convert to npz "
            "or checkpoint, or train the net with --model.net.resnet_code timm."
        )


def mappings(config: ResolvedConfig) -> list[TensorMapping]:
    """Returns the table of a BiT in timm's names."""
    return [
        TensorMapping("conv_root.weight", (ROOT,)),
        *pair("norm", "norm"),
        *pair("head", "head.fc", "k d 1 1 -> k d"),
        *_units("", "", config.stages),
    ]


def _prefix(archive: Archive) -> str | None:
    """What stands before the names of a BiT; None: the file has no BiT."""
    architecture = str(said_by(archive).get("architecture", ""))
    if architecture and not (architecture.startswith("resnetv2_") and architecture.endswith("_bit")):
        return None
    for name in archive.stored:
        prefix, unit = name.removesuffix(ROOT), f"{name.removesuffix(ROOT)}stages.0.blocks.0."
        parts = {f"{prefix}norm.weight", f"{unit}norm1.weight", f"{unit}conv3.weight"}
        batch_norm = f"{unit}norm1.running_mean" in archive.stored
        if name.endswith(ROOT) and parts <= archive.stored.keys() and not batch_norm:
            return prefix
    return None


def recognises(archive: Archive) -> bool:
    """Whether a file is a BiT of timm's."""
    return _prefix(archive) is not None


def read(archive: Archive, heads: int | None, image_size: tuple[int, int] | None) -> Weights:
    """Reads the config of a BiT from the shapes of the file's tensors and, if there is one, timm's config.json."""
    stored, dropped = _inside(archive.stored, _prefix(archive) or "")
    said = said_by(archive)
    if odd := odd_arguments(fact(said, "model_args", dict, {})):
        raise InputError(f"{archive.path} sets {odd[0]} of {said['architecture']}: that net cannot be built here.")
    root, stages = axes(stored, ROOT, "d c p q"), _stages(stored, "")
    config = resolve(
        NetConfig(
            resnet_variant(stages, root["d"]), width=root["d"], channels=root["c"], stages=stages, resnet_code="timm"
        )
    )
    card = fact(said, "pretrained_cfg", dict, {})
    stated = size_fact(card, "input_size")
    classes = axes(stored, "head.fc.weight", "k d y x")["k"] if "head.fc.weight" in stored else 0
    names = said.get("label_names") or card.get("label_names") or []
    return Weights(
        NAME,
        config,
        image_size or stated or (224, 224),
        classes,
        mappings(config),
        stored,
        dropped,
        notes=[] if image_size or stated else ["a ResNet takes any image size: 224 pixels"],
        assumed=() if said else ("resnet_code",),
        mean=numbers_fact(card, "mean", config.channels),
        std=numbers_fact(card, "std", config.channels),
        class_names=list(names) if isinstance(names, list) and len(names) == classes else [],
    )


def _inside(stored: dict[str, Stored], prefix: str) -> tuple[dict[str, Stored], dict[str, str]]:
    inside = {name.removeprefix(prefix): tensor for name, tensor in stored.items() if name.startswith(prefix)}
    return inside, {name: f"beside the net {prefix[:-1]!r}" for name in stored if not name.startswith(prefix)}


def write(net: Net, report: Report, path: Path) -> None:
    """Writes a BiT as a folder that `timm.create_model("local-dir:...")` opens.

    Raises:
        InputError: timm has no such BiT, or computes it otherwise.
    """
    config = net.config
    check_code(config)
    if (variant := resnet_variant(config.stages, config.width)) not in BITS:
        raise InputError(f"timm has no {variant}, only {', '.join(BITS)}: convert to npz or checkpoint.")
    tensors = to_theirs(mappings(config), net.state_dict(), config, NAME)
    said: dict[str, Any] = {"architecture": f"resnetv2_{variant.removeprefix('R')}_bit", "global_pool": "avg"}
    said |= {"num_features": tensors["norm.weight"].numel(), "model_args": {"in_chans": config.channels}}
    card = {"first_conv": "stem.conv", "classifier": "head.fc", "fixed_input_size": False}
    write_folder(path, net, report, tensors, said, card)
