"""Loggers of Lightning's that must be told where to write: the run folder, unless somebody says otherwise."""

import json
from inspect import Parameter, signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml
from jsonargparse import Namespace

from vit_lightning.cli.arguments import Argument, CommandLine
from vit_lightning.cli.exceptions import missing_package
from vit_lightning.errors import InputError

FLAG = "--trainer.logger"
RUN_FOLDER = ""
"""The `save_dir` that stands for the run folder: a config with it may be moved, and begin another run."""


def place_loggers(line: CommandLine, configs: dict[Path, dict[str, Any]]) -> None:
    """Give loggers that lack a folder, in flags and files, the run's.

    Args:
        line: The command line, which takes them.
        configs: What the files given with -c hold.
    """
    placed = []
    for argument in line:
        flag, value = argument
        if flag in (FLAG, f"{FLAG}+", f"{FLAG}.class_path") and value:
            said = yaml_of(value)
            if (whole := with_folder(said)) != said:
                plus = "+" * flag.endswith("+")
                placed.append(Argument(f"{FLAG}{plus}", json.dumps(whole, ensure_ascii=False)))
                continue
        placed.append(argument)
        if flag in ("-c", "--config") and value:
            trainer = configs[Path(value)].get("trainer")
            said = trainer.get("logger") if isinstance(trainer, dict) else None
            if (whole := with_folder(said)) != said:
                placed.append(Argument(FLAG, json.dumps(whole, ensure_ascii=False)))
    line.arguments = placed


def yaml_of(text: str) -> Any:
    """Return what a value is to the parser; one that it cannot read stays text, of which the parser speaks."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def with_folder(said: Any) -> Any:
    """Return what chooses a logger, or several, with a `save_dir` where the class needs one and has none."""
    if isinstance(said, list):
        return [with_folder(one) for one in said]
    if isinstance(said, str):
        return {"class_path": said, "init_args": {"save_dir": RUN_FOLDER}} if needs_folder(said) else said
    if not isinstance(said, dict) or not needs_folder(said.get("class_path")):
        return said
    told = said.get("init_args") or {}
    return said if "save_dir" in told else said | {"init_args": told | {"save_dir": RUN_FOLDER}}


def needs_folder(name: Any) -> bool:
    """Whether the class of a logger, by its short name or its path, has no `save_dir` but the current folder."""
    from lightning.pytorch import loggers

    try:
        chosen = resolve_name(name) if "." in name else getattr(loggers, name)
        given = signature(chosen).parameters.get("save_dir")
    except (TypeError, ValueError, ImportError, AttributeError):
        return False
    return given is not None and given.default in (Parameter.empty, ".")


def take_unplaced(trainer: Namespace) -> list[Namespace]:
    """Take the loggers off a trainer's config that wait for the run folder, so that nothing makes them before."""
    chosen = trainer.get("logger")
    listed = chosen if isinstance(chosen, list) else [chosen]
    waiting = [one for one in listed if _waits(one)]
    if waiting:
        left = [one for one in listed if not _waits(one)]
        trainer.logger = left or None
    return waiting


def made(waiting: Namespace, folder: Path) -> Any:
    """Make a logger that writes into a folder."""
    try:
        return resolve_name(waiting.class_path)(**vars(waiting.init_args) | {"save_dir": str(folder)})
    except ModuleNotFoundError as error:
        name = waiting.class_path.rpartition(".")[2]
        raise InputError(missing_package(error, name) or f"{name} cannot be made: {error}") from error


def _waits(chosen: Any) -> bool:
    told = chosen.get("init_args") if isinstance(chosen, Namespace) else None
    return bool(told) and told.get("save_dir") == RUN_FOLDER and needs_folder(chosen.class_path)
