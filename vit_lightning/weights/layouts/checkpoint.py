"""Our own files: Lightning checkpoints, and safetensors that carry the same facts in their header."""

import json
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import save_file

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, resolve
from vit_lightning.models.config import ResolvedConfig
from vit_lightning.models.recipe_words import trained_part
from vit_lightning.weights.archive import Archive, Stored
from vit_lightning.weights.layouts.facts import fact, names_in, numbers_fact, size_fact
from vit_lightning.weights.layouts.low_rank import with_merged_kernels
from vit_lightning.weights.layouts.tensor_mapping import TensorMapping, Weights, rename
from vit_lightning.weights.report import Report

NAME = "vit_lightning"
HYPER = "hyper_parameters"
RECIPE = ("optim", "schedule", "loss", "label_smoothing")
REMEDIES = ("class_weights", "focal_gamma", "logit_adjustment")
"""What answers classes of unequal size, and shifts the probabilities of a net."""
FIELDS = {field.name for field in fields(NetConfig)}


def recognises(archive: Archive) -> bool:
    """Whether a file is one of ours."""
    facts = archive.facts.get(HYPER)
    return (isinstance(facts, dict) and "net" in facts) or any(
        name.endswith("patches.proj.weight") for name in archive.stored
    )


def read(archive: Archive, heads: int | None, image_size: tuple[int, int] | None) -> Weights:
    """Takes the config as the checkpoint states it."""
    facts = fact(archive.facts, HYPER, dict, {})
    net = facts.get("net")
    size = size_fact(facts, "image_size")
    if not isinstance(net, dict) or size is None:
        raise InputError(
            f"{archive.path} holds a net of ours without its config: give the checkpoint that it came from."
        )
    if unknown := net.keys() - FIELDS:
        raise InputError(
            f"{archive.path} has the net field {min(unknown)!r}, which this version does not know: update."
        )
    stored, dropped = _net(archive.stored)
    stored, updated = with_merged_kernels(stored, facts, archive.path)
    kinds = asdict(resolve(NetConfig()))
    config = resolve(NetConfig(**{name: fact(net, name, _kinds(kinds[name]), None) for name in net}))
    classes = fact(facts, "num_classes", int, 0)
    _check_extent(archive.path, config, classes, stored)
    mean, std = (numbers_fact(facts, name, config.channels) for name in ("mean", "std"))
    window = numbers_fact(facts, "window", 2)
    names = _class_names(archive, classes)
    same = [TensorMapping(name, (name,)) for name in stored]
    weights = Weights(NAME, config, size, classes, same, stored, dropped, mean=mean, std=std, class_names=names)
    weights.window = None if window is None else (window[0], window[1])
    weights.training, weights.of_data = _training(archive), _of_data(archive.facts)
    weights.notes += [f"low-rank updates are merged into {updated} kernels"] if updated else []
    return weights


def _class_names(archive: Archive, classes: int) -> list[str]:
    """Names of the classes, one for each output of the head; empty where the checkpoint has none."""
    names = archive.facts.get("class_names") or []
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{archive.path} is damaged: its class_names are no list of names; give another checkpoint")
    if names and classes and len(names) != classes:
        raise InputError(
            f"{archive.path} is damaged: it has {len(names)} class_names for the {classes} outputs of its head; give "
            "another checkpoint"
        )
    return names_in(archive.facts)


def _check_extent(path: Path, config: ResolvedConfig, classes: int, stored: dict[str, Stored]) -> None:
    """Refuses numbers of blocks, units and classes that the tensors cannot have, before a net of that size is built."""
    for name, count in (("depth", config.depth), ("stages", sum(config.stages))):
        if count > len(stored):
            raise InputError(f"{path} says {name}={count}, but holds {len(stored)} tensors of its net.")
    longest = max((max(tensor.shape, default=0) for tensor in stored.values()), default=0)
    if not 0 <= classes <= longest:
        raise InputError(f"{path} says num_classes={classes}, but no tensor of its net has that many rows.")


def _kinds(sample: object) -> tuple[type, ...]:
    """Types of a field, after one of its values."""
    return (list, tuple) if isinstance(sample, tuple) else (type(sample),)


def _net(stored: dict[str, Stored]) -> tuple[dict[str, Stored], dict[str, str]]:
    """The net's tensors, without what the module around it, compiling or wrapping put in front of their names."""
    plain = rename(stored, lambda name: name.replace("_orig_mod.", ""))
    inside = {name.removeprefix("net."): tensor for name, tensor in plain.items() if name.startswith("net.")}
    if not inside:
        return plain, {}
    return inside, {name: "beside the net" for name in plain if not name.startswith("net.")}


def facts_of(net: Net, report: Report) -> dict[str, Any]:
    """Returns what our own files state about a net, in plain types."""
    height, width = net.image_size
    hyper = {
        "net": asdict(net.config),
        "num_classes": net.num_classes,
        "image_size": height if height == width else net.image_size,
        "mean": report.mean,
        "std": report.std,
    }
    if report.window:
        hyper |= {"channels": net.config.channels, "window": report.window}
    if report.loss:
        hyper["loss"] = report.loss
    return {HYPER: hyper, "class_names": report.class_names}


def write(net: Net, report: Report, path: Path) -> None:
    """Writes a checkpoint that the Lightning model opens, without a state of training."""
    state = {f"net.{name}": tensor.contiguous() for name, tensor in net.state_dict().items()}
    facts = report.of_data | {"pytorch-lightning_version": version("lightning")} | facts_of(net, report)
    torch.save({"state_dict": state, **facts}, path)


def write_safetensors(net: Net, report: Report, path: Path) -> None:
    """Writes a folder with the net's tensors in safetensors, and their facts in its header."""
    path.mkdir()
    state = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}
    save_file(state, path / "model.safetensors", {"format": "pt", "vit_lightning": json.dumps(facts_of(net, report))})


def _data(path: Path) -> dict[str, Any]:
    """What the run folder around a checkpoint says about its data, without the place where they lay."""
    config = path.parent.parent / "config.yaml"
    try:
        data = yaml.safe_load(config.read_text(encoding="utf-8"))["data"]
        return {"data": data["class_path"], **{k: v for k, v in data["init_args"].items() if k != "root"}}
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return {}


def _of_data(facts: dict[str, Any]) -> dict[str, Any]:
    """What holds a checkpoint to its data: the split, under the name of the datamodule, and the labels seen."""
    return {
        name: value
        for name, value in facts.items()
        if name in ("seen_labels", "seen_by_members", "seen_before") or (isinstance(value, dict) and "split" in value)
    }


def _remedies(hyper: dict[str, Any]) -> dict[str, Any]:
    return {name: hyper[name] for name in REMEDIES if hyper.get(name)}


def _training(archive: Archive) -> dict[str, Any]:
    """What a checkpoint says about its run: recipe, data, step and the best value of what was watched."""
    facts = archive.facts
    hyper = facts.get(HYPER, {})
    states = [state for state in facts.get("callbacks", {}).values() if isinstance(state, dict)]
    best = {state.get("monitor"): state.get("best_model_score") for state in states}
    training = {
        "recipe": {name: hyper[name] for name in RECIPE if name in hyper} | _remedies(hyper),
        "trained": trained_part(hyper) if {"freeze_trunk", "bias_only", "lora"} & hyper.keys() else None,
        "data": _data(archive.path),
        "began with": facts.get("weights"),
        "steps": facts.get("global_step"),
        "metrics": {name: float(score) for name, score in best.items() if name and score is not None},
    }
    return {name: value for name, value in training.items() if value}
