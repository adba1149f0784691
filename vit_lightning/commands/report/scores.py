"""What a report says of the scores of a run: of which images, of which state of its net, and the one that counts."""

import math
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vit_lightning.commands.report import sources
from vit_lightning.commands.report.collect import METRICS, is_behind, number_of
from vit_lightning.commands.report.damage import place_of
from vit_lightning.commands.report.run import Run, as_dict
from vit_lightning.evaluation.scores import (
    MAIN_METRICS,
    MAIN_OF_SEVERAL,
    SCORES,
    are_of_several,
    best_value,
    set_and_score,
)
from vit_lightning.runs import folders
from vit_lightning.terminal import counted, number

SETS = {"test": "test", "val": "validation"}


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
    rows += _validations(run)
    return [row if row.source else row._replace(source=sources.of_validation(run)) for row in rows]


def _validations(run: Run) -> list[ScoreRow]:
    """Return the scores of the best checkpoint, whose monitored one stands in it, and those that were logged last."""
    names = sorted((name for name in run.curves if name.startswith("val/")), key=_place)
    curves = {name: run.curves[name] for name in names}
    step = run.state.best_steps - 1 if run.state.best_steps else _best_step(run)
    best = [
        _row("best validation", name, value, f"best {name}", curves)
        for name, points in curves.items()
        for value in [value for at, value in points if at == step][-1:]
    ]
    monitor, kept = run.state.monitor, run.state.best
    logged = next((row.value for row in best if row.metric == f"best {monitor}"), math.nan)
    if kept is not None and monitor.startswith("val/") and not math.isclose(logged, kept, rel_tol=1e-5):
        others = [row for row in best if row.metric != f"best {monitor}"] if run.state.best_steps else []
        best = [_row("best validation", monitor, kept, f"best {monitor}", {*curves, monitor}), *others]
    which = f"last validation in {METRICS}" if is_behind(run) else "last validation"
    return best + [_row(which, name, points[-1][1], name, curves) for name, points in curves.items()]


def _place(metric: str) -> tuple[str, int]:
    """Return what sorts metrics of validation as a file of scores has them: by set, then in the order of the scores."""
    called, name = set_and_score(metric)
    return called, list(SCORES).index(name) if name in SCORES else len(SCORES)


def outdated(run: Run) -> list[str]:
    """Return a sentence about each file of scores of a checkpoint that is another one now, or another run's.

    Of tables whose scores are gone, nobody knows of which checkpoint they are, which is said too.
    """
    said = []
    for stem, facts in run.scores.items():
        if other := sources.other_checkpoint(run, facts):
            again = _command(run, stem)
            said.append(
                f"{stem}.json is of {other} than the run has now, and so are the tables beside it; {again} scores what "
                "it has."
                if _is_state(other)
                else f"{stem}.json is of {other}, which is no checkpoint of this run; {again} scores what it has."
            )
    if run.tables_of and run.tables_of not in run.scores:
        name, again = f"{run.tables_of}.json", _command(run, run.tables_of)
        gone = "cannot be read" if (run.folder / name).exists() else "is missing"
        said.append(
            f"{name} {gone}, so of which state of the net the tables beside it are is not known; {again}"
            " writes both anew."
        )
    return said


def tables_are_of(run: Run) -> str:
    """Say of which state of the net the tables of a run are, if not of what it has now; empty: they are of that."""
    if not run.tables_of:
        return ""
    if run.tables_of not in run.scores:
        return f"Of which state of the net this is, is not known: {run.tables_of}.json is not at hand."
    other = sources.other_checkpoint(run, run.scores[run.tables_of])
    if not other:
        return ""
    return f"Not of the run as it is now: {run.tables_of}.json is of {other}{' than it has' * _is_state(other)}."


def _is_state(other: str) -> bool:
    """Whether what a score is of is an earlier state of the run's own checkpoint."""
    return other.startswith("another ")


def _command(run: Run, stem: str) -> str:
    """Return the command that scores a run anew, into a file of such a name."""
    verb = stem.partition(".")[0].partition("-")[0]
    return shlex.join(["python", "-m", "vit_lightning", verb, str(place_of(run.folder))])


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
