"""The first page of help: what a verb does and its usual flags, a sentence each, without importing torch."""

import shutil
import textwrap
from collections.abc import Iterable

from vit_lightning.cli.help_sentences import Flag, read_flags
from vit_lightning.commands import LIGHTNING_VERBS, VERBS, named

PROGRAM = "python -m vit_lightning"
OWNERS = {
    "model": ("classifier", "Classifier"),
    "model.net": ("models.config", "NetConfig"),
    "model.optim": ("training.optim", "Optim"),
    "model.schedule": ("training.optim", "Schedule"),
    "model.averaging": ("training.averaging", "Averaging"),
    "model.lora": ("models.lora", "Lora"),
    "data": ("data.datamodule", "ImageDataModule"),
    "data.augment": ("augment.per_image", "Augment"),
    "last": ("runs.checkpoints", "LastCheckpoint"),
    "early_stopping": ("callbacks.early_stopping", "EarlyStopping"),
}
"""Module and class whose docstring says what the flags below a name do."""
OUR_SENTENCES = {
    "config": ("Experiment file (YAML), once or several times; a later file wins, and flags win over all", None),
    "print_config": ("Print the whole config as YAML and exit", None),
    "seed_everything": ("Seed of random numbers, 0 to 4294967295; true: a random one; false: none", "0"),
    "name": ("Experiment that the run belongs to; unset: the name of the first -c file", None),
    "at_least": ("Least scores, such as '{top1: 0.9}', without which a run fails; unset: none", None),
    "at_most": ("Greatest scores, as '{loss: 0.5}'; unset: none", None),
    "pictures": ("Show a fit's first images and gradient norm, and the confusion matrix, in TensorBoard", "true"),
    "report": ("Write report.html into a fit's folder at its end, as the verb report does", "false"),
    "ckpt_path": (
        "Checkpoint to resume or to score, in place of --model.weights: a path, or the word last or best, or previous "
        "(the state before last)",
        None,
    ),
    "data": ("Data set: the name of a datamodule, or the path of a class", "Digits"),
    "model": ("Model: Classifier, MaskedPatch, or the path of a class", "Classifier"),
    "model.scores": (
        "Scores and tables beside loss, top-1 and top-5, such as [macro_f1,confusion]; unset: all that suit the "
        "images, those with * neither in a fit nor for one label. For one label: mean_class_accuracy, macro_f1, ece, "
        "mean_auroc*. For several: macro_f1, ece, micro_f1, exact_match, map_macro*, map_micro*, mean_auroc*. Tables "
        "of validate and test: classes; for one label confusion, whose picture needs pip install '.[figures]', and "
        "mistakes. The others cost nothing; * keeps five bytes per image and class in memory",
        None,
    ),
    "checkpoint.monitor": (
        "Metric that chooses the best checkpoint, of equal scores the first; unset: the model's, as val/top1, or "
        "val/mean_auroc of several labels",
        None,
    ),
    "checkpoint.mode": ("Whether max or min of the metric is best; auto: what its name tells", "auto"),
    "trainer.default_root_dir": ("Folder that holds all runs; unset: runs", None),
    "trainer.max_epochs": ("Epochs after which the run ends, -1: never; unset: 1, if no other limit is given", None),
    "trainer.max_steps": ("Optimiser steps after which the run ends, -1: no limit", "-1"),
    "trainer.max_time": ("Time after which the run ends, as DD:HH:MM:SS", None),
    "trainer.logger": (
        "Loggers beside metrics.csv and TensorBoard; those that need a save_dir write in the run folder; false: none",
        None,
    ),
    "trainer.enable_progress_bar": ("Draw a bar in a terminal; false: lines, as in a log file", "true"),
    "trainer.accelerator": ("Kind of device: cpu, gpu, mps, tpu, or auto", "auto"),
    "trainer.devices": ("Number of devices, a list of their indices such as [0,2], -1 for all, or auto", "auto"),
    "trainer.num_nodes": ("Number of hosts", "1"),
    "trainer.strategy": ("How several devices share the work, such as ddp", "auto"),
    "trainer.precision": (
        "Arithmetic: 32-true, bf16-mixed, 16-mixed, bf16-true; unset: that of the checkpoint, or bf16-mixed on a GPU "
        "that has it",
        None,
    ),
    "trainer.accumulate_grad_batches": ("Batches whose gradients are summed before one optimiser step", "1"),
    "trainer.gradient_clip_val": (
        "Largest norm of the gradient; larger ones are scaled down; unset: no clipping",
        None,
    ),
    "trainer.check_val_every_n_epoch": ("Epochs between two validations", "1"),
    "trainer.log_every_n_steps": ("Optimiser steps between two rows of the logs", "10"),
    "trainer.limit_train_batches": ("Training batches per epoch, or a share of them from 0.0 to 1.0", None),
    "trainer.fast_dev_run": ("Run so many batches of everything as a trial and keep nothing", "false"),
}
"""Sentence and default of a flag that is no class's of ours, or that Lightning describes wrongly for our verbs."""
GROUPS = {
    "Experiment": ("config", "name", "data", "model", "seed_everything", "print_config"),
    "Data": (
        *("data.root", "data.image_size", "data.batch_size", "data.num_workers", "data.in_memory"),
        *("data.decode_on_device", "data.on_error"),
    ),
    "Augmentation": tuple(
        f"data.augment.{name}" for name in ("preset", "crop", "flip", "rand_augment", "mixup_alpha", "cutmix_alpha")
    ),
    "Net": tuple(f"model.net.{name}" for name in ("variant", "pool", "dropout", "stochastic_depth")),
    "Weights": ("model.weights", "model.weights_head", "model.freeze_trunk", "model.bias_only", "model.lora.rank"),
    "Recipe": (
        *("model.optim.lr", "model.optim.name", "model.optim.weight_decay"),
        *("model.schedule.decay", "model.schedule.warmup_steps", "model.loss", "model.label_smoothing"),
        "model.class_weights",
        *("model.averaging.decay", "trainer.gradient_clip_val", "trainer.accumulate_grad_batches"),
    ),
    "Run": (
        *("trainer.max_epochs", "trainer.max_steps", "trainer.accelerator", "trainer.devices", "trainer.strategy"),
        *("trainer.precision", "model.compile", "model.cuda_graph", "model.fp8", "model.recompute"),
        *("trainer.default_root_dir", "trainer.logger", "at_least", "at_most"),
    ),
    "Checkpoints": ("ckpt_path", "checkpoint.monitor", "last.every_n_steps", "early_stopping.patience"),
}
"""Usual flags of a fit."""
DEVICES = ("trainer.accelerator", "trainer.devices", "trainer.precision")
SCORING = {
    "Experiment": GROUPS["Experiment"],
    "Net": ("ckpt_path", "model.weights"),
    "Data": ("data.root", "data.image_size", "data.batch_size", "data.num_workers", "data.on_error"),
    "Run": (*DEVICES, "trainer.default_root_dir"),
}
USUAL = {
    "fit": GROUPS,
    **dict.fromkeys(
        ("validate", "test"), SCORING | {"Scores": ("model.scores", "model.threshold", "at_least", "at_most")}
    ),
    "predict": SCORING | {"Net": ("model.weights",)},
    "probe": {
        **SCORING,
        "Net": ("model.weights", "model.weights_head"),
        "Data": (*SCORING["Data"], "data.per_class"),
        "Run": DEVICES,
    },
    "inspect": {**SCORING, "Net": ("model.weights",), "Run": DEVICES},
    "average": SCORING | {"Net": ("model.weights",)},
    "benchmark": {
        **{group: GROUPS[group] for group in ("Experiment", "Net")},
        "Data": ("data.root", "data.image_size", "data.batch_size", "data.num_workers"),
        "Run": (*DEVICES, "model.compile", "model.recompute"),
    },
    "plan": {
        **{group: GROUPS[group] for group in ("Experiment", "Net", "Weights")},
        "Data": ("data.root", "data.image_size", "data.batch_size"),
        "Run": (*DEVICES, "trainer.max_epochs", "trainer.max_steps", "trainer.accumulate_grad_batches"),
    },
    "doctor": {**{group: GROUPS[group] for group in ("Experiment", "Data")}, "Run": DEVICES},
    "prepare": {"Experiment": GROUPS["Experiment"], "Data": ("data.root", "data.num_workers", "data.on_error")},
}
"""Groups of usual flags by run verb, beside its own."""
SCORING_VERBS = ("validate", "test", "predict", "probe", "inspect", "average")
"""Verbs that take a trained net as their first word."""
BEGINNING_VERBS = ("doctor", "plan", "benchmark", "prepare")
"""Verbs that take the settings of a run as their first word."""
COLUMN = 34


def asked_for(words: list[str]) -> bool:
    """Whether the words ask for the first page of help, and not for all of it."""
    place = next((index for index, word in enumerate(words) if word in ("-h", "--help")), None)
    return place is not None and words[place + 1 : place + 2] != ["all"]


def without_all(words: list[str]) -> list[str]:
    """Spell `--help all` as the parsers do, which have one help."""
    place = words.index("--help") if "--help" in words else len(words)
    return [*words[: place + 1], *words[place + 1 :][words[place + 1 : place + 2] == ["all"] :]]


def overview() -> str:
    """Every verb with one line."""
    return "\n".join(
        [
            f"usage: {PROGRAM} VERB [-c EXPERIMENT.yaml ...] [--flag value ...]",
            "",
            *(f"  {verb.name:<10} {verb.help}" for verb in VERBS),
            "",
            f"VERB --help lists the flags of a verb; start with: {PROGRAM} fit -c experiments/digits.yaml",
            "--version prints the version",
        ]
    )


def page(verb: str) -> str:
    """The first page of help of a verb."""
    if verb in named("file"):
        about, flags = _own(verb)
        return _page(verb, about, {"Flags": flags.values()}, "")
    about, own = _own(verb)
    owners = {prefix: read_flags(*owner)[1] for prefix, owner in OWNERS.items()}
    groups = {f"Flags of {verb}": own.values()} if own else {}
    groups |= {group: [_of_run(name, owners) for name in names] for group, names in USUAL[verb].items()}
    more = [("--data.help NAME", "Flags of a data set, such as CIFAR10"), ("--model.help NAME", "Flags of a model")]
    return _page(verb, about, groups, "\n".join(_row(f"  {verb} {words}", said) for words, said in more))


def usage(verb: str) -> str:
    """The usage line of a verb."""
    needed = [_metavar(verb, flag) for flag in _own(verb)[1].values() if flag.required]
    run = ["[RUN_FOLDER | CHECKPOINT]"] if verb == "fit" else []
    run = ["[RUN_FOLDER | CHECKPOINT | WEIGHTS]"] if verb in SCORING_VERBS else run
    run = ["[RUN_FOLDER]"] if verb in BEGINNING_VERBS else run
    images = {"predict": ["[IMAGE ...]"], "inspect": ["[IMAGE ...]"], "average": ["[CHECKPOINT ...]"]}.get(verb, [])
    experiment = [*run, *images, "[-c EXPERIMENT.yaml ...]"] if verb in named("run") else []
    return " ".join([f"usage: {PROGRAM} {verb}", *experiment, *needed, "[--flag value ...]"])


def _page(verb: str, about: str, groups: dict[str, Iterable[Flag]], more: str) -> str:
    blocks = [usage(verb), _wrapped(about)]
    for title, group in groups.items():
        blocks.append("\n".join([f"{title}:", *(_row(f"  {_label(verb, flag)}", _said(flag)) for flag in group)]))
    last = [_row(f"  {verb} --help all", "Every flag"), *([more] if more else [])]
    note = "A list is written '[a,b]', a switch true or false. A value may be typed as --flag value or --flag=value."
    if "Data" in groups:
        note += " Data sets may have other defaults than those above; --data.help NAME shows them."
    return "\n\n".join([*blocks, "\n".join(["More:", *last]), _wrapped(note)])


def _own(verb: str) -> tuple[str, dict[str, Flag]]:
    """What a verb does, and the flags that it alone has."""
    if verb not in LIGHTNING_VERBS:
        return read_flags(f"commands.{verb}", verb)
    about = next(known.help for known in VERBS if known.name == verb)
    return f"{about[0].upper()}{about[1:]}.", {}


def _of_run(name: str, owners: dict[str, dict[str, Flag]]) -> Flag:
    if name in OUR_SENTENCES:
        return Flag(name, *OUR_SENTENCES[name])
    prefix, _, last = name.rpartition(".")
    return owners[prefix][last]._replace(name=name, required=False)


def _metavar(verb: str, flag: Flag) -> str:
    if verb in named("run"):
        return f"--{flag.name} VALUE"
    return flag.name.upper() + " ..." * (flag.name in ("plans", "runs"))


def _label(verb: str, flag: Flag) -> str:
    if flag.name == "config":
        return "-c, --config"
    return _metavar(verb, flag) if flag.required and verb in named("file") else f"--{flag.name}"


def _said(flag: Flag) -> str:
    facts = [", ".join(flag.choices)] if flag.choices else []
    facts += [f"default: {flag.default}"] if flag.default is not None else []
    return f"{flag.sentence} ({'; '.join(facts)})" if facts else flag.sentence


def _width() -> int:
    return min(max(shutil.get_terminal_size().columns, 80), 120)


def _row(label: str, text: str) -> str:
    indent = " " * COLUMN
    lines = textwrap.wrap(text, _width() - COLUMN) or [""]
    first = f"{label:<{COLUMN}}{lines[0]}" if len(label) < COLUMN else f"{label}\n{indent}{lines[0]}"
    return "\n".join([first.rstrip(), *(f"{indent}{line}" for line in lines[1:])])


def _wrapped(text: str) -> str:
    """Fill paragraphs; an indented one is an example, which keeps its lines."""
    return "\n\n".join(
        block if block.startswith(" ") else textwrap.fill(block, _width()) for block in text.split("\n\n")
    )
