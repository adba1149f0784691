"""Settings of runs in the words of those who did not type them, and in which of them two runs differ."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from vit_lightning.commands.report.collect import settings_of
from vit_lightning.commands.report.damage import place_of, reason_of
from vit_lightning.commands.report.run import Run, as_dict
from vit_lightning.commands.report.state import state_of
from vit_lightning.errors import listing
from vit_lightning.models.recipe_words import effective
from vit_lightning.runs import folders
from vit_lightning.runs.record import of_training
from vit_lightning.yaml_files import read_mapping

WORDS = {
    "seed_everything": "seed",
    "model": "kind of training",
    "data": "data",
    "data.root": "folder of the data",
    "data.batch_size": "batch per device",
    "data.fraction": "share of the training images",
    "data.per_class": "training images per class",
    "model.net.variant": "net",
    "model.net.pool": "pooling of the net",
    "model.net.position": "position embeddings of the net",
    "model.net.mlp": "width of the net's MLPs",
    "model.optim.name": "optimiser",
    "model.optim.lr": "learning rate",
    "model.optim.decay_on": "tensors with weight decay",
    "model.optim.layer_decay": "decay of the learning rate by layer",
    "model.schedule.decay": "schedule",
    "model.schedule.warmup_steps": "warm-up steps",
    "model.schedule.cooldown_steps": "cool-down steps",
    "model.schedule.end_lr": "last learning rate",
    "model.averaging.decay": "decay of the averaged weights",
    "model.weights": "weights at the beginning",
    "model.freeze_trunk": "trunk frozen",
    "model.bias_only": "biases trained alone",
    "model.lora.rank": "rank of low-rank updates",
    "model.focal_gamma": "gamma of the focal loss",
    "trainer.max_epochs": "epochs",
    "trainer.max_steps": "optimiser steps",
    "trainer.max_time": "longest time",
    "trainer.gradient_clip_val": "gradient clipping",
    "trainer.accumulate_grad_batches": "batches per optimiser step",
}
"""How settings are called whose flag does not say it, by the flag."""
GROUPS = {"net": "net", "augment": "augmentation", "also": "further set"}
"""Groups of settings whose name must stand before that of a setting."""
HANDLING = ("recompute", "compile", "cuda_graph", "scores", "weights_adapt", "weights_overlap")
"""Settings of the model that change no number that it learns."""
UNLIMITED = ("max_epochs", "max_steps")
"""Settings of the trainer of which -1 is none."""
NOT_SET = "not set"
Settings = dict[str, Any]


def word_for(flag: str) -> str:
    """Return how a person calls a setting."""
    if flag in WORDS:
        return WORDS[flag]
    *groups, name = flag.split(".")
    words = name.replace("_", " ")
    before = next((GROUPS[group] for group in reversed(groups) if group in GROUPS), "")
    return f"{before}: {words}" if before else words


def said(value: Any) -> str:
    """Return a value of a setting as a person reads it."""
    if value is None:
        return NOT_SET
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {said(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(said, value)) or "none"
    return str(value)


def size_said(size: Any) -> str:
    """Return the sides of an image, once where they are equal."""
    sides = [str(side) for side in (size if isinstance(size, list | tuple) else [size])]
    return sides[0] if len(set(sides)) == 1 else " x ".join(sides)


def told(config: Mapping[str, Any], net: Mapping[str, Any]) -> Settings:
    """Return what of a config decides what a run learns, by flag; a setting that its rule does not read is left out.

    Args:
        config: Of the run.
        net: Every field of its net, as a checkpoint holds it; empty: no checkpoint says it.
    """
    model = {name: value for name, value in settings_of(dict(config)).items() if name not in HANDLING}
    model |= {part: effective(part, as_dict(model.get(part))) for part in ("optim", "schedule")}
    model["net"] = dict(net) or model.get("net")
    of_data = as_dict(config.get("data"))
    kinds = {part: as_dict(config.get(part)).get("class_path") for part in ("model", "data")}
    training = of_training(
        {"data": {"init_args": as_dict(of_data.get("init_args"))}, "trainer": as_dict(config.get("trainer"))}
    )
    data, trainer = training["data"], training["trainer"]
    del data["class_path"]
    found = {name: str(kind).rpartition(".")[2] for name, kind in kinds.items() if kind}
    trainer |= {name: None for name in UNLIMITED if trainer.get(name) == -1}
    trainer["accumulate_grad_batches"] = trainer.get("accumulate_grad_batches") or 1
    parts = {"model": model, "data": data, "trainer": trainer}
    found |= {flag: value for flag, value in _flat(parts).items() if value is not None}
    if config.get("seed_everything") is not None:
        found["seed_everything"] = config["seed_everything"]
    return found


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Settings:
    found: Settings = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = size_said(value) if name == "image_size" and value else value
    return found


def differing(runs: Sequence[Settings]) -> list[tuple[str, list[str]]]:
    """Return what differs between the settings of runs: how it is called, and the value of each in words.

    A setting that is unset in one run and off in another is the same, and so is a field of a net of which one run alone
    tells every field.
    """
    rows = []
    for flag in sorted({flag for run in runs for flag in run}):
        values = [run.get(flag) for run in runs]
        if flag.startswith("model.net.") and None in values and not all(map(_is_whole_net, runs)):
            continue
        words = [said(value) for value in values]
        if len(set(words)) > 1 and not all(value in (None, False, 0, "none") for value in values):
            rows.append((word_for(flag), words))
    return rows


def _is_whole_net(run: Settings) -> bool:
    """Whether every field of a net is told, whose depth a config seldom names."""
    return "model.net.depth" in run and "model.net.patch" in run


def told_by(run: Run) -> Settings:
    """Return the settings of the last part of a run."""
    return told(run.config, run.state.net)


def ancestry(run: Run) -> tuple[list[str], list[str]]:
    """Return what a run began with and whether it was resumed, in sentences, and what that changed, in lines."""
    sentences, lines = _origin(run)
    if run.resumes:
        sentences.append(f"It was {resumed(run)}.")
        changed = _changed_by_resumes(run)
        lines = [
            f"{f'resume {number}: ' if len(changed) > 1 else ''}{line}"
            for number, changes in enumerate(changed, 1)
            for line in changes or ["no setting that changes what it learns"]
        ]
    return sentences, lines


def resumed(run: Run) -> str:
    """Say how often a run was resumed, and after which optimiser steps; empty: never."""
    if not run.resumes:
        return ""
    steps = [f"{step:,}" for step in run.resumed_at]
    at = f" after optimiser step{'s' * (len(steps) > 1)} {listing(steps)}" if len(steps) == run.resumes else ""
    return f"resumed {_times(run.resumes)}{at}"


def resumes_told(run: Run) -> str:
    """Say how often a run was resumed, after which steps, and which settings that changed."""
    if not run.resumes:
        return "not resumed" if run.configs or run.environment else "not known"
    changes = [line for of_one in _changed_by_resumes(run) for line in of_one]
    return f"{resumed(run)}{'; ' if changes else ''}{', '.join(changes)}"


def _changed_by_resumes(run: Run) -> list[list[str]]:
    """Return the settings that each resume changed whose settings, and those before it, are known."""
    net = run.state.net
    return [_changes(told(before, net), told(after, net)) for before, after in pairwise(run.configs)]


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _changes(before: Settings, after: Settings) -> list[str]:
    return [f"{name}: {old} \N{RIGHTWARDS ARROW} {new}" for name, (old, new) in differing([before, after])]


def _origin(run: Run) -> tuple[list[str], list[str]]:
    """Return a sentence on the weights that a run began with, and how its settings differ from those of their run."""
    if not run.is_told_from_the_start:
        return [], []
    source = run.part("model").get("weights")
    if not source:
        return ["The run began from scratch."], []
    began = f"The run began with the weights {source}"
    try:
        place = Path(str(run.environment.get("folder") or ""), str(source)).expanduser()
        parent = place if folders.is_run(place) else folders.folder_of(place)
        configs = folders.configs(parent) if parent else []
        if not configs:
            return [f"{began}, of no run whose settings are at hand."], []
        old = told(read_mapping(configs[-1], "the parent's"), state_of(configs[-1].parent).net)
    except (OSError, ValueError, RuntimeError) as error:  # no path, one that is too long, or a damaged file
        return [f"{began}, whose settings cannot be read: {reason_of(error)}."], []
    changed = _changes(old, told_by(run))
    differs = f"; {'what' if changed else 'nothing'} differs from that run" + " follows" * bool(changed)
    return [f"The run began with the weights of {place_of(configs[-1].parent)}{differs}."], changed
