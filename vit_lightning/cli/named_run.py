"""`VERB RUN_FOLDER` and `VERB CHECKPOINT`: what a run was told comes from its folder."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.config_files import data_named, is_of_a_run, read_config, stated
from vit_lightning.cli.image_folders import check_images
from vit_lightning.cli.run_data import leave_split, place, place_weights
from vit_lightning.commands import LIGHTNING_VERBS
from vit_lightning.errors import InputError, listing
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import WORDS, is_sharded

SCORING = ("validate", "test", "predict", "probe", "inspect", "average")
BEGINNING = ("doctor", "plan", "benchmark", "prepare")
"""Verbs that take a run's settings and data, and not its net: what they look at is a fit that begins."""
NAMING = ("fit", *SCORING, *BEGINNING)
"""Verbs that take a run or a checkpoint as their first word."""
OF_IMAGES = ("predict", "inspect")
"""Verbs that take images as further words."""
OF_THE_MACHINE = ("accelerator", "devices", "num_nodes", "strategy", "precision")
"""Flags of the trainer that suit the machine of a fit, and not that which scores its checkpoint."""
SEEN = ("evaluation", "zoom")
"""Fields of --data.augment by which images are brought to size when they are scored."""


class NamedRun(NamedTuple):
    """A run or checkpoint that stands behind a verb: its folder if it has one, and its checkpoint."""

    folder: Path | None
    checkpoint: Path | None
    """None: its settings alone are wanted."""
    is_folder: bool
    """Whether the run folder itself was named, whose config may then name a model's code."""

    @property
    def lends(self) -> bool:
        """Whether the run gives its data and settings to a checkpoint from elsewhere, such as a soup."""
        return self.checkpoint is None or (self.is_folder and folders.folder_of(self.checkpoint) != self.folder)


def named_run(line: CommandLine) -> NamedRun | None:
    """Return what stands behind a verb, if that is a run folder or a checkpoint, and take it off the line.

    Raises:
        InputError: it is neither, the run has no such checkpoint, or --ckpt_path names another one.
    """
    place = next((at for at, argument in enumerate(line) if at and not argument.flag), None)
    if line.verb not in NAMING or place is None:
        return None
    word = str(line.arguments[place].value)
    path, wanted = Path(word).expanduser(), line.value("--ckpt_path")
    if not path.exists() and path.suffix != ".ckpt" and len(path.parts) == 1:
        return None  # the parser knows what to say of a stray word
    del line.arguments[place]
    if not folders.is_run(path):
        check_images(line.verb, word, needs_net=line.verb in SCORING, as_files=line.verb in OF_IMAGES)
    if line.verb in BEGINNING:
        held = path.parent if is_of_a_run(path) else folders.folder_of(path)
        folder = held if is_sharded(path) or path.is_file() else path
        if folder is None:
            raise InputError(f"{line.verb} {word}: a file in no run folder; give a run folder, such as runs/digits/0")
        if not folders.configs(folder):
            raise InputError(f"{line.verb} {word}: {folders.not_a_run(path)}")
        return NamedRun(folder.resolve(), None, is_folder=True)
    if is_sharded(path) or path.is_file():
        if wanted:
            raise InputError(f"{word} and --ckpt_path {wanted} both name a checkpoint; give one of them")
        return NamedRun(folders.folder_of(path), path, is_folder=False)
    if not folders.is_run(path):
        raise InputError(f"{line.verb} {word}: {folders.not_a_run(path, ', or a checkpoint')}")
    if wanted not in (None, *WORDS):
        if line.verb == "fit":
            raise InputError(
                f"{word} and --ckpt_path {wanted} both name a checkpoint; give one of them, or {listing(WORDS)}"
            )
        return NamedRun(path.resolve(), Path(wanted), is_folder=True)
    name = wanted or ("last" if line.verb == "fit" else None)
    return NamedRun(path.resolve(), folders.trained_checkpoint(path, name), is_folder=True)


def no_such_run(line: CommandLine, root: Path, flags: Iterable[str]) -> str | None:
    """Say that a word behind a verb names no run, file or flag, and which run is the newest; None: it is a flag's name.

    Args:
        line: The command line, which has been refused for a word.
        root: Folder of all runs.
        flags: Known flags.
    """
    word = next((str(argument.value) for argument in line.arguments[1:] if not argument.flag), None)
    if line.verb not in NAMING or word is None or word in flags or Path(word).expanduser().exists():
        return None
    newest = folders.newest_runs(root, "last") or folders.newest_runs(root, "best")
    named = f", such as the newest, {newest[0]}" if newest else ""
    return f"{line.verb} {word:.200}: there is no such run or file; give a run folder{named}, or a checkpoint"


def looks_at_scored(line: CommandLine, run: NamedRun | None) -> bool:
    """Whether `doctor RUN` is to look at what `test RUN` would read, as --data.test without --data.train asks."""
    return line.verb == "doctor" and run is not None and bool(scored_sets(line))


def scored_sets(line: CommandLine) -> list[str]:
    """Return which of val and test flags name for data that have no training images."""
    is_given = {name: line.value(f"--data.{name}") not in (None, "null") for name in ("train", "val", "test")}
    return [] if is_given.pop("train") else [name for name, given in is_given.items() if given]


def lends_data(line: CommandLine, run: NamedRun | None) -> bool:
    """Whether a run only gives its images to other weights, as `probe RUN --model.weights FILE` asks.

    Raises:
        InputError: two nets are named, and one could not be scored without the other being forgotten.
    """
    source = line.value("--model.weights")
    if run is None or source is None or line.verb not in SCORING:
        return False
    if line.verb == "probe" and run.is_folder and not line.value("--ckpt_path"):
        return True
    raise InputError(f"{run.folder or run.checkpoint} and --model.weights {source} both name a net; give one of them")


def take_members(line: CommandLine) -> list[str]:
    """Take the further nets of an ensemble off the line: more words behind a verb, or more --ckpt_path."""
    if line.verb not in ("validate", "test", "predict", "average"):
        return []
    plain = [argument for argument in line.arguments[1:] if not argument.flag]
    words = [] if line.verb == "predict" else plain[1:]
    typed = [argument for argument in line.arguments if argument.flag == "--ckpt_path" and argument.value]
    if words and typed and typed[0].value not in WORDS:
        raise InputError(
            f"{plain[0].value}, {words[0].value} and --ckpt_path {typed[0].value} all name nets; give them as words "
            "alone, or as --ckpt_path beside one run"
        )
    further = [*words, *typed[1:]]
    line.arguments = [argument for argument in line.arguments if not any(argument is one for one in further)]
    return [str(argument.value) for argument in further]


def take_files(line: CommandLine) -> None:
    """Read further words behind `predict RUN` and `inspect RUN` as images."""
    files = [str(argument.value) for argument in line.arguments[1:] if not argument.flag]
    if line.verb not in OF_IMAGES or not files:
        return
    if run := next((name for name in files if folders.is_run(Path(name))), None):
        raise InputError(
            f"{run} is a run, not images; {line.verb} takes one run, and predict several nets as --ckpt_path A "
            "--ckpt_path B"
        )
    if given := line.value("--data"):
        raise InputError(f"{files[0]} and --data {given} both say what to {line.verb}; give one of them")
    line.arguments[1:] = [argument for argument in line.arguments[1:] if argument.flag]
    line.set("--data", "Images")
    line.set("--data.files", json.dumps(files, ensure_ascii=False))


def settings_of(
    line: CommandLine, run: NamedRun | None, checkpoint: Path | None, configs: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return what a named run was told; of a checkpoint without data, the data of its run; else nothing.

    Args:
        line: The command line, which takes how a run's images are brought to size where it chooses other data.
        run: What stands behind the verb.
        checkpoint: The checkpoint that the verb opens; None: the run only gives its images.
        configs: What the files given hold.

    Raises:
        InputError: nothing says which data a checkpoint is for; a default would score it on something else.
    """
    verb, chosen = str(line.verb), data_named(line, configs)
    needs_data = (verb in NAMING and checkpoint) or (verb in SCORING and line.value("--model.weights"))
    if run is None and (chosen or not needs_data):
        return {}
    lent = run.folder if run and not checkpoint else None
    folder = folders.folder_of(checkpoint) if checkpoint else lent
    if run and run.lends:
        folder = run.folder
    config = config_of(folder, verb)
    if lent and verb in SCORING:
        config.pop("model", None)
    elif lent:
        place_weights(config, lent)
    elif run and run.lends:
        (config.get("model", {}).get("init_args") or {}).pop("net", None)  # the checkpoint says it
    if run is None:
        config = {"data": config["data"]} if config.get("data") else {}
    if chosen:
        leave_to(line, config, chosen)
    elif not config.get("data"):
        where = f"{checkpoint} lies in no run folder that says them" if checkpoint else "weights say none"
        raise InputError(f"{verb} needs data: give --data NAME, or -c FILE; {where}")
    if data := config.get("data"):
        place(data, folder, line)
        if verb in ("validate", "test", "predict") or looks_at_scored(line, run):
            leave_split(line, data)
    return config


def config_of(folder: Path | None, verb: str) -> dict[str, Any]:
    """Return what a run was told last, as a verb needs it; empty without a run folder."""
    configs = folders.configs(folder) if folder else []
    if not configs:
        return {}
    config = read_config(configs[-1], "the run's")
    for name in ("ckpt_path", "at_least", "at_most", *(["weights_only"] if verb not in LIGHTNING_VERBS else [])):
        config.pop(name, None)
    if verb in (*SCORING, "prepare"):
        trainer = config.get("trainer") or {}
        config["trainer"] = {name: value for name, value in trainer.items() if name not in OF_THE_MACHINE}
    return config


def leave_to(line: CommandLine, config: dict[str, Any], chosen: Iterable[str]) -> None:
    """Leave out a run's data where other data are chosen; how images are brought to size stays the run's.

    Args:
        line: The command line.
        config: The run's, which is changed.
        chosen: Names of the data that flags and files choose.
    """
    data = config.get("data") or {}
    own = str(data.get("class_path")).rpartition(".")[2]
    if not data or all(name.rpartition(".")[2] == own for name in chosen):
        return
    del config["data"]
    augment = (data.get("init_args") or {}).get("augment") or {}
    if line.verb in SCORING and "." not in (line.value("--data") or "."):
        for name in SEEN:
            if name in augment:
                line.set_first(f"--data.augment.{name}", str(augment[name]))
        line.move_behind_class("--data")


def take_checkpoint(line: CommandLine, configs: dict[Path, dict[str, Any]]) -> None:
    """Type the checkpoint that a file names as if its flag did."""
    path = stated(line, configs, "ckpt_path")
    if path and path != line.value("--ckpt_path"):
        line.set("--ckpt_path", path)


def experiment_name(line: CommandLine, configs: dict[Path, dict[str, Any]], run: NamedRun | None) -> str:
    """Return the experiment that a run belongs to: its `name`, that of the run named, or that of its first file.

    Raises:
        InputError: the name is none for a folder.
    """
    name = stated(line, configs, "name")
    if name is not None and (not name.strip() or name.startswith((".", "-")) or set(name) & set("/\\\0\n")):
        raise InputError(f"--name {name!r}: an experiment is a folder; give a name without slashes, such as digits")
    if line.value("--name") is None and run is not None and run.folder is not None:
        return run.folder.parent.name
    return name or next((_owner(path) for path in configs if path.parent.name != "hardware"), "default")


def check_name(line: CommandLine, checkpoint: Path) -> None:
    """Refuse another --name than that of the run whose folder a checkpoint lies in: it goes on, or is scored, there."""
    name, folder = line.value("--name"), folders.folder_of(checkpoint)
    if name is None or folder is None or folder.parent.name == name:
        return
    anew = f"; begin a run of that name with --model.weights {checkpoint}" * (line.verb == "fit")
    raise InputError(
        f"--name {name}: {checkpoint} belongs to the run {folder}, which keeps its name; drop --name{anew}"
    )


def _owner(config: Path) -> str:
    """The experiment of a file: its own name, or of a config in a run folder, that of the run."""
    return config.resolve().parent.parent.name if is_of_a_run(config) else config.stem
