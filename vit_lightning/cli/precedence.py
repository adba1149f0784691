"""Flags beat YAML, YAML beats the checkpoint, the checkpoint beats the code: which checkpoint, and what it says."""

import re
import zipfile
from collections.abc import Collection, Iterator
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch

from vit_lightning.cli.config_files import DATA_FACTS
from vit_lightning.cli.plugins import MODELS, plugin_packages
from vit_lightning.errors import InputError
from vit_lightning.files import check_regular, in_utf8, looked_for_in, meant
from vit_lightning.models.timm_net import published_weights
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import WORDS, is_sharded, is_whole
from vit_lightning.runs.checkpoint_structure import check_state
from vit_lightning.weights.load import check_checkpoint

DEFAULT_MODEL = "vit_lightning.classifier.Classifier"
OURS = {f"{module}.{name}" for name, module in MODELS.items()}
READ = {"hyper_parameters": {}, "global_step": 0, "model": DEFAULT_MODEL, "precision": "", "class_names": []}
"""What is read of a checkpoint before its run is set up, and what stands for it in a converted one."""


def find_checkpoint(verb: str, typed: str | None, root: Path, experiment: str) -> Path | None:
    """The checkpoint that --ckpt_path names, or that of this very job before SLURM requeued it."""
    if not typed:
        return folders.interrupted(root, experiment) if verb == "fit" else None
    if typed in WORDS:
        return folders.newest_checkpoint(root, experiment, typed, verb)
    path = Path(typed)
    check_regular(path, f"--ckpt_path {typed}")
    if not path.is_file() and not is_sharded(path):
        what = "a folder that holds no sharded checkpoint" if path.is_dir() else f"no such file{looked_for_in(path)}"
        raise InputError(f"--ckpt_path {typed}: {what}; give a checkpoint's path, or last, or best{meant(path)}")
    if zipfile.is_zipfile(path) and not is_whole(path):
        raise InputError(f"--ckpt_path {typed} is damaged: it does not hold what was written; give another one")
    return path


def read_facts(path: Path, named: Collection[str] = (), goes_on: bool = False) -> dict[str, Any]:
    """Hyper-parameters, step and model class of a checkpoint, without reading its tensors.

    Args:
        path: The checkpoint.
        named: Class paths that the person has typed, whose code may therefore run.
        goes_on: Whether its run is to go on, which needs more than its net.

    Raises:
        InputError: It is no checkpoint, is damaged, its config is not that of its tensors, or it names a class of
            others.
    """
    try:
        if is_sharded(path):
            from vit_lightning.runs import sharded

            checkpoint = sharded.read_facts(path) | {"state_dict": sharded.read_shapes(path)}
        else:
            with in_utf8(path) as name:
                checkpoint = torch.load(name, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise InputError(
            f"--ckpt_path {path} is not a readable checkpoint: it was cut off or is something else; give another one"
        ) from error
    if not isinstance(checkpoint, dict) or not {"state_dict", "pytorch-lightning_version"} <= checkpoint.keys():
        raise InputError(f"--ckpt_path {path} is not a checkpoint of a run; weights go to --model.weights")
    facts = {name: checkpoint.get(name, empty) for name, empty in READ.items()}
    if wrong := next((name for name, empty in READ.items() if not isinstance(facts[name], type(empty))), None):
        raise InputError(f"--ckpt_path {path} is damaged: its {wrong} is {facts[wrong]!r:.60}; give another one")
    _refuse_foreign_code(path, facts, named)
    is_ours = facts["model"] in OURS
    check_checkpoint(path, checkpoint, is_ours)
    if goes_on:
        check_state(path, checkpoint, is_ours, is_sharded(path))
    return facts


def _refuse_foreign_code(path: Path, facts: dict[str, Any], named: Collection[str]) -> None:
    """Refuse classes whose import would run code that neither we, nor an installed plug-in, nor the person named."""
    packages = plugin_packages()
    for name in {facts["model"], *_class_paths(facts["hyper_parameters"])}:
        if name not in OURS and name not in named and name.partition(".")[0] not in packages:
            raise InputError(
                f"--ckpt_path {path} names the class {name!r:.100}, whose code would run; if you trust it, give "
                f"--model {name:.100}"
            )


def _class_paths(settings: Any) -> Iterator[str]:
    """Every class that settings name, at any depth."""
    if isinstance(settings, dict):
        if "class_path" in settings:
            yield str(settings["class_path"])
        settings = list(settings.values())
    if isinstance(settings, list | tuple):
        for value in settings:
            yield from _class_paths(value)


def as_defaults(facts: dict[str, Any]) -> dict[str, Any]:
    """Parser defaults that let a checkpoint's hyper-parameters yield to flags and YAML."""
    own = {key: value for key, value in facts["hyper_parameters"].items() if key not in DATA_FACTS}
    return {"model": {"class_path": facts["model"], "init_args": own}}


def take_net(settings: Any, trained: dict[str, Any]) -> None:
    """Let the checkpoint's net fill the fields that a config leaves open, as that of a run begun from weights does.

    Another variant than the checkpoint's stays as it is given, so that the net's own check sees all of it.
    """
    net = settings.get("net")
    theirs = None if net is None else trained["hyper_parameters"].get("net")
    if not theirs or net.get("variant") not in (None, theirs.get("variant")):
        return
    for name, value in theirs.items():
        if net.get(name) is None:
            net[name] = value


def take_published(settings: Any) -> None:
    """Let a new run of a tag, such as timm/resnet10t.c3_in1k, begin with the weights that the tag names."""
    if "weights" in settings and settings.weights is None and settings.net.get("variant"):
        settings.weights = published_weights(settings.net.variant)


def of_another_model(text: str, model: str, path: str | None) -> str | None:
    """What an experiment of the default model says to a checkpoint of another one, whose flags are others.

    Args:
        text: The sentence about a flag that does not exist.
        model: Class path of the checkpoint's model.
        path: Where the checkpoint is.
    """
    flag = re.search(r"there is no flag --(model\.(\w+)\S*?);", text)
    if not flag:
        return None
    own, theirs = (signature(resolve_name(name)).parameters for name in (DEFAULT_MODEL, model))
    if flag[2] not in own or flag[2] in theirs:
        return None
    return (
        f"--ckpt_path {path} holds a {model.rpartition('.')[2]}, which has no {flag[1]}; "
        f"to train a Classifier that begins with its net, give --model.weights {path} in its place"
    )
