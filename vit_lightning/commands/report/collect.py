"""What lies in a run folder, read for a report: what is missing or damaged becomes a note, never an end."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zipfile import is_zipfile

from vit_lightning.errors import InputError
from vit_lightning.files import check_regular, meant, typed_cell
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import is_sharded
from vit_lightning.runs.lock import is_held
from vit_lightning.terminal import counted, near
from vit_lightning.yaml_files import read_mapping

METRICS = "metrics.csv"
SCORED = ("test", "test.mean", "validate", "validate.mean")
"""How files of scores are called, those that say most of a run first."""
LARGEST = 1e100
"""Of a metric; what is larger, and what is no number, is no point of a curve that could be drawn."""
Point = tuple[int, float]
Read = TypeVar("Read")


class ClassRow(NamedTuple):
    """Scores of a class; a share of no image is None."""

    name: str
    support: int
    shares: dict[str, float | None]


class Mistake(NamedTuple):
    """An image that is predicted wrongly."""

    image: str
    label: str
    predicted: str
    probability: float


class Matrix(NamedTuple):
    """Which classes are taken for which."""

    names: list[str]
    entries: list[tuple[int, int, int]]
    """Number of the true class, of the predicted one, and how many images; those of none are left out."""


@dataclass
class Run:
    """What a run folder tells."""

    folder: Path
    configs: list[dict[str, Any]] = field(default_factory=list)
    """What it was told, in the order of its parts."""
    environment: dict[str, Any] = field(default_factory=dict)
    plan: list[tuple[str, str]] = field(default_factory=list)
    """What was said before the first step of its last part: a word, and the rest of the line."""
    curves: dict[str, list[Point]] = field(default_factory=dict)
    """Values by optimiser step, of each metric."""
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each file of scores holds, by the beginning of its name."""
    classes: list[ClassRow] = field(default_factory=list)
    confusion: Matrix | None = None
    mistakes: list[Mistake] = field(default_factory=list)
    tables_of: str = ""
    """Beginning of the names of the files that classes, confusion and mistakes come from; empty: there are none."""
    notes: list[str] = field(default_factory=list)
    """What could not be read, and what is still to come."""

    @property
    def name(self) -> str:
        """Experiment and number."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def config(self) -> dict[str, Any]:
        """What the last part of the run was told."""
        return self.configs[-1] if self.configs else {}

    def part(self, name: str) -> dict[str, Any]:
        """Return settings of the model, the data or the trainer."""
        part = self.config.get(name)
        part = part if isinstance(part, dict) else {}
        return as_dict(part.get("init_args")) if "class_path" in part else part

    def class_of(self, name: str) -> str:
        """Return the name of the class of the model or the data."""
        return str(as_dict(self.config.get(name)).get("class_path") or "").rpartition(".")[2]

    def last(self, metric: str) -> float | None:
        """Return the last value of a metric."""
        points = self.curves.get(metric)
        return points[-1][1] if points else None

    @property
    def steps(self) -> int:
        """Optimiser steps that were logged."""
        return 1 + max((points[-1][0] for name, points in self.curves.items() if is_of_a_step(name)), default=-1)


def as_dict(value: Any) -> dict[str, Any]:
    """Return a mapping, empty in place of anything else."""
    return value if isinstance(value, dict) else {}


def is_of_a_step(metric: str) -> bool:
    """Whether a metric is logged under the step it is of: the cost at the end stands under the one after it."""
    return not metric.startswith("cost/")


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
    raise InputError(f"report {word:.200}: {folders.not_a_run(path)}{meant(path)}")


def collect(folder: Path) -> Run:
    """Read a run folder; nothing in it is changed, and none of its code runs."""
    run = Run(folder)
    if is_held(folder):
        run.notes.append("The run still trains: this is what it has come to so far.")
    run.configs = [
        config
        for path in folders.configs(folder)
        if (config := _read(run, path, lambda path: read_mapping(path, "the run's")))
    ]
    for later in run.configs[1:]:
        _take_net(_settings(later), _settings(run.configs[0]))
    if not run.configs:
        run.notes.append("There is no config.yaml that could be read, so the settings of the run are not known.")
    run.environment = _read(run, folder / folders.ENVIRONMENT, _json) or {}
    run.plan = _read(run, folder / folders.PLAN, _plan) or []
    run.notes += _damaged_checkpoints(folder)
    _read_curves(run)
    for path in sorted([*folder.glob("test*.json"), *folder.glob("validate*.json")]):
        if facts := _read(run, path, _json):
            run.scores[path.stem] = facts
    _read_tables(run)
    return run


def _damaged_checkpoints(folder: Path) -> list[str]:
    """Return a sentence that names the checkpoints of a run that are cut; of whole ones nothing.

    Their contents are not read, which would take long; what opens the net does.
    """
    paths = sorted((folder / folders.CHECKPOINTS).glob("*.ckpt"))
    names = [path.name for path in paths if not (is_sharded(path) or (path.is_file() and is_zipfile(path)))]
    if not names:
        return []
    many = len(names) > 1
    return [
        f"{', '.join(names)} {'are' if many else 'is'} damaged: {'they do' if many else 'it does'} not hold what "
        "was written."
    ]


def _read(run: Run, path: Path, reader: Callable[[Path], Read]) -> Read | None:
    """Return what a reader makes of a file; None, with a note unless the file is simply not there."""
    if not path.exists():
        return None
    try:
        check_regular(path)
        return reader(path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        said = str(error).strip() if isinstance(error, InputError) else f"{near(path)} is damaged ({error})"
        run.notes.append(f"{said}; it is left out.")
        return None


def _settings(config: dict[str, Any]) -> dict[str, Any]:
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
        raise ValueError("it holds no object")
    return content


def _plan(path: Path) -> list[tuple[str, str]]:
    last = _text(path).strip().split("\n\n")[-1]
    return [(word, said.strip()) for word, _, said in (line.partition(" ") for line in last.splitlines())]


def _read_curves(run: Run) -> None:
    path = run.folder / METRICS
    found = _read(run, path, _curves)
    if found is None:
        if not path.exists():
            run.notes.append("There is no metrics.csv, so there are no curves.")
        return
    run.curves, damaged = found
    if damaged:
        run.notes.append(f"{counted(damaged, 'row')} of metrics.csv could not be read, and {_is(damaged)} left out.")
    if not run.curves:
        run.notes.append("metrics.csv holds no row yet, so there are no curves.")


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _curves(path: Path) -> tuple[dict[str, list[Point]], int]:
    """Return the values of each metric by step, and how many rows are none."""
    curves: dict[str, list[Point]] = {}
    text = _text(path)
    rows = _rows(text)
    damaged = int(bool(rows) and not text.endswith("\n"))  # its last number may lack digits
    for row in rows[:-1] if damaged else rows:
        try:
            step = int(row["step"])
            values = {name: float(text) for name, text in row.items() if text and name not in ("step", "epoch")}
        except (KeyError, ValueError, TypeError, AttributeError):  # a row that is cut, or too long
            damaged += 1
            continue
        for name, value in values.items():
            if abs(value) < LARGEST:
                curves.setdefault(name, []).append((step, value))
    for points in curves.values():
        points.sort(key=lambda point: point[0])
    return curves, damaged


def _rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return list(csv.DictReader(text.splitlines(keepends=True)))


def _text(path: Path) -> str:
    """Return a file's text; the names of a folder's files, which a table holds, need not be UTF-8."""
    csv.field_size_limit(2**27)
    return path.read_text(encoding="utf-8", errors="surrogateescape").replace("\0", "")


def _read_tables(run: Run) -> None:
    """Read the tables of the first verb that has left any, so that all of them are of the same images."""
    for stem in SCORED:
        paths = {kind: run.folder / f"{stem}.{kind}.csv" for kind in ("classes", "confusion", "mistakes")}
        if any(path.exists() for path in paths.values()):
            run.tables_of = stem
            run.classes = _read(run, paths["classes"], _classes) or []
            run.confusion = _read(run, paths["confusion"], _matrix)
            run.mistakes = _read(run, paths["mistakes"], _mistakes) or []
            return


def _classes(path: Path) -> list[ClassRow]:
    return [
        ClassRow(
            typed_cell(row["class"]),
            int(row["support"]),
            {name: float(text) if text else None for name, text in row.items() if name not in ("class", "support")},
        )
        for row in _rows(_text(path))
    ]


def _mistakes(path: Path) -> list[Mistake]:
    return [
        Mistake(*(typed_cell(row[name]) for name in ("image", "label", "predicted")), float(row["probability"]))
        for row in _rows(_text(path))
    ]


def _matrix(path: Path) -> Matrix:
    """Return a confusion matrix from its square, or from a row per entry that is not 0."""
    header, *rows = csv.reader(_text(path).splitlines(keepends=True))
    if header == ["true", "predicted", "images"] and [row[0] for row in rows] != header[1:]:
        known = dict.fromkeys(typed_cell(row[place]) for row in rows for place in (0, 1))
        numbers = {name: number for number, name in enumerate(known)}
        pairs = ((numbers[typed_cell(row[0])], numbers[typed_cell(row[1])], int(row[2])) for row in rows)
        return Matrix(list(numbers), list(pairs))
    names = [typed_cell(name) for name in header[1:]]  # by place: two classes may have one name
    if [len(row) for row in rows] != [len(header)] * len(names):
        raise ValueError(f"it is no square of {len(names)} classes")
    counts = [[int(cell) for cell in row[1:]] for row in rows]
    places = ((true, predicted) for true in range(len(names)) for predicted in range(len(names)))
    return Matrix(names, [(true, predicted, n) for true, predicted in places if (n := counts[true][predicted])])
