"""transformers' folders: ViTForImageClassification, ViTModel, and the same two of DINOv2 with or without registers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, resolve
from vit_lightning.models.config import Gelu, ResolvedConfig
from vit_lightning.weights.archive import Archive, Stored
from vit_lightning.weights.layouts.facts import fact, is_dinov2, numbers_fact, size_fact
from vit_lightning.weights.layouts.shapes import heads_of, settle_table, variant_of
from vit_lightning.weights.layouts.tensor_mapping import (
    CONCATENATE,
    PATCHES,
    TensorMapping,
    Weights,
    axes,
    blocks_in,
    fill_biases,
    pair,
    to_theirs,
)
from vit_lightning.weights.report import Report

NAME = "transformers"
ANCHOR = "embeddings.patch_embeddings.projection.weight"
GELUS: dict[str, Gelu] = {"gelu": "exact", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
HEAD = ("classifier.weight", "classifier.bias")
MASK = "embeddings.mask_token"
SEVERAL = "multi_label_classification"
"""What transformers calls a net whose classes have a sigmoid each."""
WINDOW = "window"
"""Our key of the preprocessor_config.json, of which transformers knows nothing."""
VIT, DINOV2, REGISTERS = "vit", "dinov2", "dinov2_with_registers"
CLASSES = {VIT: "ViT", DINOV2: "Dinov2", REGISTERS: "Dinov2WithRegisters"}


def mappings(config: ResolvedConfig) -> list[TensorMapping]:
    """Returns the table of a net in transformers' names, without the model's prefix.

    DINOv2's folders are for the nets that have what only they can say: LayerScale.
    """
    dino = bool(config.layer_scale)
    norm1, norm2 = ("norm1", "norm2") if dino else ("layernorm_before", "layernorm_after")
    up, down = ("mlp.fc1", "mlp.fc2") if dino else ("intermediate.dense", "output.dense")
    if config.swiglu:
        up, down = "mlp.weights_in", "mlp.weights_out"
    table = [
        TensorMapping("class_token", ("embeddings.cls_token",)),
        TensorMapping("registers", ("embeddings.register_tokens",)),
        TensorMapping("position.table", ("embeddings.position_embeddings",)),
        *pair("patches.proj", "embeddings.patch_embeddings.projection", PATCHES),
        *pair("norm", "layernorm"),
        *pair("representation", "pooler.dense"),
        *pair("head", "classifier"),
    ]
    for i in range(config.depth):
        ours, theirs = f"blocks.{i}", f"encoder.layer.{i}"
        parts = tuple(f"{theirs}.attention.attention.{part}" for part in ("query", "key", "value"))
        table += [
            *pair(f"{ours}.norm1", f"{theirs}.{norm1}"),
            *pair(f"{ours}.attention.qkv", parts, CONCATENATE, CONCATENATE),
            *pair(f"{ours}.attention.out", f"{theirs}.attention.output.dense"),
            TensorMapping(f"{ours}.scale1", (f"{theirs}.layer_scale1.lambda1",)),
            *pair(f"{ours}.norm2", f"{theirs}.{norm2}"),
            *pair(f"{ours}.mlp.up", f"{theirs}.{up}"),
            *pair(f"{ours}.mlp.down", f"{theirs}.{down}"),
            TensorMapping(f"{ours}.scale2", (f"{theirs}.layer_scale2.lambda1",)),
        ]
    return table


def recognises(archive: Archive) -> bool:
    """Whether a file has this layout."""
    return any(name.endswith(ANCHOR) for name in archive.stored)


def read(archive: Archive, heads: int | None, image_size: tuple[int, int] | None) -> Weights:
    """Reads the config of the net from config.json; the tensors' shapes must agree with it.

    Without a config.json the tensors tell the kind of the net, and the rest is as transformers has it by default.
    """
    said = archive.json("config.json")
    stored, dropped = _without_prefix(archive.stored)
    kind = fact(said, "model_type", str, "") if said else _kind(stored)
    if kind not in CLASSES:
        raise InputError(
            f"{archive.path} holds transformers' tensors of the model_type {kind!r}: only {', '.join(CLASSES)} are "
            "known."
        )
    config = _config(stored, said, kind, heads)
    length = axes(stored, "embeddings.position_embeddings", "one n d")["n"]
    stated = size_fact(said, "image_size", 224 if said else None)
    _, size = settle_table(length, (1,), config.patch, stated, image_size)
    config.crop_to_patch = any(side % config.patch for side in size)
    prepared = archive.json("preprocessor_config.json")
    window = numbers_fact(prepared, WINDOW, 2)
    classes, config = _head(stored, config)
    names = _names(fact(said, "id2label", dict, {}))
    return Weights(
        f"{NAME} {kind}",
        config,
        size,
        classes,
        mappings(config),
        stored,
        dropped,
        mean=numbers_fact(prepared, "image_mean", config.channels),
        std=numbers_fact(prepared, "image_std", config.channels),
        window=None if window is None else (window[0], window[1]),
        class_names=names if len(names) == classes else [],
        assumed=() if said else ("norm_eps",) if config.swiglu else ("gelu", "norm_eps"),
        notes=[] if said or heads else [f"the file does not say its attention heads: {config.heads} by its width"],
        training={"recipe": {"loss": "sigmoid"}} if said.get("problem_type") == SEVERAL else {},
        is_dinov2=is_dinov2(config, length),
    )


def _kind(stored: dict[str, Stored]) -> str:
    """The model_type of tensors without their config.json."""
    if not any(name.endswith("layer_scale1.lambda1") for name in stored):
        return VIT
    return REGISTERS if "embeddings.register_tokens" in stored else DINOV2


def _names(labels: dict[str, str]) -> list[str]:
    """Class names in the order of their numbers, which JSON may sort as text."""
    if not all(number.isdecimal() for number in labels):
        raise InputError(f"The file's config says id2label={labels}, whose keys are no numbers.")
    names = [labels[number] for number in sorted(labels, key=int)]
    return [] if names == [f"LABEL_{i}" for i in range(len(names))] else names


def _without_prefix(stored: dict[str, Stored]) -> tuple[dict[str, Stored], dict[str, str]]:
    """Takes off the model's name, which a bare backbone lacks, and the token of masked pre-training."""
    anchor = next(name for name in stored if name.endswith(ANCHOR))
    prefix = anchor.removesuffix(ANCHOR)
    bare = {name.removeprefix(prefix): tensor for name, tensor in stored.items()}
    dropped = {MASK: "only for masked pre-training"} if bare.pop(MASK, None) else {}
    return bare, dropped


def _config(stored: dict[str, Stored], said: dict[str, Any], kind: str, given: int | None) -> ResolvedConfig:
    act, pooler = fact(said, "hidden_act", str, "gelu"), fact(said, "pooler_act", str, "tanh")
    if act not in GELUS or pooler != "tanh":
        raise InputError(
            f"The net's activations are {act!r} and {pooler!r}: only {', '.join(GELUS)} and tanh are known."
        )
    patch = axes(stored, ANCHOR, "d c p q")
    if patch["p"] != patch["q"]:
        raise InputError(f"The file's patches have {patch['p']}x{patch['q']} pixels: only square patches are known.")
    width, depth = patch["d"], blocks_in(stored, r"encoder\.layer\.(\d+)\.")
    if (told := fact(said, "num_hidden_layers", int, depth)) != depth:
        raise InputError(f"The file's config says num_hidden_layers={told}, but its tensors have {depth} blocks.")
    heads = heads_of(width, fact(said, "num_attention_heads", int, None) if said else given)
    swiglu = fact(said, "use_swiglu_ffn", bool, not said and "encoder.layer.0.mlp.weights_in.weight" in stored)
    mlp = "intermediate.dense" if kind == VIT else "mlp.weights_in" if swiglu else "mlp.fc1"
    up = axes(stored, f"encoder.layer.0.{mlp}.weight", "m d")["m"]
    if not fact(said, "qkv_bias", bool, bool(said)):
        layers = (f"encoder.layer.{i}.attention.attention" for i in range(depth))
        names = (f"{layer}.{part}.bias" for layer in layers for part in ("query", "key", "value"))
        fill_biases(stored, dict.fromkeys(names, width))
    row = (depth, width, up // 2 if swiglu else up, heads)
    return resolve(
        NetConfig(
            variant=variant_of((), patch["p"], row),
            patch=patch["p"],
            width=width,
            depth=depth,
            heads=heads,
            mlp=row[2],
            channels=patch["c"],
            representation=axes(stored, "pooler.dense.weight", "r d")["r"] if "pooler.dense.weight" in stored else 0,
            registers=axes(stored, "embeddings.register_tokens", "one n d")["n"] if kind == REGISTERS else 0,
            layer_scale=0.0 if kind == VIT else fact(said, "layerscale_value", float, 1.0),
            gelu=GELUS[act],
            swiglu=swiglu,
            norm_eps=fact(said, "layer_norm_eps", float, 1e-12 if kind == VIT else 1e-6),
        )
    )


def _head(stored: dict[str, Stored], config: ResolvedConfig) -> tuple[int, ResolvedConfig]:
    """Returns the number of classes, and the pooling that the head's width asks for.

    DINOv2's head reads the class token and the mean of the patches; where it ignores the second, the net has the class
    token alone.
    """
    if HEAD[0] not in stored:
        return 0, config
    head = axes(stored, HEAD[0], "k d")
    if head["d"] != 2 * config.width or not config.layer_scale:
        return head["k"], config
    weight = stored[HEAD[0]]
    if weight.read()[:, config.width :].count_nonzero():
        return head["k"], replace(config, pool="token_and_gap")
    stored[HEAD[0]] = Stored((head["k"], config.width), lambda: weight.read()[:, : config.width].clone())
    return head["k"], config


def write(net: Net, report: Report, path: Path) -> None:
    """Writes a folder that transformers opens: tensors, config with the classes' names, and the images' preparation."""
    config = net.config
    kind = VIT if not config.layer_scale else REGISTERS if config.registers else DINOV2
    tensors = to_theirs(mappings(config), net.state_dict(), config, f"{NAME}'s {kind}")
    if kind == REGISTERS:
        # Its class always has one, and would begin it anew with a warning.
        tensors[MASK] = torch.zeros(1, config.width)
    if kind == VIT and (config.registers or config.swiglu):
        raise InputError(
            "transformers has registers and gated MLPs in DINOv2 alone, with LayerScale: "
            "convert to checkpoint, which holds any."
        )
    if not config.class_token:
        raise InputError(
            f"transformers has no {kind} without a class token (net.pool={config.pool}): "
            "convert to checkpoint, which holds any."
        )
    if config.representation and net.num_classes:
        raise InputError(
            "transformers has no classifier behind a hidden layer: convert to npz, torchvision or checkpoint."
        )
    if net.num_classes and kind != VIT and config.pool == "token":
        # DINOv2's head reads the mean of the patches as well: with zeros it does not.
        weight = tensors[HEAD[0]]
        tensors[HEAD[0]] = torch.cat([weight, torch.zeros_like(weight)], dim=1)
    if net.num_classes:
        tensors = {name if name in HEAD else f"{kind}.{name}": tensor for name, tensor in tensors.items()}
    contents = {"config": _says(net, report, kind), "preprocessor_config": _prepares(net, report)}
    path.mkdir()
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    for name, content in contents.items():
        (path / f"{name}.json").write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")


def _says(net: Net, report: Report, kind: str) -> dict[str, Any]:
    """The config.json of a net."""
    config, (y, x) = net.config, net.image_size
    names = report.class_names or [f"LABEL_{i}" for i in range(net.num_classes)]
    said = {
        "architectures": [CLASSES[kind] + ("ForImageClassification" if net.num_classes else "Model")],
        "model_type": kind,
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "hidden_act": next(theirs for theirs, ours in reversed(GELUS.items()) if ours == config.gelu),
        "layer_norm_eps": config.norm_eps,
        "image_size": y if y == x else [y, x],
        "patch_size": config.patch,
        "num_channels": config.channels,
        "qkv_bias": True,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
        "dtype": "float32",
    }
    if report.loss == "sigmoid":
        said["problem_type"] = SEVERAL
    if kind == VIT:
        return said | {
            "intermediate_size": config.mlp,
            "pooler_act": "tanh",
            "pooler_output_size": config.representation or config.width,
        }
    ratio, rest = divmod(config.mlp * 3 if config.swiglu else config.mlp * 2, config.width * 2)
    if rest:
        raise InputError(
            f"transformers' DINOv2 has no MLP of {config.mlp} for a width of {config.width}: "
            "convert to checkpoint, which holds any."
        )
    dino = {"mlp_ratio": ratio, "layerscale_value": config.layer_scale, "use_swiglu_ffn": config.swiglu}
    return said | dino | ({"num_register_tokens": config.registers} if kind == REGISTERS else {"use_mask_token": False})


def _prepares(net: Net, report: Report) -> dict[str, Any]:
    """The preprocessor_config.json of a net.

    transformers' processor multiplies by one factor: a window that begins elsewhere than at 0 is left to the caller.
    The window stands beside it as a key of ours.
    """
    low, high = report.window or (0, 255)
    (y, x), (mean, std) = net.image_size, report.normalisation(net.config.channels)
    sized = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": y, "width": x}}
    if report.evaluation.evaluation == "center":
        sized = _cropped(y, x, report.evaluation.zoom) | {"do_convert_rgb": net.config.channels == 3}
    return {
        **sized,
        "resample": 2,
        "do_rescale": low == 0,
        "rescale_factor": 1 / high if low == 0 else 1.0,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(std),
    } | ({WINDOW: list(report.window)} if report.window else {})


def _cropped(y: int, x: int, zoom: float) -> dict[str, Any]:
    """How an image is resized, its aspect kept, and cropped; transformers' own class for ViTs crops nothing.

    transformers rounds the longer side down.
    """
    if y != x:
        raise InputError(
            f"transformers has no crop of {y}x{x} pixels after resizing with the aspect kept, as "
            "--data.augment.evaluation center brings images to size: convert to timm or checkpoint."
        )
    return {
        "image_processor_type": "BitImageProcessor",
        "do_resize": True,
        "size": {"shortest_edge": round(y * zoom)},
        "do_center_crop": True,
        "crop_size": {"height": y, "width": x},
    }
