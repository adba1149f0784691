"""Classes that flags and files name by their path: their modules are imported first, and what fails there is said."""

import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.errors import InputError
from vit_lightning.terminal import near

PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
"""What may be the path of a class."""
FILES = (".yaml", ".yml", ".json")
TAKING = ("data", "model", "trainer.callbacks", "trainer.logger", "trainer.plugins", "trainer.profiler")
"""Flags that take classes."""


def import_classes(line: CommandLine, configs: dict[Path, dict[str, Any]]) -> None:
    """Import the modules of all classes that are given by their path, so that their own failures are reported.

    Args:
        line: The command line.
        configs: What the files given with -c hold.

    Raises:
        InputError: naming the class, the error, and the line of the file where that was raised.
    """
    for path, content in configs.items():
        import_chosen(content, path, typed="-c ")
    for flag, value in line:
        owner = flag.removeprefix("--").removesuffix("+").removesuffix(".class_path")
        if owner in TAKING and value:
            for name in paths_in(_read(value)):
                import_class(f"--{owner}", name)


def import_chosen(content: dict[str, Any], path: Path, typed: str = "") -> None:
    """Import the modules of all classes that the content of a file chooses, as `import_classes` does.

    Args:
        content: What the file holds.
        path: The file.
        typed: What stands before it on the command line; nothing before the config of a run that is named.
    """
    for flag in TAKING:
        part, _, key = flag.partition(".")
        held = content.get(part)
        for name in paths_in(held.get(key) if key and isinstance(held, dict) else None if key else held):
            import_class(f"{typed}{_place(path, name)}--{flag}", name)


def paths_in(said: Any) -> Iterator[str]:
    """Yield the paths of the classes that a value of a flag names: a path, a mapping with `class_path`, or a list."""
    if isinstance(said, str) and PATH.fullmatch(said) and not said.endswith(FILES):
        yield said
    elif isinstance(said, list):
        for one in said:
            yield from paths_in(one)
    elif isinstance(said, dict):
        yield from paths_in(said.get("class_path"))


def import_class(flag: str, name: str) -> None:
    """Import the module of a class given by its path, so that its own failure is reported."""
    module, _, last = name.rpartition(".")
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise InputError(f"{flag} {name}: importing it fails: {import_error(error)}") from error
        raise InputError(f"{flag} {name}: there is no module {error.name}; install it, or see PYTHONPATH") from error
    except Exception as error:
        raise InputError(f"{flag} {name}: importing it fails: {import_error(error)}") from error
    lacking: Iterable[str] = getattr(getattr(sys.modules[module], last, None), "__abstractmethods__", ())
    if lacking and flag.endswith(("--data", "--model")):
        raise InputError(f"{flag} {name} lacks {' and '.join(sorted(lacking))}, which every class of its kind defines")


def import_error(error: Exception) -> str:
    """Say what went wrong in an import, and in which line of which file."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}"
    else:
        place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames[1:] else ""
    text = error.msg if isinstance(error, SyntaxError) else error
    return f"{type(error).__name__}: {text}{f', in {place}' if place else ''}"


def _place(file: Path, name: str) -> str:
    """Say in which line of a file a class is named, if it is so in one alone."""
    rows = [number for number, row in enumerate(file.read_text().splitlines(), 1) if name in row]
    return f"{near(file)}{f', line {rows[0]}' if len(rows) == 1 else ''}: "


def _read(value: str) -> Any:
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return None
