"""The command line before it is parsed: configs, plug-ins, the facts of a checkpoint, keys that are not typed."""

import re
import warnings
from importlib import import_module
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import yaml

from vit_lightning.errors import InputError
from vit_lightning.parser_errors import did_you_mean
from vit_lightning.weights import shards

PLUGINS = "vit_lightning.datamodules"
LINKED = ("num_classes", "image_size", "mean", "std")
FACTS = {"hyper_parameters": {}, "global_step": 0, "model": "vit_lightning.classifier.Classifier"}
"""What is read of a checkpoint before its run is set up, and what stands for it in a converted one."""


def option(argv: list[str], name: str) -> str | None:
    """Last value of a flag given as `--flag value` or `--flag=value`."""
    values = [word.partition("=")[2] for word in argv if word.startswith(f"{name}=")]
    values += [value for word, value in pairwise(argv) if word == name]
    return values[-1] if values else None


def config_files(argv: list[str]) -> list[Path]:
    """Files given with -c or --config, in order."""
    paths = [Path(value) for word, value in pairwise(argv) if word in ("-c", "--config")]
    paths += [Path(word.partition("=")[2]) for word in argv if word.startswith("--config=")]
    for path in paths:
        if not path.is_file():
            raise InputError(f"-c {path}: no such file{did_you_mean(str(path), map(str, path.parent.glob('*.yaml')))}")
    return paths


def chooses_data(argv: list[str], configs: list[Path]) -> bool:
    """Tell whether a flag or a file names the class of the data."""
    chosen = [read_config(path).get("data") for path in configs] + [option(argv, "--data")]
    return any(isinstance(value, str) or (isinstance(value, dict) and "class_path" in value) for value in chosen)


def read_config(path: Path) -> dict[str, Any]:
    """Content of a YAML file that must hold a mapping."""
    try:
        content = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"-c {path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        held = "nothing" if content is None else type(content).__name__
        raise InputError(f"-c {path} must hold a mapping such as `model: ...`, not {held}")
    return content


def load_plugins(text: str) -> None:
    """Import the datamodules whose short names occur in `text`, so that jsonargparse finds their classes."""
    for plugin in entry_points(group=PLUGINS):
        if re.search(rf"\b{re.escape(plugin.name)}\b", text):
            try:
                plugin.load()
            except Exception as error:
                warnings.warn(f"plug-in {plugin.name} ({plugin.value}) fails to import: {error}", stacklevel=2)


def import_data(name: str | None) -> None:
    """Import the module of a datamodule given by its class path, so that its own failure is told."""
    module, _, _ = (name or "").rpartition(".")
    if not module or name.endswith((".yaml", ".yml", ".json")):
        return
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise InputError(f"--data {name}: importing it fails: {error}") from error
        raise InputError(f"--data {name}: there is no module {error.name}; install it, or see PYTHONPATH") from error
    except Exception as error:
        raise InputError(f"--data {name}: importing it fails: {type(error).__name__}: {error}") from error


def refuse_linked_keys(argv: list[str], configs: list[Path]) -> None:
    """A fact of the data typed under model would be silently overridden: name its owner instead."""
    typed = {word.partition("=")[0].removeprefix("--") for word in argv if word.startswith("--model.")}
    for path in configs:
        model = read_config(path).get("model") or {}
        typed |= {f"model.{key}" for key in {**model, **(model.get("init_args") or {})}}
    for name in LINKED:
        if typed & {f"model.{name}", f"model.init_args.{name}"}:
            raise InputError(f"model.{name} comes from the data and is not set here; see data.{name}")


def read_facts(path: Path) -> dict[str, Any]:
    """Hyper-parameters and step of a checkpoint, without reading its tensors."""
    try:
        if shards.is_sharded(path):
            checkpoint = shards.read_facts(path) | {"state_dict": None}
        else:
            checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise InputError(f"--ckpt_path {path} is not a readable checkpoint ({type(error).__name__})") from error
    if not isinstance(checkpoint, dict) or not {"state_dict", "pytorch-lightning_version"} <= checkpoint.keys():
        raise InputError(f"--ckpt_path {path} is not a checkpoint of a run; weights go to --model.weights")
    return {name: checkpoint.get(name, empty) for name, empty in FACTS.items()}
