"""What a run was told of its data: where they lie, how they are split, and whether others are meant."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.utilities import rank_zero_info

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.config_files import data_named
from vit_lightning.cli.plugins import takes
from vit_lightning.errors import InputError
from vit_lightning.runs import folders
from vit_lightning.terminal import near
from vit_lightning.yaml_files import read_mapping

SPLIT = (
    *("train", "val", "test", "split_column", "split_file", "unlisted", "val_fraction", "test_fraction", "split_seed"),
    *("group_column", "also", "fraction", "per_class"),
)
"""Fields of --data that say which images train and which are scored."""
PLACES = ("root", "class_map", "split_file")
"""Fields of --data that are paths from where a run was started."""
SOURCE = ("root", "train", "val", "test", "files", "task")
"""Fields of --data that say which data they are."""
VALUES = ("image_size", "channels", "window", "mean", "std")
"""Fields of --data that say which values of an image a net sees."""
BROUGHT = ("evaluation", "zoom")
"""Fields of --data.augment by which images are brought to size when they are scored."""
ALSO = "also."
"""How the names of further folders begin among these."""


def place(data: dict[str, Any], folder: Path | None, line: CommandLine) -> None:
    """Make the paths of a run's data whole, which start from the folder in which it was started.

    Args:
        data: The run's data as its config has them, which are changed.
        folder: The run folder.
        line: The command line, whose flags win.

    Raises:
        InputError: the data's root is neither there nor here.
    """
    told, start = data.get("init_args") or {}, _started_in(folder)
    own = folder / folders.SPLIT_TABLE if folder else None
    if own and own.is_file() and (given := told.get("split_file")):
        is_there = any((place / Path(given).expanduser()).is_file() for place in (Path(), start or Path()))
        if line.verb != "fit" or not is_there:
            told["split_file"] = str(own.resolve())
    for name in PLACES if start else ():
        given = told.get(name)
        if not isinstance(given, str) or "://" in given or os.path.isabs(os.path.expanduser(given)):
            continue
        whole = start / given
        if whole.exists() and not (Path(given).exists() and whole.samefile(given)):
            told[name] = str(whole)
        elif name == "root" and not whole.exists() and not Path(given).exists() and not line.has("--data.root"):
            raise InputError(
                f"the run's data lie in {given}, which is neither in {start}, where it was started, nor in "
                f"{Path.cwd()}; give --data.root"
            )


def place_weights(config: dict[str, Any], folder: Path) -> None:
    """Make the path of the weights whole with which a run began, in its config, which is changed."""
    told = (config.get("model") or {}).get("init_args") or {}
    given, start = told.get("weights"), _started_in(folder)
    if start and isinstance(given, str) and (start / Path(given).expanduser()).exists():
        told["weights"] = str(start / Path(given).expanduser())


def _started_in(folder: Path | None) -> Path | None:
    """The folder in which the newest part of a run was started; None: nobody has kept it."""
    configs = folders.configs(folder) if folder else []
    file = configs[-1].with_name(configs[-1].name.replace("config", "env", 1)).with_suffix(".json") if configs else None
    try:
        start = json.loads(file.read_text())["folder"] if file and file.is_file() else None
    except (OSError, ValueError, KeyError, TypeError):  # older, or somebody's own
        return None
    return Path(start) if isinstance(start, str) else None


def leave_split(line: CommandLine, data: dict[str, Any]) -> None:
    """Leave out how a run's data are split where a table or tars of other data are to be scored.

    Args:
        line: The command line.
        data: The run's, which are changed.
    """
    told = data.get("init_args") or {}
    typed = {name: line.value(f"--data.{name}") for name in ("val", "test")}
    typed = {name: value for name, value in typed.items() if value not in (None, "null")}
    root = line.value("--data.root") or told.get("root")
    if "train" not in told or all(_path(root, typed[name]) == _path(told["root"], told[name]) for name in typed):
        return
    if (group := told.get("group_column")) and _path("", root) == _path("", told.get("root")):
        rank_zero_info(f"the run's --data.group_column {group} is not looked at; see that none of it was trained on")
    for name in SPLIT:
        told.pop(name, None)
    told["train"] = None


def take_image_size(line: CommandLine, configs: Sequence[dict[str, Any]], image_size: Any) -> None:
    """Let the checkpoint say the size of the images that are scored, where nobody states it.

    Args:
        line: The command line, which takes the flag.
        configs: What the files given hold, and the run's config.
        image_size: The checkpoint's; None: it says none.
    """
    data = [content["data"] for content in configs if isinstance(content.get("data"), dict)]
    stated = {name for one in data for name in (*one, *(one.get("init_args") or {}))}
    is_stated = "image_size" in stated or line.has("--data.image_size")
    names = data_named(line, configs)
    if image_size is not None and not is_stated and names and takes(names[-1], "image_size"):
        height, width = (image_size,) * 2 if isinstance(image_size, int) else image_size
        line.set("--data.image_size", json.dumps(height if height == width else [height, width]))


def source_of(data: Any) -> dict[str, str]:
    """Return which data a config names: root and further folders as whole paths, tables, files of split and classes."""
    told = getattr(data, "init_args", None) or {}
    found = {name: str(told[name]) for name in (*SOURCE, "split_file", "class_map") if told.get(name) is not None}
    if "root" in found and "://" not in found["root"]:
        found["root"] = str(Path(found["root"]).expanduser().absolute())
    also = told.get("also")
    for name, folder in also.items() if isinstance(also, dict) else ():
        found[f"{ALSO}{name}"] = str(Path(folder).expanduser().absolute())
    return found


def is_own(data: Any, folder: Path | None) -> bool:
    """Tell whether a config names the data of the run whose checkpoint is scored; True where nobody knows.

    Args:
        data: The data as parsed.
        folder: The run folder.
    """
    configs = folders.configs(folder) if folder else []
    run = (read_mapping(configs[-1], "the run's").get("data") or {}) if configs else {}
    if not run:
        return True
    if str(run.get("class_path")).rpartition(".")[2] != str(getattr(data, "class_path", "")).rpartition(".")[2]:
        return False
    told = run.get("init_args") or {}
    now = {name: value for name, value in source_of(data).items() if not name.startswith(ALSO)}
    then = {name: str(told[name]) for name in SOURCE if told.get(name) is not None}
    now.pop("split_file", None)
    root, here = _root(_started_in(folder), then.pop("root", None)), _root(None, now.pop("root", None))
    if root != here and ("://" in root or os.path.isdir(root)):  # else it was moved
        return False
    return _below(root, then) == _below(here, now)


def overridden(data: Any, folder: Path | None) -> dict[str, str]:
    """Return the settings by which images are seen otherwise than by the run whose checkpoint is scored.

    What is unset is the checkpoint's, and no other setting.

    Args:
        data: The data as parsed.
        folder: The run folder.
    """
    configs = folders.configs(folder) if folder else []
    run = (read_mapping(configs[-1], "the run's").get("data") or {}) if configs else {}
    told, now = run.get("init_args") or {}, getattr(data, "init_args", None) or {}
    found = {name: now.get(name) for name in VALUES if name in told and _is_other(name, now.get(name), told[name])}
    seen, shown = told.get("augment"), now.get("augment")
    if isinstance(seen, dict) and shown is not None:
        shown = shown if isinstance(shown, dict) else vars(shown)
        changed = [name for name in BROUGHT if name in seen and _is_other(name, shown.get(name), seen[name])]
        found |= {f"augment.{name}": shown[name] for name in changed}
    return {name: str(_listed(value)) for name, value in found.items()}


def _is_other(name: str, value: Any, trained: Any) -> bool:
    """Tell whether a setting is stated and another than that of training; 3 channels are what unset ones mean."""
    if value is None or (name == "channels" and trained is None and value == 3):
        return False
    one, other = ([each, each] if name == "image_size" and isinstance(each, int) else each for each in (value, trained))
    return bool(_listed(one) != _listed(other))


def _listed(value: Any) -> Any:
    """Return a value as a config has it, which knows no tuples."""
    return list(value) if isinstance(value, tuple) else value


def check_brought_to_size(line: CommandLine, first: Path, members: Sequence[str]) -> None:
    """Refuse runs whose images were brought to size differently, since all their nets see the same images.

    Args:
        line: The command line, which may say how, for all of them.
        first: The first checkpoint.
        members: The other checkpoints or run folders.

    Raises:
        InputError: naming two runs, and what differs.
    """
    if line.has("--data.augment.evaluation") or line.has("--data.augment"):
        return
    own = _brought_to_size(first)
    for word in members:
        theirs = None if "://" in word else _brought_to_size(Path(word).expanduser())
        if own and theirs and own != theirs:
            raise InputError(
                f"the images of {word} were brought to size by {theirs}, and those of {near(first)} by {own}; give "
                "--data.augment.evaluation and --data.augment.zoom for all of them, or score each by itself"
            )


def _brought_to_size(source: Path) -> str:
    """Say how the run of a checkpoint, or in a folder, brought evaluation images to size; empty: nobody knows."""
    folder = source if folders.is_run(source) else folders.folder_of(source)
    configs = folders.configs(folder) if folder else []
    data = read_mapping(configs[-1], "the run's").get("data") if configs else None
    augment = (data.get("init_args") or {}).get("augment") if isinstance(data, dict) else None
    if not isinstance(augment, dict) or "evaluation" not in augment:
        return ""
    zoom = f", zoom {augment.get('zoom')}" if augment["evaluation"] == "center" else ""
    return f"evaluation {augment['evaluation']}{zoom}"


def _root(start: Path | None, given: str | None) -> str:
    if not given or "://" in given:
        return given or ""
    return _path(start or "", given)


def _below(root: str, told: dict[str, str]) -> dict[str, str]:
    """Return where tables and the like lie below a root."""
    return {name: os.path.relpath(_path(root, value), root or ".") for name, value in told.items()}


def _path(root: Any, name: Any) -> str:
    """Where something lies, whichever way it was named."""
    return os.path.realpath(os.path.join(str(root), str(name)))
