"""What a report says of a run in words and rows: what it is, its recipe, its cost, its scores, its parent."""

import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from vit_lightning.commands.report import sources
from vit_lightning.commands.report.collect import Run, as_dict, number_of
from vit_lightning.errors import InputError
from vit_lightning.evaluation.scores import (
    MAIN_METRICS,
    MAIN_OF_SEVERAL,
    SCORES,
    are_of_several,
    best_value,
    set_and_score,
)
from vit_lightning.models.recipe_words import effective, trained_part
from vit_lightning.models.variants import described
from vit_lightning.runs import folders
from vit_lightning.runs.differences import differences
from vit_lightning.terminal import counted, duration, near, number, percentage
from vit_lightning.yaml_files import read_mapping

Rows = list[tuple[str, str]]
SETS = {"test": "test", "val": "validation"}
PLANNED_NET = re.compile(r"(.+?), (\d[\d,]* parameters(?: \([^)]*\))?)")
"""How a plan describes the net."""
PLANNED_PRECISION = re.compile(r", precision (\S+)$")
MODELS = {"MaskedPatch": "masked patch prediction"}


class ScoreRow(NamedTuple):
    """A score, said."""

    of: str
    """Which images it is of."""
    name: str
    said: str
    value: float
    metric: str
    source: sources.Source = ()
    """What these images are known by."""


def sentence(run: Run) -> str:
    """Return what a run is, in one line."""
    net, data = net_of(run), run.class_of("data") or "unknown data"
    doing = _doing(run)
    size = run.part("data").get("image_size")
    pixels = f" at {_size(size)} px" if size else ""
    scored = main_score(run)
    result = f": {scored.of.partition(',')[0]} {scored.name} {scored.said}" if scored else ""
    hours = run.last("cost/device_hours")
    spent = f" in {duration(3600 * hours)} of device time" if hours else ""
    return f"{net} {doing} on {data}{pixels}{result} after {counted(run.steps, 'optimiser step', grouped=True)}{spent}."


def net_of(run: Run) -> str:
    """Return the variant, and the fields that it has otherwise; those of weights stand in the plan alone."""
    if planned := _planned(run):
        return planned[0]
    net = as_dict(run.part("model").get("net"))
    try:
        return described(str(net["variant"]), {name: value for name, value in net.items() if value is not None})
    except (InputError, KeyError):
        return str(net.get("variant") or "A net")


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
        return f"pre-trained by {kind}"
    return "fine-tuned" if model.get("weights") else "trained from scratch"


def main_score(run: Run) -> ScoreRow | None:
    """Return the score that speaks for a run: of a test, else of the best validation, else of the last."""
    rows = {row.metric.removeprefix("best "): row for row in reversed(score_rows(run))}
    mains = MAIN_OF_SEVERAL if has_several_labels(run) else MAIN_METRICS
    return next((rows[metric] for metric in mains if metric in rows), None)


def has_several_labels(run: Run) -> bool:
    """Tell whether the images of a run have several labels, as far as its scores say."""
    scored = (as_dict(facts.get("scores")) for facts in run.scores.values())
    return are_of_several(metric for metrics in (*scored, run.curves) for metric in metrics)


def score_rows(run: Run) -> list[ScoreRow]:
    """Return the scores of all files of scores, then those of validation: of the best checkpoint, and the last."""
    rows = []
    for stem, facts in run.scores.items():
        scores, further = as_dict(facts.get("scores")), as_dict(facts.get("further_images"))
        other, found = sources.other_checkpoint(run, facts), []
        speaks = stem in ("test", "validate") and not other
        for metric, value in scores.items():
            if (value := number_of(value)) is not None:
                split = SETS.get(metric.partition("/")[0], metric.partition("/")[0])
                called = set_and_score(metric, scores)[0]
                images = further.get(called) if called else facts.get("images")
                beside = f", {counted(images, 'image', grouped=True)}" if isinstance(images, int) else ""
                file = "" if stem in ("test", "validate") else f" ({stem}.json)"
                how = f"{file}{_how_scored(run, facts, other)}{beside}"
                row = _row(split, metric, value, metric if speaks else "", scores, how)
                found.append(row._replace(source=sources.of_scores(facts, called)))
        rows += [row for of in dict.fromkeys(row.of for row in found) for row in found if row.of == of]
    names = sorted((name for name in run.curves if name.startswith("val/")), key=_place)
    curves = {name: run.curves[name] for name in names}
    best = _best_step(run)
    for name, points in curves.items():
        there = [value for step, value in points if step == best]
        rows += [_row("best validation", name, value, f"best {name}", curves) for value in there[-1:]]
    rows += [_row("last validation", name, points[-1][1], name, curves) for name, points in curves.items()]
    return [row if row.source else row._replace(source=sources.of_validation(run)) for row in rows]


def _place(metric: str) -> tuple[str, int]:
    """Return what sorts metrics of validation as a file of scores has them: by set, then in the order of the scores."""
    called, name = set_and_score(metric)
    return called, list(SCORES).index(name) if name in SCORES else len(SCORES)


def outdated(run: Run) -> list[str]:
    """Return a sentence about each file of scores of a checkpoint that is another one now, or another run's."""
    said = []
    for stem, facts in run.scores.items():
        if other := sources.other_checkpoint(run, facts):
            verb = stem.partition(".")[0].partition("-")[0]
            again = shlex.join(["python", "-m", "vit_lightning", verb, str(near(run.folder))])
            said.append(
                f"{stem}.json is of {other} than the run has now, and so are the tables beside it; {again} scores what "
                "it has."
                if other.startswith("another ")
                else f"{stem}.json is of {other}, which is no checkpoint of this run; {again} scores what it has."
            )
    return said


def _how_scored(run: Run, facts: Mapping[str, Any], other: str) -> str:
    """Say what else than the best checkpoint, as it is, has answered."""
    flipped = " (flipped too)" * bool(facts.get("flip") or "without flip" in facts)
    if other:
        return f" (of {other})" + flipped
    name = Path(str(facts.get("checkpoint") or "")).name
    has_best = (run.folder / folders.CHECKPOINTS / "best.ckpt").exists()
    another = f" (of {name})" if has_best and name.endswith(".ckpt") and name != "best.ckpt" else ""
    return another + flipped


def _best_step(run: Run) -> int | None:
    """Return the step of the best checkpoint: the first at which the monitored metric was best; None: nobody knows."""
    told = as_dict(run.config.get("checkpoint"))
    own = (name for name in MAIN_METRICS if name.startswith("val/") and name in run.curves)
    monitor = str(told.get("monitor") or next(own, ""))
    points = run.curves.get(monitor)
    if not points:
        return None
    values = [value for _, value in points]
    mode = str(told.get("mode"))
    best = {"min": min, "max": max}[mode](values) if mode in ("min", "max") else best_value(monitor, values)
    return points[values.index(best)][0]


def _row(split: str, metric: str, value: float, key: str, metrics: Collection[str], beside: str = "") -> ScoreRow:
    """Return a score under the name of its own set, which is a further one or the split itself."""
    called, name = set_and_score(metric, metrics)
    score, known = SCORES.get(name), SCORES.get(called)
    of = f"{split} on {known.short if known else called}" if called else split
    said = score.said(value) if score else number(value)
    of_several = score.short_of_several if score and are_of_several(metrics) else None
    called_so = of_several or (score.label if score else name)
    return ScoreRow(f"{of}{beside}", called_so, said, float(value), key)


def recipe(run: Run) -> Rows:
    """Return what a person asks first of how a net was trained."""
    model, data, trainer = run.part("model"), run.part("data"), run.part("trainer")
    optim, schedule = (effective(part, as_dict(model.get(part))) for part in ("optim", "schedule"))
    augment = as_dict(data.get("augment"))
    of_area = augment.get("crop") == "inception"
    rows = [
        ("net", ", ".join((net_of(run), *(_planned(run) or ())[1:]))),
        ("weights", str(model.get("weights") or "from scratch")),
        ("trained", trained_part(model)),
        ("data", " ".join(filter(None, [run.class_of("data"), str(data.get("root") or "")]))),
        ("image size", f"{_size(data.get('image_size'))} px" if data.get("image_size") else ""),
        ("batch", _batch(run)),
        ("length", _length(trainer)),
        ("optimiser", _listed(optim, ("name", "lr", "weight_decay", "momentum", "betas", "layer_decay"))),
        ("schedule", _listed(schedule, ("decay", "warmup_steps", "end_lr", "cooldown_steps"))),
        ("loss", _listed(model, ("loss", "label_smoothing", "focal_gamma", "class_weights"))),
        ("augmentation", _listed(augment, tuple(name for name in augment if name != "crop_area" or of_area))),
        ("gradient clipping", _text(trainer.get("gradient_clip_val"))),
        ("averaging", _listed(as_dict(model.get("averaging")), ("decay",))),
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


def _listed(settings: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return settings that are on."""
    off = (None, False, 0, 0.0, "none")
    return ", ".join(f"{name} {_text(settings[name])}" for name in names if settings.get(name) not in off)


def _size(size: Any) -> str:
    sides = [str(side) for side in (size if isinstance(size, list) else [size])]
    return sides[0] if len(set(sides)) == 1 else " x ".join(sides)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def cost(run: Run) -> Rows:
    """Return what a run has cost, beside what was estimated before it."""
    on_gpu = str(run.environment.get("device")).startswith("cuda")

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
        ("device time", said("device_hours", " h")),
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
    """Return where a run ran."""
    facts = run.environment
    commit = str(facts.get("git_commit") or "")
    rows = [
        ("device", _text(facts.get("device_name") or facts.get("device"))),
        ("platform", _text(facts.get("platform"))),
        ("processors", _text(facts.get("cpus"))),
        ("command", " ".join(map(str, facts["command"])) if isinstance(facts.get("command"), list) else ""),
        ("commit", f"{commit}{' with changes' * bool(facts.get('git_dirty'))}" if commit else ""),
        ("SLURM job", _text(facts.get("slurm_job"))),
        *((name, str(version)) for name, version in as_dict(facts.get("versions")).items() if version),
    ]
    return [(name, text) for name, text in rows if text]


def ancestry(run: Run) -> tuple[str, list[str]]:
    """Return what a run began with, in words, and how its settings differ from those of that run."""
    if len(run.configs) > 1:
        found = differences(run.configs[-2], run.configs[-1])
        return "The run was resumed; its last part differs from the one before.", list(found.values())
    source = run.part("model").get("weights")
    if not source:
        return "The run began from scratch.", []
    try:
        place = Path(str(run.environment.get("folder") or ""), str(source)).expanduser()
        parent = place if folders.is_run(place) else folders.folder_of(place)
        configs = folders.configs(parent) if parent else []
        if not configs:
            return f"The run began with the weights {source}, of no run whose settings are at hand.", []
        old = read_mapping(configs[-1], "the parent's")
    except (OSError, ValueError, RuntimeError) as error:  # no path, one that is too long, or a damaged file
        return f"The run began with the weights {source}, whose settings cannot be read: {error}.", []
    return f"The run began with the weights of {near(configs[-1].parent)}.", list(differences(old, run.config).values())
