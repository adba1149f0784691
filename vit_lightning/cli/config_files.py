"""YAML files given on the command line, and what they may hold."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.config_shape import misplaced
from vit_lightning.errors import InputError
from vit_lightning.files import check_regular, looked_for_in, meant
from vit_lightning.runs import folders
from vit_lightning.yaml_files import kind, read_mapping

DATA_FACTS = ("num_classes", "image_size", "channels", "window", "mean", "std")
"""What the model takes from the data."""
PARTS = ("model", "data", "trainer", "checkpoint", "last", "early_stopping")
"""What a config is made of."""
OF_ONE_RUN = ("name", "ckpt_path")
"""Settings of a run's own config that say where it began, and not where another one is to."""


def config_files(line: CommandLine) -> dict[Path, dict[str, Any]]:
    """Files given with -c or --config, in order, with what they hold."""
    paths = [Path(value) for value in line.values("-c", "--config")]
    for path in paths:
        check_regular(path, f"-c {path}")
        if path.is_dir():
            raise InputError(f"-c {path} is a folder; name a file in it")
        if not path.is_file():
            raise InputError(f"-c {path}: no such file{looked_for_in(path)}{meant(path)}")
    return {path: read_config(path) for path in paths}


def nested_files(line: CommandLine) -> list[dict[str, Any]]:
    """What the files hold that are given for one part of the config, such as `--trainer mine.yaml`."""
    for flag, value in line:
        if value and flag.removeprefix("--") in PARTS:
            check_regular(Path(value), f"{flag} {value}")
    return [
        {flag.removeprefix("--"): read_config(Path(value), flag)}
        for flag, value in line
        if flag.removeprefix("--") in PARTS and value and value.endswith((".yaml", ".yml")) and Path(value).is_file()
    ]


def stated(line: CommandLine, configs: dict[Path, dict[str, Any]], key: str) -> str | None:
    """Return the value that the last flag or file has for a setting; None: none has one.

    A run's own config says neither a name nor a checkpoint: its folder has the first, and to begin with its settings
    is not to go on with it.

    Args:
        line: The command line.
        configs: What `config_files` returns.
        key: Name of the setting, such as trainer.default_root_dir.
    """
    found = None
    part, _, name = key.rpartition(".")
    for flag, word in line:
        value: Any = word if flag == f"--{key}" else None
        if flag in ("-c", "--config") and word and not (key in OF_ONE_RUN and is_of_a_run(Path(word))):
            content = configs[Path(word)]
            holder = content.get(part) if part else content
            value = holder.get(name) if isinstance(holder, dict) else None
        found = found if value is None else str(value)
    return found


def place_of(line: CommandLine, configs: dict[Path, dict[str, Any]], text: str) -> str:
    """Return file and line of the flag that a sentence is about, to begin it with; nothing for one that was typed."""
    found = re.search(r"--([\w.]+)", text)
    if found is None or line.has(found[0]):
        return ""
    keys = found[1].rstrip(".").split(".")
    for path, content in reversed(configs.items()):
        if _holds(content, keys):
            written = re.compile(rf"(^|[\s{{,]){re.escape(keys[-1])}['\"]?\s*:")
            rows = [number for number, row in enumerate(path.read_text().splitlines(), 1) if written.search(row)]
            return f"-c {path}{f', line {rows[0]}' if len(rows) == 1 else ''}: "
    return ""


def _holds(content: Any, keys: list[str]) -> bool:
    """Whether nested mappings have a value under these keys, arguments of classes among them."""
    for key in keys:
        if not isinstance(content, dict):
            return False
        inner = content.get("init_args")
        content = inner if key not in content and isinstance(inner, dict) else content
        if key not in content:
            return False
        content = content[key]
    return True


def is_of_a_run(path: Path) -> bool:
    """Whether a file is the config that a run wrote into its folder."""
    folder = path.resolve().parent
    return path.name.startswith("config") and folder.name.isdigit() and path.resolve() in folders.configs(folder)


def read_config(path: Path, flag: str = "-c") -> dict[str, Any]:
    """Content of a YAML file that must hold a mapping; `flag` is what it was given with."""
    content = read_mapping(path, flag)
    if odd := next((key for key in content if not isinstance(key, str)), None):
        raise InputError(f"{flag} {path} has the key {odd!r}; expected names such as model, data and trainer")
    for part in PARTS:
        if not isinstance(content.get(part, {}), (dict, str)):
            fix = f"; indent what belongs to {part}, by two spaces" * (content[part] is None)
            raise InputError(f"{flag} {path} must hold a mapping below {part}, not {kind(content[part])}{fix}")
    if said := misplaced({part: content.get(part) for part in PARTS}, path.read_text(encoding="utf-8")):
        raise InputError(f"{flag} {path}: {said}")
    return content


def chooses_data(line: CommandLine, configs: Iterable[dict[str, Any]]) -> bool:
    """Whether a flag or a file names the class of the data."""
    return bool(data_named(line, configs))


def data_named(line: CommandLine, configs: Iterable[dict[str, Any]]) -> list[str]:
    """Classes of data that a flag or a file names."""
    chosen = [content.get("data") for content in configs] + [line.value("--data")]
    named = [value.get("class_path") if isinstance(value, dict) else value for value in chosen]
    return [name for name in named if isinstance(name, str)]


def models_named(line: CommandLine, configs: Iterable[dict[str, Any]]) -> list[str]:
    """Class paths of models that a flag or a file names."""
    chosen = [content.get("model") for content in configs] + [line.value("--model"), line.value("--model.class_path")]
    named = [value.get("class_path") if isinstance(value, dict) else value for value in chosen]
    return [name for name in named if isinstance(name, str)]


def refuse_data_facts(line: CommandLine, configs: Iterable[dict[str, Any]]) -> None:
    """A fact of the data typed under model would be silently overridden: name its owner instead."""
    typed = {flag.removeprefix("--") for flag, _ in line if flag.startswith("--model.")}
    for content in configs:
        model = content.get("model")
        held = [model, model.get("init_args")] if isinstance(model, dict) else []
        typed |= {f"model.{key}" for part in held if isinstance(part, dict) for key in part}
    for name in DATA_FACTS:
        if typed & {f"model.{name}", f"model.init_args.{name}"}:
            raise InputError(
                f"model.{name} comes from the data, which counts it or has data.{name} for it; drop it here"
            )
