"""The folder that `timm.create_model("local-dir:...")` opens: tensors, and the config.json that names timm's net."""

import json
import math
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from vit_lightning.augment import Augment
from vit_lightning.models import Net
from vit_lightning.weights.archive import Archive
from vit_lightning.weights.layouts.facts import fact
from vit_lightning.weights.report import Report

PLAIN = {"img_size", "num_classes", "in_chans"}
"""What a config.json may say of a net beside its name without making another net of it."""
USUAL_POOL = ("global_pool", "avg")


def said_by(archive: Archive) -> dict[str, Any]:
    """Returns what timm's config.json beside the tensors says; empty: there is none, or it is not timm's."""
    said = archive.json("config.json")
    return said if fact(said, "architecture", str, "") else {}


def odd_arguments(arguments: dict[str, Any]) -> list[str]:
    """Returns the arguments that make another net of the one that a config.json names."""
    return [name for name in arguments if name not in PLAIN and (name, arguments[name]) != USUAL_POOL]


def to_size(evaluation: Augment, image_size: tuple[int, int]) -> dict[str, Any]:
    """Returns the card's facts by which `timm.data.create_transform` brings images to size as our evaluation does."""
    if evaluation.evaluation == "resize":
        return {"crop_mode": "squash", "crop_pct": 1.0, "interpolation": "bilinear"}
    return {"crop_mode": "center", "crop_pct": _share(evaluation.zoom, image_size), "interpolation": "bilinear"}


def _share(zoom: float, image_size: tuple[int, int]) -> float:
    """Returns the share of the resized side that is cropped: 1 / zoom, or next to it where timm would round apart."""
    share, short = 1 / zoom, min(image_size)
    resized = round(short * zoom)
    return share if math.floor(short / share) == resized else short / (resized + 0.5)


def write_folder(
    path: Path,
    net: Net,
    report: Report,
    tensors: dict[str, Tensor],
    said: dict[str, Any],
    card: dict[str, Any],
) -> None:
    """Writes the tensors and the config.json.

    Args:
        path: folder to make.
        net: the net, which knows its classes and image size.
        report: what is known besides: mean, std, names of the classes, how images are brought to size.
        tensors: under timm's names.
        said: what config.json says besides: the architecture, its arguments.
        card: what the card of its weights says besides: first layer, classifier, whether the size is fixed.
    """
    mean, std = report.normalisation(net.config.channels)
    sizes = {"input_size": [net.config.channels, *net.image_size], "num_classes": net.num_classes, "pool_size": None}
    seen = {"mean": mean, "std": std} | to_size(report.evaluation, net.image_size)
    content = {"num_classes": net.num_classes, **said, "pretrained_cfg": sizes | seen | card}
    if report.class_names:
        content["label_names"] = report.class_names
    path.mkdir()
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    (path / "config.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
