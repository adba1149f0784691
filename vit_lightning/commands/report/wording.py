"""What a report says of a run in words and rows: what it is, its recipe, its cost, where it ran."""

import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from vit_lightning.commands.report import scores, settings
from vit_lightning.commands.report.run import Run, as_dict
from vit_lightning.errors import InputError
from vit_lightning.models.recipe_words import effective, trained_part
from vit_lightning.models.variants import described
from vit_lightning.terminal import counted, duration, number, percentage

Rows = list[tuple[str, str]]
PLANNED_NET = re.compile(r"(.+?), (\d[\d,]* parameters(?: \([^)]*\))?)")
"""How a plan describes the net."""
PLANNED_PRECISION = re.compile(r", precision (\S+)$")
UNKNOWN_NET = "A net"
RULES = ("model.optim.name", "model.schedule.decay", "model.loss")
"""Settings that name what the others beside them are of."""
MODELS = {"MaskedPatch": "masked patch prediction"}


def sentence(run: Run) -> str:
    """Return what a run is, in one line; what is not known of it is left out, since a note says so."""
    size, data = run.part("data").get("image_size"), run.class_of("data")
    on = f" on {data}" if data else ""
    pixels = f" at {settings.size_said(size)} px" if size else ""
    scored = scores.main_score(run)
    result = f": {scored.of.partition(',')[0]} {scored.name} {scored.said}" if scored else ""
    hours = run.last("cost/device_hours")
    spent = f" in {duration(3600 * hours)} of device time" if hours else ""
    resumed = f", {settings.resumed(run)}" if run.resumes else ""
    return f"{net_of(run)}{_doing(run)}{on}{pixels}{result}{_trained_for(run, bool(scored))}{spent}{resumed}."


def _trained_for(run: Run, is_scored: bool) -> str:
    """Say for how long a run was trained, as far as anything says it."""
    if run.diverged_at:
        return f"{',' * is_scored} diverged at optimiser step {run.diverged_at:,}"
    steps = counted(run.steps, "optimiser step", grouped=True)
    if not run.steps:
        return " after an unknown number of optimiser steps"
    return f" after {'' if run.log_is_whole or run.state.steps else 'at least '}{steps}"


def net_of(run: Run) -> str:
    """Return the variant, and the fields that it has otherwise; those of weights stand in the plan alone."""
    if planned := _planned(run):
        return planned[0]
    net = as_dict(run.part("model").get("net"))
    try:
        return described(str(net["variant"]), {name: value for name, value in net.items() if value is not None})
    except (InputError, KeyError):
        return str(net.get("variant") or UNKNOWN_NET)


def _planned(run: Run) -> tuple[str, str] | None:
    """Return the net that a run has had, and the number of its parameters, from its plan; None: it does not say."""
    found = PLANNED_NET.match(dict(run.plan).get("net", ""))
    return (found[1], found[2]) if found else None


def _precision(run: Run) -> str:
    """Return the precision of the last part of a run: what its plan says, else what it was told."""
    if found := PLANNED_PRECISION.search(dict(run.plan).get("device", "")):
        return found[1]
    trainer = run.part("trainer")
    return _text(trainer.get("precision") or "the device's default") if trainer else ""


def _doing(run: Run) -> str:
    model = run.part("model")
    if kind := MODELS.get(run.class_of("model")):
        return f" pre-trained by {kind}"
    if not run.is_told_from_the_start or not model:
        return ""
    return " fine-tuned" if model.get("weights") else " trained from scratch"


def recipe(run: Run) -> Rows:
    """Return what a person asks first of how a net was trained; what no config says is left out."""
    model, data, trainer = run.part("model"), run.part("data"), run.part("trainer")
    optim, schedule = (effective(part, as_dict(model.get(part))) for part in ("optim", "schedule"))
    optim = {name: value for name, value in optim.items() if (name, value) != ("layer_decay", 1)}
    augment = as_dict(data.get("augment"))
    of_area = augment.get("crop") == "inception"
    began = str(model.get("weights") or "from scratch") if run.is_told_from_the_start and model else ""
    net = ", ".join((net_of(run), *(_planned(run) or ())[1:]))
    of_optim = ("name", "lr", "weight_decay", "momentum", "betas", "layer_decay")
    rows = [
        ("net", "" if net == UNKNOWN_NET else net),
        ("weights", began),
        ("trained", trained_part(model) if model else ""),
        ("data", " ".join(filter(None, [run.class_of("data"), str(data.get("root") or "")]))),
        ("image size", f"{settings.size_said(data['image_size'])} px" if data.get("image_size") else ""),
        ("batch", _batch(run)),
        ("length", _length(trainer)),
        (
            "optimiser",
            _listed("model.optim", optim, of_optim),
        ),
        ("schedule", _listed("model.schedule", schedule, ("decay", "warmup_steps", "end_lr", "cooldown_steps"))),
        ("loss", _listed("model", model, ("loss", "label_smoothing", "focal_gamma", "class_weights"))),
        ("augmentation", _listed("", augment, tuple(name for name in augment if name != "crop_area" or of_area))),
        ("gradient clipping", _text(trainer.get("gradient_clip_val"))),
        ("averaging", _listed("", as_dict(model.get("averaging")), ("decay",))),
        ("precision", _precision(run)),
        ("seed", _text(run.config.get("seed_everything"))),
    ]
    return [(name, said) for name, said in rows if said]


def _batch(run: Run) -> str:
    size, accumulated = run.part("data").get("batch_size"), run.part("trainer").get("accumulate_grad_batches")
    beside = f", {accumulated} accumulated" if isinstance(accumulated, int) and accumulated > 1 else ""
    return f"{size} per device{beside}" if size else ""


def _length(trainer: Mapping[str, Any]) -> str:
    parts = []
    for name, what in (("max_epochs", "epoch"), ("max_steps", "optimiser step")):
        most = trainer.get(name)
        if isinstance(most, int) and most > 0:
            parts.append(counted(most, what, grouped=True))
    return ", ".join(parts)


def _listed(group: str, told: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return settings of a group that are on, each under the word for it; one that names a rule stands by itself."""
    off = (None, False, 0, 0.0, "none")
    parts = []
    for name in names:
        if (value := told.get(name)) in off:
            continue
        flag = f"{group}.{name}" if group else name
        word = settings.word_for(flag)
        parts.append(str(value) if flag in RULES else word if value is True else f"{word} {settings.said(value)}")
    return ", ".join(parts)


def _text(value: Any) -> str:
    return "" if value is None else settings.said(value)


def cost(run: Run) -> Rows:
    """Return what a run has cost, beside what was estimated before it."""
    on_gpu = str([run.environment, *run.later_environments][-1].get("device")).startswith("cuda")

    def said(metric: str, unit: str) -> str:
        value, estimated = run.last(f"cost/{metric}"), run.last(f"cost/estimated_{metric}")
        if metric == "memory_gib" and not on_gpu:  # that of a process holds all that it has loaded
            estimated = None
        if value is None:
            return ""
        return f"{value:.3g}{unit}" + (f" (estimated {estimated:.3g})" if estimated is not None else "")

    def typical(metric: str) -> float | None:
        return median(value for _, value in run.curves[metric]) if run.curves.get(metric) else None

    speed, mfu, wait = (typical(f"perf/{name}") for name in ("images_per_s", "mfu", "data_wait"))
    rows = [
        ("compute", said("exaflops", " exaFLOPs")),
        ("device time", duration(3600 * hours) if (hours := run.last("cost/device_hours")) else ""),
        ("peak memory", said("memory_gib", " GiB") or _gib(run.last("perf/memory_gib"))),
        ("energy", said("energy_kwh", " kWh")),
        ("speed", f"{number(speed)} images/s (median)" if speed is not None else ""),
        ("share of the device's peak", f"{percentage(mfu, 1)} MFU (median)" if mfu is not None else ""),
        ("waiting for data", f"{percentage(wait, 1)} of the time (median)" if wait is not None else ""),
    ]
    return [(name, text) for name, text in rows if text]


def _gib(value: float | None) -> str:
    return "" if value is None else f"{value:.3g} GiB"


def environment(run: Run) -> Rows:
    """Return where a run ran, and from which resume on it ran elsewhere."""
    parts = [_environment_of(facts) for facts in (run.environment, *run.later_environments)]
    rows = []
    for name in dict.fromkeys(name for part in parts for name in part):
        said = [part.get(name, "not known") for part in parts]
        changes = [
            f"from resume {number} on: {now}" for number, (then, now) in enumerate(pairwise(said), 1) if then != now
        ]
        rows.append((name, "; ".join([said[0], *changes])))
    return rows


def _environment_of(facts: Mapping[str, Any]) -> dict[str, str]:
    commit = str(facts.get("git_commit") or "")
    rows = {
        "device": _text(facts.get("device_name") or facts.get("device")),
        "platform": _text(facts.get("platform")),
        "processors": _text(facts.get("cpus")),
        "command": _command(facts.get("command")),
        "commit": f"{commit}{' with changes' * bool(facts.get('git_dirty'))}" if commit else "",
        "SLURM job": _text(facts.get("slurm_job")),
    }
    versions = {name: str(version) for name, version in as_dict(facts.get("versions")).items() if version}
    return {name: text for name, text in (rows | versions).items() if text}


def _command(words: Any) -> str:
    """Return a command as it is typed: Python keeps the place of the program that was named by its module."""
    if not isinstance(words, list):
        return ""
    texts = [str(word) for word in words]
    is_ours = bool(texts) and Path(texts[0]).name == "__main__.py"
    return shlex.join(["python", "-m", "vit_lightning", *texts[1:]] if is_ours else texts)
