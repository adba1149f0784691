"""The command line before it is parsed: configs, plug-ins, the facts of a checkpoint, keys that are not typed."""

import re
import warnings
from collections.abc import Iterable
from dataclasses import fields
from importlib import import_module
from importlib.metadata import entry_points
from inspect import Parameter, signature
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import torch

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.models import NetConfig
from vit_lightning.runs import sharded
from vit_lightning.runs.checkpoint_files import is_sharded
from vit_lightning.yaml_files import kind, read_mapping

PLUGINS = "vit_lightning.datamodules"
MODELS = {"Classifier": "vit_lightning.classifier", "MaskedPatch": "vit_lightning.masked_patch"}
"""Modules of the models that --model knows by name."""
LINKED = ("num_classes", "image_size", "mean", "std")
PARTS = ("model", "data", "trainer", "checkpoint", "last", "early_stopping")
"""What a config is made of."""
NEGATIVE = re.compile(r"-(\d+\.?\d*e[+-]?\d+|inf|nan)", re.IGNORECASE)
NO_VALUE = {
    group: {field.name for field in fields(config) if NoneType in get_args(field.type)}
    for group, config in (("--model.net", NetConfig), ("--data.augment", Augment))
}
"""Flags two levels down that may be null."""
FACTS = {"hyper_parameters": {}, "global_step": 0, "model": "vit_lightning.classifier.Classifier"}
"""What is read of a checkpoint before its run is set up, and what stands for it in a converted one."""


def option(argv: list[str], name: str) -> str | None:
    """Last value of a flag given as `--flag value` or `--flag=value`."""
    values = [word.partition("=")[2] for word in argv if word.startswith(f"{name}=")]
    values += [value for word, value in pairwise(argv) if word == name]
    return values[-1] if values else None


def after_class(argv: list[str], name: str) -> list[str]:
    """Move what is typed as `--data.flag value` in front of `--data CLASS` behind it, where the parser knows the flag.

    Args:
        argv: The words of the command line.
        name: The flag that names the class, such as --data.
    """
    places = [index for index, word in enumerate(argv) if word == name or word.startswith(f"{name}=")]
    if not places:
        return argv
    rest: list[str] = []
    early: list[str] = []
    words = iter(range(places[0]))
    for index in words:
        word, following = argv[index : index + 2]
        moved = early if word.startswith(f"{name}.") and not word.startswith(f"{name}.help") else rest
        moved.append(word)
        if moved is early and "=" not in word and not following.startswith("--"):
            moved.append(argv[next(words)])
    end = places[0] + (1 if "=" in argv[places[0]] else 2)
    return [*rest, *argv[places[0] : end], *early, *argv[end:]]


def without_values(argv: list[str]) -> list[str]:
    """Type `--model.net.flag null` as `--model.net {flag: null}` where a flag may have no value.

    jsonargparse (4.53) takes the former's for the text None.
    """
    spelt: list[str] = []
    for word in argv:
        flag, sign, value = word.partition("=")
        if not sign:
            flag, value = (spelt or [""])[-1], word
        group, _, name = flag.rpartition(".")
        if value != "null" or name not in NO_VALUE.get(group, ()):
            spelt.append(word)
            continue
        if not sign:
            spelt.pop()
        spelt += [group, f"{{{name}: null}}"]
    return spelt


def check_values(flag: str, chosen: type, values: dict[str, Any]) -> None:
    """Refuse null for an argument of a class that needs a value; jsonargparse (4.53) lets it through to the class."""
    parameters = _parameters(chosen)
    for name, value in values.items():
        if value is None and name not in LINKED and name in parameters and not _takes_none(parameters[name]):
            raise InputError(f"--{flag}.{name} null: it needs a value; --{flag}.help {chosen.__name__} says which")


def data_flags(name: str | None) -> list[str]:
    """Flags of a datamodule that is known by a short name; of any other, those that all have."""
    from vit_lightning.data import ImageDataModule

    chosen = next((plugin.load() for plugin in entry_points(group=PLUGINS) if plugin.name == name), ImageDataModule)
    many = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    names = [name for name, one in _parameters(chosen).items() if name != "self" and one.kind not in many]
    return [f"data.{name}" for name in [*names, *(f"augment.{field.name}" for field in fields(Augment))]]


def _parameters(chosen: type) -> dict[str, Parameter]:
    found = [signature(each.__init__).parameters for each in reversed(chosen.__mro__) if "__init__" in vars(each)]
    return {name: one for each in found for name, one in each.items()}


def _takes_none(parameter: Parameter) -> bool:
    kind = parameter.annotation
    unknown = kind in (Parameter.empty, Any) or isinstance(kind, str)
    return unknown or parameter.default is None or NoneType in get_args(kind)


def negative_values(argv: list[str]) -> list[str]:
    """Type `--flag -1e5` as `--flag=-1e5`, since argparse takes such numbers for flags."""
    spelt: list[str] = []
    for word in argv:
        if NEGATIVE.fullmatch(word) and spelt and spelt[-1].startswith("--") and "=" not in spelt[-1]:
            spelt[-1] += f"={word}"
        else:
            spelt.append(word)
    return spelt


def config_files(argv: list[str]) -> dict[Path, dict[str, Any]]:
    """Files given with -c or --config, in order, with what they hold."""
    paths = [Path(value) for word, value in pairwise(argv) if word in ("-c", "--config")]
    paths += [Path(word.partition("=")[2]) for word in argv if word.startswith("--config=")]
    for path in paths:
        if not path.is_file():
            raise InputError(f"-c {path}: no such file{did_you_mean(str(path), map(str, path.parent.glob('*.yaml')))}")
    return {path: read_config(path) for path in paths}


def nested_files(argv: list[str]) -> list[dict[str, Any]]:
    """What the files hold that are given for one part of the config, such as `--trainer mine.yaml`."""
    given = [word.split("=", 1) for word in argv if "=" in word] + [list(pair) for pair in pairwise(argv)]
    return [
        {flag.removeprefix("--"): read_config(Path(value), flag)}
        for flag, value in given
        if flag.removeprefix("--") in PARTS and value.endswith((".yaml", ".yml")) and Path(value).is_file()
    ]


def chooses_data(argv: list[str], configs: Iterable[dict[str, Any]]) -> bool:
    """Tell whether a flag or a file names the class of the data."""
    chosen = [content.get("data") for content in configs] + [option(argv, "--data")]
    return any(isinstance(value, str) or (isinstance(value, dict) and "class_path" in value) for value in chosen)


def read_config(path: Path, flag: str = "-c") -> dict[str, Any]:
    """Content of a YAML file that must hold a mapping; `flag` is what it was given with."""
    content = read_mapping(path, flag)
    if odd := next((key for key in content if not isinstance(key, str)), None):
        raise InputError(f"{flag} {path} has the key {odd!r}; expected names such as model, data and trainer")
    for part in PARTS:
        if not isinstance(content.get(part, {}), (dict, str)):
            raise InputError(f"{flag} {path} must hold a mapping below {part}, not {kind(content[part])}")
    return content


def load_plugins(text: str) -> None:
    """Import the datamodules and models whose short names occur in `text`, so that jsonargparse finds their classes."""
    for name, module in MODELS.items():
        if re.search(rf"\b{name}\b", text):
            import_module(module)
    for plugin in entry_points(group=PLUGINS):
        if re.search(rf"\b{re.escape(plugin.name)}\b", text):
            try:
                plugin.load()
            except Exception as error:
                warnings.warn(f"plug-in {plugin.name} ({plugin.value}) fails to import: {error}", stacklevel=2)


def import_class(flag: str, name: str | None) -> None:
    """Import the module of a class given by its path with --data or --model, so that its own failure is told."""
    module, _, _ = (name or "").rpartition(".")
    if not module or name.endswith((".yaml", ".yml", ".json")):
        return
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise InputError(f"{flag} {name}: importing it fails: {error}") from error
        raise InputError(f"{flag} {name}: there is no module {error.name}; install it, or see PYTHONPATH") from error
    except Exception as error:
        raise InputError(f"{flag} {name}: importing it fails: {type(error).__name__}: {error}") from error


def refuse_linked_keys(argv: list[str], configs: Iterable[dict[str, Any]]) -> None:
    """A fact of the data typed under model would be silently overridden: name its owner instead."""
    typed = {word.partition("=")[0].removeprefix("--") for word in argv if word.startswith("--model.")}
    for content in configs:
        model = content.get("model")
        held = [model, model.get("init_args")] if isinstance(model, dict) else []
        typed |= {f"model.{key}" for part in held if isinstance(part, dict) for key in part}
    for name in LINKED:
        if typed & {f"model.{name}", f"model.init_args.{name}"}:
            raise InputError(
                f"model.{name} comes from the data, which counts it or has data.{name} for it; drop it here"
            )


def read_facts(path: Path) -> dict[str, Any]:
    """Hyper-parameters and step of a checkpoint, without reading its tensors."""
    try:
        if is_sharded(path):
            checkpoint = sharded.read_facts(path) | {"state_dict": None}
        else:
            checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise InputError(
            f"--ckpt_path {path} is not a readable checkpoint: it was cut off or is something else; give another one"
        ) from error
    if not isinstance(checkpoint, dict) or not {"state_dict", "pytorch-lightning_version"} <= checkpoint.keys():
        raise InputError(f"--ckpt_path {path} is not a checkpoint of a run; weights go to --model.weights")
    return {name: checkpoint.get(name, empty) for name, empty in FACTS.items()}
