"""timm's VisionTransformer and its hybrids, and the files of the same family: DINO, DINOv2, MAE, DeiT III."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, resolve
from vit_lightning.models.config import Gelu, Pool, ResolvedConfig
from vit_lightning.weights.archive import Archive, Stored
from vit_lightning.weights.layouts.facts import fact, is_dinov2, numbers_fact, size_fact
from vit_lightning.weights.layouts.shapes import HEADS, heads_of, settle_table, stem_scale, variant_of
from vit_lightning.weights.layouts.tensor_mapping import (
    PATCHES,
    TensorMapping,
    Weights,
    axes,
    blocks_in,
    fill_biases,
    pair,
    rename,
    to_theirs,
    with_class_row,
)
from vit_lightning.weights.layouts.timm_folder import said_by, write_folder
from vit_lightning.weights.layouts.timm_resnet import (
    BACKBONE,
    HYBRIDS,
    check_code,
    stem_mappings,
    stem_root,
    stem_stages,
)
from vit_lightning.weights.report import Report

NAME = "timm"
ANCHOR = "patch_embed.proj.weight"
# Other spellings of the same tensors: DINOv2's and DeiT III's own.
ALIASES = {
    r"^register_tokens$": "reg_token",
    # DINOv2 trains its blocks in chunks, whose inner numbers count the blocks of the whole net.
    r"^blocks\.\d+\.(\d+)\.": r"blocks.\1.",
    r"\.mlp\.w12\.": ".mlp.fc1.",
    r"\.mlp\.w3\.": ".mlp.fc2.",
    r"\.gamma_([12])$": r".ls\1.gamma",
}
# Tensors of other nets that begin with the same patches, and what those nets are.
FOREIGN = {
    r"(^|.*\.)(dist_token|head_dist\..+)": ("a distilled DeiT", "a second head with a token of its own"),
    r"(^|.*\.)(relative_position_.+|rel_pos_bias\..+)": ("a BEiT", "relative positions of BEiT's kind"),
    r"(^|.*\.)attn\.([qv]_bias|inner_attn_ln\..+|norm\..+|[qkv]_proj\..+|rope\..+)": (
        "a BEiT or an EVA",
        "its attention",
    ),
    r"(^|.*\.)mlp\.(fc1_[gx]|w1|w2|ffn_ln|norm)\..+|rope\..+": ("an EVA", "its MLP and rotary positions"),
    r"(^|.*\.)attn\.(q|k)_norm\..+": ("a ViT whose queries and keys are normalised", "those norms"),
}
# Parts of masked pre-training that travel with some files.
MASKING = re.compile(r"mask_token|decoder\w*(\..+)?")
POOLS: dict[str, Pool] = {"token": "token", "avg": "gap", "map": "map"}
# timm's architectures do not write everything into a file's config: these names tell the rest.
TANH = re.compile(r"(base_patch32|so400m_patch16|giantopt_patch16)_siglip|large_patch16_siglip(_gap)?_512")
OTHER_NETS = re.compile(r"quickgelu|_rpn_|_radio_")
ODD_HEADS = {"vit_base_patch16_gap_224": 16, "giantopt": 16}
# Widths of timm's own whose heads are 64 wide, and DINOv2's largest.
TIMM_HEADS = HEADS | {width: width // 64 for width in (256, 320, 640, 832, 896, 1536)}


def mappings(config: ResolvedConfig) -> list[TensorMapping]:
    """Returns the table of a net in timm's names."""
    table = [
        TensorMapping("class_token", ("cls_token",)),
        TensorMapping("registers", ("reg_token",)),
        TensorMapping("position.table", ("pos_embed",)),
        *pair("patches.proj", "patch_embed.proj", PATCHES),
        *pair("embed_norm", "norm_pre"),
        *pair("norm", "fc_norm" if config.norm_after_pool else "norm"),
        TensorMapping("pool.probe", ("attn_pool.latent",)),
        *pair("pool.attention.q", "attn_pool.q"),
        *pair("pool.attention.kv", "attn_pool.kv"),
        *pair("pool.attention.out", "attn_pool.proj"),
        *pair("pool.norm", "attn_pool.norm"),
        *pair("pool.mlp.up", "attn_pool.mlp.fc1"),
        *pair("pool.mlp.down", "attn_pool.mlp.fc2"),
        *pair("head", "head"),
        *(stem_mappings(config.stages) if config.stages else ()),
    ]
    for block in (f"blocks.{i}" for i in range(config.depth)):
        table += [
            *pair(f"{block}.norm1", f"{block}.norm1"),
            *pair(f"{block}.attention.qkv", f"{block}.attn.qkv"),
            *pair(f"{block}.attention.out", f"{block}.attn.proj"),
            TensorMapping(f"{block}.scale1", (f"{block}.ls1.gamma",)),
            *pair(f"{block}.norm2", f"{block}.norm2"),
            *pair(f"{block}.mlp.up", f"{block}.mlp.fc1"),
            *pair(f"{block}.mlp.down", f"{block}.mlp.fc2"),
            TensorMapping(f"{block}.scale2", (f"{block}.ls2.gamma",)),
        ]
    return table


def recognises(archive: Archive) -> bool:
    """Whether a file has this layout."""
    return any(name.endswith(ANCHOR) for name in archive.stored)


def read(archive: Archive, heads: int | None, image_size: tuple[int, int] | None) -> Weights:
    """Reads the config of the net from the shapes of the file's tensors and, if there is one, timm's config.json."""
    anchor = next(name for name in archive.stored if name.endswith(ANCHOR))
    stored, dropped = _inside(archive.stored, anchor.removesuffix(ANCHOR))
    said = said_by(archive)
    config, notes = _config(stored, said, heads)
    classes = axes(stored, "head.weight", "k d")["k"] if "head.weight" in stored else 0
    positions = axes(stored, "pos_embed", "one n d")["n"]
    size = _settle_positions(stored, config, said, image_size)
    stem = stem_scale(config.stages)
    config.crop_to_patch = any(-(-side // stem) % config.patch for side in size)
    card = fact(said, "pretrained_cfg", dict, {})
    names = said.get("label_names") or card.get("label_names") or []
    return Weights(
        NAME,
        config,
        size,
        classes,
        mappings(config),
        stored,
        dropped,
        notes,
        assumed=() if said else _unsaid(stored),
        mean=numbers_fact(card, "mean", config.channels),
        std=numbers_fact(card, "std", config.channels),
        class_names=list(names) if isinstance(names, list) and len(names) == classes else [],
        is_dinov2=is_dinov2(config, positions),
    )


def _inside(stored: dict[str, Stored], prefix: str) -> tuple[dict[str, Stored], dict[str, str]]:
    """Parts the net's tensors, under timm's own names, from what training or another net put beside them."""
    dropped = {name: f"beside the net {prefix[:-1]!r}" for name in stored if not name.startswith(prefix)}
    inside = {name.removeprefix(prefix): tensor for name, tensor in stored.items() if name.startswith(prefix)}
    masking = [name for name in inside if MASKING.fullmatch(name)]
    dropped |= dict.fromkeys(masking, "only for masked pre-training")
    inside = {name: tensor for name, tensor in inside.items() if name not in masking}

    def new(name: str) -> str:
        for alias, ours in ALIASES.items():
            name = re.sub(alias, ours, name)
        return name

    return rename(inside, new), dropped


def _config(stored: dict[str, Stored], said: dict[str, Any], heads: int | None) -> tuple[ResolvedConfig, list[str]]:
    arguments = fact(said, "model_args", dict, {})
    architecture = fact(said, "architecture", str, "")
    other_norm = arguments.get("norm_layer") not in (None, "layernorm")
    _refuse_foreign(stored)
    if OTHER_NETS.search(architecture) or other_norm or arguments.get("pool_include_prefix"):
        raise InputError(f"The net {architecture} of timm works otherwise than its tensors tell: it cannot be loaded.")
    patch = axes(stored, ANCHOR, "d c p q")
    if patch["p"] != patch["q"]:
        raise InputError(f"The file's patches have {patch['p']}x{patch['q']} pixels: only square patches are known.")
    width, stages, notes = patch["d"], stem_stages(stored), []
    odd = next((odd for name, odd in ODD_HEADS.items() if name in architecture), None)
    told = fact(arguments, "num_heads", int, odd) or (TIMM_HEADS.get(width) if said else None)
    if told is None and heads is None:
        notes.append(f"the file does not say its attention heads: as published nets of width {width} have")
    heads = heads_of(width, told or heads, TIMM_HEADS)
    mlp = axes(stored, "blocks.0.mlp.fc2.weight", "d m")["m"]
    axes(stored, "blocks.0.mlp.fc1.weight", "m d")
    gated = _is_gated(stored)
    depth = blocks_in(stored, r"blocks\.(\d+)\.")
    config = NetConfig(
        variant=variant_of(stages, patch["p"], (depth, width, mlp, heads)),
        patch=patch["p"],
        width=width,
        depth=depth,
        heads=heads,
        mlp=mlp,
        channels=axes(stored, f"{stem_root(stages)}.weight", "d c p q")["c"] if stages else patch["c"],
        stages=stages,
        resnet_code="timm" if stages else None,
        pool=_pool(stored, fact(arguments, "global_pool", str, None) or fact(said, "global_pool", str, None)),
        class_token="cls_token" in stored,
        registers=axes(stored, "reg_token", "one n d")["n"] if "reg_token" in stored else 0,
        layer_scale=1e-5 if "blocks.0.ls1.gamma" in stored else 0.0,
        gelu=_gelu(arguments.get("act_layer"), architecture, gated=gated),
        swiglu=gated,
        norm_after_pool="fc_norm.weight" in stored,
        embed_norm="norm_pre.weight" in stored,
        # timm's nets with a norm before the blocks are CLIP's, and only those have this epsilon.
        norm_eps=1e-5 if "norm_pre.weight" in stored else 1e-6,
    )
    biases = {f"blocks.{block}.attn.qkv.bias": 3 * width for block in range(depth)}
    if config.embed_norm:
        notes += fill_biases(stored, {"patch_embed.proj.bias": width})
    return resolve(config), notes + fill_biases(stored, biases)


def _refuse_foreign(stored: dict[str, Stored]) -> None:
    """Refuses the nets that look like a ViT of timm's at first, by the tensors that make them another net."""
    if (backbone := next((name for name in stored if BACKBONE in name), None)) and not stem_stages(stored):
        raise InputError(
            f"The file is a hybrid with another ResNet than the paper's ({backbone}): build timm's own net with "
            "--model.net.variant timm/NAME, which takes this file."
        )
    for pattern, (kind, part) in FOREIGN.items():
        if name := next((name for name in stored if re.fullmatch(pattern, name)), None):
            raise InputError(
                f"The file is {kind} ({name}): our ViT has no place for {part}; build timm's own net with "
                "--model.net.variant timm/NAME, which takes this file."
            )


def _unsaid(stored: dict[str, Stored]) -> tuple[str, ...]:
    """Fields that only a config tells: no tensor shows an activation, an epsilon, or what a token net pools."""
    pooling = () if "attn_pool.latent" in stored else ("pool", "norm_after_pool")
    stem = ("resnet_code",) if stem_stages(stored) else ()
    return ("norm_eps", *pooling) if _is_gated(stored) else ("gelu", "norm_eps", *pooling, *stem)


def _is_gated(stored: dict[str, Stored]) -> bool:
    """Whether the first layer of the MLP is twice as wide as its second reads."""
    up, down = stored["blocks.0.mlp.fc1.weight"].shape, stored["blocks.0.mlp.fc2.weight"].shape
    return up[0] == 2 * down[1]


def _pool(stored: dict[str, Stored], said: str | None) -> Pool:
    """What the head reads: as the file's config says, else as its tensors tell."""
    if "attn_pool.latent" in stored:
        return "map"
    if said:
        if said not in POOLS:
            raise InputError(f"The file's pooling is timm's {said!r}: only {', '.join(POOLS)} are known.")
        return POOLS[said]
    return "gap" if "fc_norm.weight" in stored or "cls_token" not in stored else "token"


def _gelu(said: str | None, architecture: str, gated: bool) -> Gelu:
    known = ("silu", "swish") if gated else ("gelu", "gelu_tanh")
    if said not in (None, *known):
        raise InputError(f"The file's activation is timm's {said!r}: only {' and '.join(known)} are known here.")
    return "tanh" if said == "gelu_tanh" or (said is None and TANH.search(architecture)) else "exact"


def _settle_positions(
    stored: dict[str, Stored], config: ResolvedConfig, said: dict[str, Any], image_size: tuple[int, int] | None
) -> tuple[int, int]:
    """Makes the table cover the class token and no register; returns the image size that it is for."""
    token, registers = int(config.class_token), config.registers
    length = axes(stored, "pos_embed", "one n d")["n"]
    card, arguments = fact(said, "pretrained_cfg", dict, {}), fact(said, "model_args", dict, {})
    stated = size_fact(arguments, "img_size") or size_fact(card, "input_size")
    prefixes, stem = {0, token, token + registers}, stem_scale(config.stages)
    prefix, size = settle_table(length, prefixes, config.patch, stated, image_size, stem)
    table = stored["pos_embed"]
    if registers and prefix == token + registers:
        rest = length - registers
        stored["reg_token"] = Stored(stored["reg_token"].shape, partial(_moved, stored["reg_token"], table, token))
        stored["pos_embed"] = Stored((1, rest, table.shape[2]), partial(_without_registers, table, token, registers))
    elif prefix < token:
        stored["pos_embed"] = with_class_row(table)
    return size


def _moved(registers: Stored, table: Stored, token: int) -> Tensor:
    """Registers plus the positions that some files give them."""
    tokens = registers.read()
    return tokens + table.read()[:, token : token + tokens.shape[1]]


def _without_registers(table: Stored, token: int, registers: int) -> Tensor:
    rows = table.read()
    return torch.cat([rows[:, :token], rows[:, token + registers :]], dim=1)


def write(net: Net, report: Report, path: Path) -> None:
    """Writes a folder that `timm.create_model("local-dir:...")` opens."""
    config, tensors = net.config, to_theirs(mappings(net.config), net.state_dict(), net.config, NAME)
    if config.pool not in POOLS.values():
        raise InputError(f"timm has no pooling like net.pool={config.pool}: convert to checkpoint, which holds any.")
    if config.embed_norm and tensors.pop("patch_embed.proj.bias").count_nonzero():
        raise InputError("timm has no bias in the patches of a net with net.embed_norm: convert to checkpoint.")
    if "pos_embed" not in tensors:
        raise InputError(
            f"timm needs learned positions at the stem, not net.position={config.position}: convert to checkpoint."
        )
    architecture = _architecture(config, net.image_size)
    covers_token = _spread_positions(tensors, config)
    (y, x), pool = net.image_size, next(theirs for theirs, ours in POOLS.items() if ours == config.pool)
    arguments = {
        "img_size": [y, x],
        "patch_size": config.patch,
        "in_chans": config.channels,
        "embed_dim": config.width,
        "depth": config.depth,
        "num_heads": config.heads,
        # Half a unit more, so that cutting the product to an integer gives the width whatever the rounding.
        "mlp_ratio": ((2 if config.swiglu else 1) * config.mlp + 0.5) / config.width,
        "global_pool": pool,
        "class_token": config.class_token,
        "reg_tokens": config.registers,
        "no_embed_class": not covers_token,
        "init_values": config.layer_scale or None,
        "pre_norm": config.embed_norm,
        "fc_norm": config.norm_after_pool,
    }
    if not config.swiglu:
        arguments["act_layer"] = "gelu_tanh" if config.gelu == "tanh" else "gelu"
    said = {"architecture": architecture, "num_features": config.width, "global_pool": pool, "model_args": arguments}
    first = stem_root(config.stages) if config.stages else "patch_embed.proj"
    write_folder(
        path, net, report, tensors, said, {"first_conv": first, "classifier": "head", "fixed_input_size": True}
    )


def _architecture(config: ResolvedConfig, image_size: tuple[int, int]) -> str:
    """The entry of timm that has what its arguments in JSON cannot say: ResNet, gated MLP, epsilon of the norms."""
    if not config.stages:
        clip = "vit_base_patch16_clip_224" if config.embed_norm else "vit_base_patch16_224"
        return "vit_giant_patch14_dinov2" if config.swiglu else clip
    check_code(config)
    whole = not any(-(-side // stem_scale(config.stages)) % config.patch for side in image_size)
    if config.stages not in HYBRIDS or config.swiglu or config.embed_norm or not whole:
        raise InputError(
            f"timm has no hybrid with net.stages={config.stages}, net.swiglu={config.swiglu}, "
            f"net.embed_norm={config.embed_norm} at {image_size[0]}x{image_size[1]} pixels: convert to npz or "
            "checkpoint."
        )
    return HYBRIDS[config.stages]


def _spread_positions(tensors: dict[str, Tensor], config: ResolvedConfig) -> bool:
    """Gives the table the rows that timm expects; returns whether it covers class token and registers.

    A class token whose position is zero needs none; otherwise registers, which have no position here, get zeros.
    """
    table, token = tensors["pos_embed"], int(config.class_token)
    first, patches = table[:, :token], table[:, token:]
    covers = bool(first.count_nonzero()) or not (token or config.registers)
    zeros = table.new_zeros(1, config.registers, config.width)
    tensors["pos_embed"] = torch.cat([first, zeros, patches], dim=1) if covers else patches.contiguous()
    return covers
