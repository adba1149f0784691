"""Datamodules and models that --data and --model know by a short name, and classes given by their path."""

import re
import tomllib
import warnings
from collections.abc import Collection
from dataclasses import fields
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, signature
from pathlib import Path
from pkgutil import resolve_name

from vit_lightning.augment import Augment
from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.own_code import import_error
from vit_lightning.cli.parser_errors import unknown_class
from vit_lightning.errors import InputError
from vit_lightning.runs.environment import DATAMODULES

MODELS = {"Classifier": "vit_lightning.classifier", "MaskedPatch": "vit_lightning.masked_patch"}
"""Modules of the models that --model knows by name."""
OF_DATAMODULES = ("--data", "--data.class_path", "--data.help")
"""Flags whose value is the name of a datamodule."""
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def plugins() -> list[EntryPoint]:
    """Entry points of all datamodules at hand; in a clone that is not installed, our own from its pyproject.toml."""
    found = list(entry_points(group=DATAMODULES))
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8")).get("project", {}) if PROJECT.is_file() else {}
    ours = project.get("entry-points", {}).get(DATAMODULES, {}) if project.get("name") == "vit-lightning" else {}
    known = {plugin.name for plugin in found}
    return found + [EntryPoint(name, value, DATAMODULES) for name, value in ours.items() if name not in known]


def datamodule_names() -> list[str]:
    """Short names of all datamodules at hand."""
    return sorted({plugin.name for plugin in plugins()})


def plugin_packages() -> set[str]:
    """Top packages that offer datamodules, whose code the person has installed for us."""
    return {plugin.value.partition(":")[0].partition(".")[0] for plugin in entry_points(group=DATAMODULES)}


def load_plugins(text: str) -> None:
    """Import the datamodules and models whose short names occur in `text`, so that jsonargparse finds their classes."""
    for name, module in MODELS.items():
        if re.search(rf"\b{name}\b", text):
            import_module(module)
    for plugin in plugins():
        if re.search(rf"\b{re.escape(plugin.name)}\b", text):
            try:
                plugin.load()
            except Exception as error:
                warnings.warn(_failure(plugin, error), stacklevel=2)


def _failure(plugin: EntryPoint, error: Exception) -> str:
    """Say why a plug-in cannot be imported, and in which line of which file."""
    return f"plug-in {plugin.name} ({plugin.value}) fails to import: {import_error(error)}"


def check_plugin(line: CommandLine, in_files: Collection[str] = ()) -> None:
    """Refuse the plug-in of a datamodule that cannot be imported, and the help of a name that two have.

    Args:
        line: The command line.
        in_files: Names of datamodules in files.

    Raises:
        InputError: saying why, or which two.
    """
    for flag in ("--data", "--data.help"):
        names = [line.value(flag), *(in_files if flag == "--data" else ())]
        named = [plugin for plugin in plugins() if plugin.name in names]
        for plugin in named:
            try:
                plugin.load()
            except Exception as error:
                raise InputError(_failure(plugin, error)) from error
        paths = sorted({plugin.value.replace(":", ".") for plugin in named})
        if flag == "--data.help" and len(paths) > 1:
            raise InputError(f"{flag} {named[0].name}: several classes have that name; give one of {', '.join(paths)}")


def take_class_of_plugin(line: CommandLine) -> None:
    """Name the class itself where the entry point of a datamodule has another name, which the parser does not know."""
    paths = {plugin.name: _class_path(plugin) for plugin in plugins() if plugin.attr != plugin.name}
    line.arguments = [
        one._replace(value=paths[one.value]) if one.flag in OF_DATAMODULES and one.value in paths else one
        for one in line
    ]


def _class_path(plugin: EntryPoint) -> str:
    return f"{plugin.module}.{plugin.attr}"


def check_help(line: CommandLine) -> None:
    """Refuse the help of a class that is not known by its short name; the parser names neither flag nor classes."""
    for flag, known in (("--data", datamodule_names()), ("--model", MODELS)):
        name = line.value(f"{flag}.help")
        if name and "." not in name and name not in known:
            raise InputError(unknown_class(flag.removeprefix("--"), name, datamodule_names(), [*MODELS]))


def data_flags(name: str | None) -> list[str]:
    """Flags of a datamodule by its plug-in's name or its path; of one that is not there, those that all have."""
    from vit_lightning.data import ImageDataModule

    chosen = data_class(name) or ImageDataModule
    many = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    names = [name for name, one in constructor_parameters(chosen).items() if name != "self" and one.kind not in many]
    return [f"data.{name}" for name in [*names, *(f"augment.{field.name}" for field in fields(Augment))]]


def data_class(name: str | None) -> type | None:
    """Return a datamodule by its plug-in's name or its path; None: it is not there."""
    offered = (plugin.load() for plugin in plugins() if name in (plugin.name, _class_path(plugin)))
    chosen = next(offered, None) or _by_path(name)
    return chosen if isinstance(chosen, type) else None


def model_class(name: str | None) -> type | None:
    """Return a model by its short name or its path; None: it is not there."""
    chosen = _by_path(f"{MODELS[name]}.{name}" if name in MODELS else name)
    return chosen if isinstance(chosen, type) else None


def _by_path(name: str | None) -> object:
    """Return what a dotted path names; None: there is no such thing."""
    try:
        return resolve_name(name) if name and "." in name else None
    except (ImportError, AttributeError, ValueError):
        return None


def takes(name: str, parameter: str) -> bool:
    """Tell whether a datamodule's constructor, or one to which it hands on what it does not know, has a parameter."""
    chosen = next((plugin.load() for plugin in plugins() if plugin.name == name), None)
    chosen = chosen or (resolve_name(name) if "." in name else object)
    for each in (one for one in chosen.__mro__ if "__init__" in vars(one)):
        found = signature(each.__init__).parameters.values()
        if any(one.name == parameter for one in found):
            return True
        if all(one.kind is not Parameter.VAR_KEYWORD for one in found):
            return False
    return False


def constructor_parameters(chosen: type) -> dict[str, Parameter]:
    """Parameters of a class's constructor and of those that it inherits, which **kwargs would hide."""
    found = [signature(each.__init__).parameters for each in reversed(chosen.__mro__) if "__init__" in vars(each)]
    return {name: one for each in found for name, one in each.items()}
