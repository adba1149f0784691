"""What the words of a run verb name before they are parsed: files, a run, an experiment, data."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.checked_values import check_brackets, spell_nulls
from vit_lightning.cli.config_files import (
    chooses_data,
    config_files,
    data_named,
    models_named,
    nested_files,
    refuse_data_facts,
    stated,
)
from vit_lightning.cli.logger_places import place_loggers
from vit_lightning.cli.named_run import (
    SCORING,
    NamedRun,
    experiment_name,
    lends_data,
    named_run,
    settings_of,
    take_checkpoint,
    take_files,
    take_members,
)
from vit_lightning.cli.named_weights import take_weights
from vit_lightning.cli.own_code import import_chosen, import_classes
from vit_lightning.cli.plugins import (
    check_help,
    check_plugin,
    data_class,
    load_plugins,
    model_class,
    take_class_of_plugin,
)
from vit_lightning.cli.precedence import DEFAULT_MODEL
from vit_lightning.cli.run_data import check_brought_to_size, take_image_size
from vit_lightning.errors import InputError
from vit_lightning.runs import folders

DEFAULT_DATA = "datamodules.digits.Digits"


class RunWords(NamedTuple):
    """What the words of a run verb name."""

    configs: dict[Path, dict[str, Any]]
    """What the files given with -c hold."""
    contents: list[dict[str, Any]]
    """The same, and what the files below their keys hold."""
    members: list[str]
    """Further nets of an ensemble."""
    run: NamedRun | None
    """The run or checkpoint that stands behind the verb."""
    lender: Path | None
    """Folder of a run that only gives its images to other weights."""
    experiment: str
    root: Path
    """Folder of the experiments' runs."""


def read_words(line: CommandLine) -> RunWords:
    """Load the plug-ins that a command line names, and leave on it what the parser reads.

    Raises:
        InputError: words contradict each other, or name what there is not.
    """
    check_brackets(line)
    members = take_members(line)
    if members and line.verb == "average":
        line.set("--members", json.dumps(members, ensure_ascii=False))
    configs = config_files(line)
    take_checkpoint(line, configs)
    has_weights = take_weights(line)
    run = None if has_weights else named_run(line)
    lender = run.folder if run and (run.checkpoint is None or lends_data(line, run)) else None
    if run is not None or has_weights:
        take_files(line)
    contents = [*configs.values(), *nested_files(line)]
    check_plugin(line, data_named(line, contents))
    take_class_of_plugin(line)
    load_plugins(" ".join(line.words()) + "\n".join(map(str, contents)))
    for flag in ("--data", "--model"):
        line.move_behind_class(flag)
    import_classes(line, configs)
    check_help(line)
    spell_nulls(line)
    place_loggers(line, configs)
    refuse_data_facts(line, contents)
    if file := next((path for path, content in configs.items() if line.verb in content), None):
        raise InputError(f"-c {file} has the key {line.verb!r}; write model, data and trainer without it")
    experiment = experiment_name(line, configs, run)
    root = Path(stated(line, configs, "trainer.default_root_dir") or "runs")
    return RunWords(configs, contents, members, run, lender, experiment, root)


def take_settings(line: CommandLine, named: RunWords, checkpoint: Path | None, trained: dict[str, Any]) -> None:
    """Let a run's own settings stand before those typed, and choose the default data where nobody names any.

    Args:
        line: The command line, which takes them.
        named: What its words name.
        checkpoint: The checkpoint that the verb opens.
        trained: What that says.
    """
    if checkpoint and named.members:
        check_brought_to_size(line, checkpoint, named.members)
    configs = list(named.configs.values())
    own = settings_of(line, named.run, checkpoint, configs)
    load_plugins(json.dumps(own, ensure_ascii=False))
    if own and named.run and named.run.folder:
        import_chosen(own, folders.configs(named.run.folder)[-1])
    if line.verb in SCORING and trained:
        take_image_size(line, [*named.contents, own], trained["hyper_parameters"].get("image_size"))
    if not chooses_data(line, [*configs, own]):
        # No parser default: the values of its arguments would leak into those of the class chosen instead.
        line.set_first("--data", DEFAULT_DATA)
    if not checkpoint and any(content.get("ckpt_path") for content in configs):
        line.set("--ckpt_path", "null")  # a run's own config names the one that it went on from
    if own:
        line.set_first("--config", json.dumps(own, ensure_ascii=False))


def chosen_classes(line: CommandLine, contents: list[dict[str, Any]]) -> dict[str, type]:
    """Return the classes of model and data that the words name, else the default ones, for the complete help."""
    named = {"model": [DEFAULT_MODEL, *models_named(line, contents)], "data": data_named(line, contents)}
    found = {"model": model_class(named["model"][-1]), "data": data_class((named["data"] or [DEFAULT_DATA])[-1])}
    return {part: chosen for part, chosen in found.items() if chosen}
