"""Any net of timm, filled with timm's files by timm's own rules: other spellings, positions for another size."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, TimmNet, resolve
from vit_lightning.models.config import ResolvedConfig
from vit_lightning.models.variants import TIMM
from vit_lightning.weights.archive import Archive, Stored
from vit_lightning.weights.layouts.facts import fact, numbers_fact, size_fact
from vit_lightning.weights.layouts.tensor_mapping import TensorMapping, Weights
from vit_lightning.weights.layouts.timm_folder import odd_arguments, said_by, write_folder
from vit_lightning.weights.report import Report

NAME = "timm, a net of its own"


def recognises(archive: Archive) -> bool:
    """Whether a folder says which net of timm it is."""
    return bool(said_by(archive))


def read(archive: Archive, heads: int | None, image_size: tuple[int, int] | None) -> Weights:
    """Reads the net that timm's config.json names."""
    said = archive.json("config.json")
    if odd := odd_arguments(fact(said, "model_args", dict, {})):
        raise InputError(f"{archive.path} sets {odd[0]} of {said['architecture']}: that net cannot be built here.")
    return read_as(archive, resolve(NetConfig(TIMM + said["architecture"])), image_size)


def read_as(archive: Archive, config: ResolvedConfig, image_size: tuple[int, int] | None) -> Weights:
    """Reads the tensors of a net of timm, which a bare file does not name.

    Args:
        archive: the file.
        config: resolved config of a `timm/<name>` variant.
        image_size: (y, x) in pixels that the net works with; None: that of the file's config, else of timm's card.

    Raises:
        InputError: the file is not of that net.
    """
    said = archive.json("config.json")
    stated = fact(said, "pretrained_cfg", dict, {})
    bare = TimmNet(replace(config, head_bias=0.0), image_size or _own_size(config, stated), 0)
    card = bare.body.pretrained_cfg
    tensors = {name: stored.read() for name, stored in archive.stored.items()}
    classes = _rows(tensors, card.get("classifier"))
    channels = _channels(tensors, card.get("first_conv"), bare)
    config = replace(config, channels=channels, head_bias=0.0)
    overlay = {"state_dict": tensors, "num_classes": classes, "label_offset": 0, "custom_load": False, "source": ""}
    overlay["input_size"] = (channels, *card["input_size"][1:])
    try:
        net = TimmNet(config, bare.image_size, classes, overlay)
    except (RuntimeError, KeyError, ValueError, AttributeError, IndexError) as error:
        what = " ".join(str(error).split())[:200]
        raise InputError(
            f"{archive.path} is not for {config.variant} ({what}): name the net of timm that it is."
        ) from error
    held = net.body.state_dict()
    names = said.get("label_names") or stated.get("label_names") or []
    return Weights(
        NAME,
        config,
        net.image_size,
        classes,
        [TensorMapping(f"body.{name}", (name,)) for name in held],
        {name: Stored(tuple(tensor.shape), partial(_same, tensor)) for name, tensor in held.items()},
        notes=_resized(tensors, held),
        mean=numbers_fact(stated, "mean", channels),
        std=numbers_fact(stated, "std", channels),
        class_names=list(names) if isinstance(names, list) and len(names) == classes else [],
    )


def _own_size(config: ResolvedConfig, stated: dict[str, Any]) -> tuple[int, int]:
    if size := size_fact(stated, "input_size"):
        return size
    import timm

    card = timm.get_pretrained_cfg(config.variant.removeprefix(TIMM))
    return (224, 224) if card is None else card.input_size[1:]


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _rows(tensors: Mapping[str, Tensor], classifier: str | tuple[str, ...] | None) -> int:
    """Classes of the file's head; 0: it has none."""
    names = (classifier,) if isinstance(classifier, str) else classifier or ()
    return next((len(tensors[f"{name}.weight"]) for name in names if f"{name}.weight" in tensors), 0)


def _channels(tensors: Mapping[str, Tensor], first: str | tuple[str, ...] | None, net: TimmNet) -> int:
    """Channels of the images that the file's first layer reads; those of the net where no layer shows them."""
    name = f"{first[0] if isinstance(first, tuple) else first}.weight"
    ours = dict(net.body.named_parameters()).get(name)
    if name not in tensors or ours is None or tensors[name].ndim != 4:
        return net.config.channels
    return tensors[name].shape[1] * net.config.channels // ours.shape[1]


def _resized(tensors: Mapping[str, Tensor], held: Mapping[str, Tensor]) -> list[str]:
    changed = [name for name in held if name in tensors and tensors[name].shape != held[name].shape]
    if not changed:
        return []
    name = changed[0]
    return [f"{name} {tuple(tensors[name].shape)} -> {tuple(held[name].shape)}, as timm resizes it"]


def write(net: TimmNet, report: Report, path: Path) -> None:
    """Writes a folder that `timm.create_model("local-dir:...")` opens."""
    card, name = net.body.pretrained_cfg, net.config.variant.removeprefix(TIMM).partition(".")[0]
    tensors = {name: tensor.contiguous() for name, tensor in net.body.state_dict().items()}
    kept = {fact: card.get(fact) for fact in ("first_conv", "classifier")}
    kept["fixed_input_size"] = bool(card.get("fixed_input_size"))
    write_folder(path, net, report, tensors, {"architecture": name, "num_features": net.body.num_features}, kept)
