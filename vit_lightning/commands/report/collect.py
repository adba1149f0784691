"""What lies in a run folder, read for a report: what is missing or damaged becomes a note, never an end."""

import csv
import json
import math
import re
import shlex
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from zipfile import is_zipfile

from vit_lightning.commands.report import tables
from vit_lightning.commands.report.damage import DamagedError, place_of, reason_of
from vit_lightning.commands.report.run import Run, as_dict
from vit_lightning.commands.report.state import state_of
from vit_lightning.commands.report.tables import Point
from vit_lightning.errors import InputError, listing
from vit_lightning.files import special_kind
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import LAST, NEW, PREVIOUS, is_sharded
from vit_lightning.runs.lock import is_held
from vit_lightning.terminal import counted
from vit_lightning.yaml_files import read_mapping

CONFIG = "config.yaml"
METRICS = "metrics.csv"
LOGGED_EVERY = 50
"""Steps between two rows of a log that does not show it."""
SCORED = ("test", "test.mean", "validate", "validate.mean")
"""How files of scores are called, those that say most of a run first."""
VERBS = ("test", "validate")
MOST_RECORDS = 3
"""Records of a batch that are named."""
RESUMED = re.compile(r" at step ([0-9]+)\b(?!.* at step )")
"""How a plan says where a part goes on."""
Read = TypeVar("Read")


def run_folder(word: str) -> Path:
    """Return the run folder that a word names, by itself or by a checkpoint in it.

    Raises:
        InputError: it names none.
    """
    path = Path(word).expanduser()
    if folders.is_run(path):
        return path.resolve()
    around = folders.folder_of(path) if path.exists() else None
    if around is not None and folders.is_run(around):
        return around
    raise InputError(f"report {word:.200}: {folders.not_a_run(path)}")


def collect(folder: Path) -> Run:
    """Read a run folder; nothing in it is changed, and none of its code runs."""
    run = Run(folder)
    if is_held(folder):
        run.notes.append("The run still trains: this is what it has come to so far.")
    _read_configs(run)
    run.environment = _read(run, folder / folders.ENVIRONMENT, _json) or {}
    resumed = sorted(folder.glob("env.resume-*.json"), key=lambda path: (len(path.name), path.name))
    run.later_environments = [_read(run, path, _json) or {} for path in resumed]
    run.splits = _read(run, folder / folders.SPLITS, _json) or {}
    run.validated = _read(run, folder / folders.SPLIT_TABLE, tables.validated)
    plans = _read(run, folder / folders.PLAN, _plans) or []
    run.plan = plans[-1] if plans else []
    run.resumed_at = [int(found[1]) for plan in plans if (found := RESUMED.search(dict(plan).get("resume", "")))]
    run.notes += _of_checkpoints(folder)
    run.state = state_of(folder)
    _read_curves(run)
    _read_scores(run)
    _read_tables(run)
    if facts := _read(run, folder / folders.NONFINITE, _json):
        run.diverged_at, run.ended = _diverged(run, facts)
    return run


def _read_configs(run: Run) -> None:
    """Read what each part of a run was told, and say of what nothing is known for it."""
    paths = folders.configs(run.folder)
    read = [(path, _read(run, path, lambda path: read_mapping(path, "the run's"))) for path in paths]
    run.configs = [config for _, config in read if config]
    run.is_told_from_the_start = any(path.name == CONFIG and config for path, config in read)
    for later in run.configs[1:]:
        _take_net(settings_of(later), settings_of(run.configs[0]))
    if not run.configs:
        run.notes.append(f"No {CONFIG} could be read, so the settings of the run are not known.")
    elif not run.is_told_from_the_start:
        run.notes.append(f"No {CONFIG} could be read, so what the run began with is not known.")
    if lacking := [part for part in ("model", "data", "trainer") if run.configs and part not in run.config]:
        run.notes.append(f"The config of the run is cut: it says nothing of {listing(lacking)}.")


def _of_checkpoints(folder: Path) -> list[str]:
    """Return a sentence about each checkpoint that is cut, with what is taken for the last one; one if there is none.

    Their contents are not read, which would take long; what opens the net does.
    """
    paths = sorted((folder / folders.CHECKPOINTS).glob("*.ckpt"))
    if not paths:
        return [] if is_held(folder) else ["The run has no checkpoint: its net cannot be opened or trained on."]
    whole = [path.name for path in paths if is_sharded(path) or (path.is_file() and is_zipfile(path))]
    cut = [path.name for path in paths if path.name not in whole]
    instead = next((name for name in (NEW, PREVIOUS) if name in whole), None)
    said = dict.fromkeys(cut, "is damaged: it does not hold what was written")
    if instead and LAST not in whole:
        said[LAST] = f"{said.get(LAST, 'is missing')}, and {instead} is taken in its place"
    return [f"{name} {what}." for name, what in said.items()]


def _read(run: Run, path: Path, reader: Callable[[Path], Read]) -> Read | None:
    """Return what a reader makes of a file; None, with a note unless the file is simply not there."""
    if not path.exists():
        return None
    try:
        if kind := special_kind(path):
            raise DamagedError(f"it is a {kind}, no regular file")
        return reader(path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        run.notes.append(f"{path.name} is damaged ({reason_of(error)}); it is left out{_anew(run, path)}.")
        return None


def settings_of(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a config's model."""
    model = as_dict(config.get("model"))
    return as_dict(model.get("init_args")) if "class_path" in model else model


def _take_net(later: dict[str, Any], first: dict[str, Any]) -> None:
    """Let a part that went on have the net and the weights of the first: its own are those of the checkpoint."""
    for name in {*later, *first}:
        if name == "net" or name.startswith("weights"):
            later.pop(name, None)
            later |= {name: first[name]} if name in first else {}


def _json(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise DamagedError("it holds no object")
    return content


def _plans(path: Path) -> list[list[tuple[str, str]]]:
    """Return what was said before the first step of each part: words, and the rest of their lines."""
    parts = tables.text_of(path).strip().split("\n\n")
    split = [[line.partition(" ") for line in part.splitlines()] for part in parts]
    return [[(word, said.strip()) for word, _, said in lines] for lines in split]


def _read_curves(run: Run) -> None:
    """Read what was logged, and say which of it the checkpoints know better."""
    path = run.folder / METRICS
    notes = len(run.notes)
    found = _read_table(run, path, tables.curves)
    run.curves = found or {}
    run.log_is_whole = found is not None and len(run.notes) == notes
    if not path.exists():
        run.notes.append(f"There is no {METRICS}, so there are no curves.")
    elif found == {} and run.log_is_whole:
        run.notes.append(f"{METRICS} holds no row yet, so there are no curves.")
    if is_behind(run):
        ends = f"{METRICS} ends at optimiser step {run.logged_steps:,} of {run.state.steps:,}"
        lacks = ends if run.logged_steps < run.state.steps else f"{METRICS} lacks a validation"
        lacks = lacks if found else f"{METRICS} tells nothing"
        run.notes.append(f"{lacks}: steps, best score and cost are said as the checkpoints have them.")


def is_behind(run: Run) -> bool:
    """Whether the checkpoints know of steps or of a validation that the log would hold if it were whole."""
    state, logged = run.state, run.curves.get("train/loss", ())
    if state.steps - run.logged_steps >= _spacing(logged, LOGGED_EVERY):
        return True
    validated = run.curves.get(state.monitor, ())
    last = max((step for step, _ in validated), default=-1)
    if validated and state.steps - 1 - last >= _spacing(validated):
        return True
    return state.best is not None and not any(math.isclose(value, state.best, rel_tol=1e-5) for _, value in validated)


def _spacing(points: Sequence[Point], unknown: int = 0) -> int:
    """Return the most steps between two points, or before the first."""
    return max((later - earlier for earlier, later in pairwise([-1, *(step for step, _ in points)])), default=unknown)


def _read_table(run: Run, path: Path, reader: Callable[[Path], tuple[Read, int]]) -> Read | None:
    """Return what a reader makes of a table, with a note on the rows that it leaves out."""
    found, damaged = _read(run, path, reader) or (None, 0)
    if damaged:
        left = f"{counted(damaged, 'row')} could not be read, and {'is' if damaged == 1 else 'are'} left out"
        run.notes.append(f"{path.name} is damaged: {left}{_anew(run, path)}.")
    return found


def _anew(run: Run, path: Path) -> str:
    """Say what writes a file anew, if anything but a whole run does."""
    stem, _, rest = path.name.partition(".")
    if stem in VERBS and not rest.startswith(("mean", "earlier")):
        return f"; {shlex.join(['python', '-m', 'vit_lightning', stem, str(place_of(run.folder))])} writes it anew"
    verb = stem.partition("-")[0]
    return f"; the call of {verb} that wrote it writes it anew" if verb in VERBS else ""


def _read_scores(run: Run) -> None:
    """Read the files of scores; what of them is no score becomes a note."""
    for path in sorted([*run.folder.glob("test*.json"), *run.folder.glob("validate*.json")]):
        facts = _read(run, path, _json)
        if facts is None:
            continue
        run.scores[path.stem] = facts
        if not isinstance(facts.get("scores"), dict):
            run.notes.append(f"{path.name} holds no scores by name; it is left out{_anew(run, path)}.")
        for metric, value in as_dict(facts.get("scores")).items():
            if number_of(value) is None:
                said = f"{metric:.60} is {json.dumps(value):.60}, which is no number; it is left out"
                run.notes.append(f"{path.name}: {said}{_anew(run, path)}.")


def number_of(value: Any) -> float | None:
    """Return a score as a number; None for text, a truth value, and what is not finite."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < tables.LARGEST else None


def _read_tables(run: Run) -> None:
    """Read the tables of the first verb that has left any, so that all of them are of the same images."""
    for stem in SCORED:
        paths = {kind: run.folder / f"{stem}.{kind}.csv" for kind in ("classes", "confusion", "mistakes")}
        if any(path.exists() for path in paths.values()):
            run.tables_of = stem
            run.classes = _read_table(run, paths["classes"], tables.classes) or []
            run.confusion = _read_table(run, paths["confusion"], tables.matrix)
            run.mistakes = _read_table(run, paths["mistakes"], tables.mistakes)
            _compare_tables(run, paths)
            return


def _compare_tables(run: Run, paths: dict[str, Path]) -> None:
    """Say which table lacks rows that another has; one that was cut between two rows looks whole."""
    if run.confusion is None:
        return
    lacking = len(run.confusion.names) - len(run.classes)
    torn = any(note.startswith(paths["classes"].name) for note in run.notes)  # which tells of a row
    if lacking > torn and paths["classes"].exists():
        total = len(run.confusion.names)
        run.notes.append(f"{paths['classes'].name} lacks {lacking} of {total} classes{_anew(run, paths['classes'])}.")
    if run.mistakes == [] and any(true != taken for true, taken, _ in run.confusion.entries):
        run.mistakes = None
        run.notes.append(f"{paths['mistakes'].name} lacks its mistakes{_anew(run, paths['mistakes'])}.")


def _diverged(run: Run, facts: dict[str, Any]) -> tuple[int | None, str]:
    """Return the step, counted from 1, at which something was not finite, and say so with the records of its batch."""
    devices = [as_dict(device) for device in (facts.get("devices") if isinstance(facts.get("devices"), list) else [])]
    what = "gradient" if devices and all(number_of(device.get("loss")) is not None for device in devices) else "loss"
    records = [str(name) for device in devices if isinstance(device.get("records"), list) for name in device["records"]]
    of = f", in the batch of {listing(records, most=MOST_RECORDS)}" if records else ""
    number = facts.get("optimiser_step")
    step = number + 1 if isinstance(number, int) and not isinstance(number, bool) else None
    when = f"of optimiser step {step:,}" if step else f"of a step that {folders.NONFINITE} does not name"
    seen = f" This was seen after step {run.logged_steps:,}." if step and run.logged_steps > step else ""
    return step, f"The run diverged and was ended: the training {what} {when} was not finite{of}.{seen}"
