"""A plan: the common command line of many runs, the axes along which they differ, and the figures to draw of them."""

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass, fields
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.scores import METRICS
from vit_lightning.files import check_regular, looked_for_in
from vit_lightning.yaml_files import AsWritten, kind, read_mapping

KEYS = ("fit", "then", "over", "figure")
SCORING = ("validate", "test", "predict")
CHECKPOINTS = ("last", "best")
SWEEP_FLAGS = {
    "--ckpt_path": "goes on with unfinished runs by itself",
    "--trainer.default_root_dir": "puts the runs below --runs",
    "--trainer.logger": "reads the metrics.csv of every run",
}
"""Flags of a fit that a plan leaves to the sweep, and why."""
PLACE = re.compile(r"\{([A-Za-z_][\w. ]*)\}")
Words = list[str] | dict[str, list[str]]
"""What a label adds to the command line: everywhere the same, or by the label of another axis."""
LONGEST = 200
"""Characters of a folder's name; file systems take 255."""


@dataclass(frozen=True)
class Figure:
    """What to draw: y over x, a line per label of one axis, mean and deviation over another."""

    x: str
    y: str
    line: str | None = None
    spread: str | None = None
    xscale: str = "linear"
    yscale: str = "linear"
    title: str = ""


@dataclass(frozen=True)
class Cell:
    """One run of a plan: where it lies on the axes, and its command lines without what the sweep adds."""

    plan: str
    labels: dict[str, str]
    lines: list[list[str]]

    @property
    def name(self) -> str:
        """Name of its folder, the same whenever the plan is read."""
        return re.sub(r"[^\w.=,+-]+", "_", ",".join(f"{axis}={label}" for axis, label in self.labels.items()))

    @property
    def place(self) -> str:
        """Its folder below that of the runs."""
        return f"{self.plan}/{self.name}"


@dataclass(frozen=True)
class SweepPlan:
    """A plan that was read, its placeholders filled."""

    name: str
    axes: dict[str, list[str]]
    cells: list[Cell]
    figures: list[Figure]
    filled: frozenset[str]
    """Placeholders that --set filled."""

    @property
    def spread(self) -> str | None:
        """Axis over which means and deviations are taken: the one a figure names, or that of the seeds."""
        named = [figure.spread for figure in self.figures if figure.spread]
        return next((axis for axis in [*named, "seed", "seed_everything"] if axis in self.axes), None)


def read_plan(path: Path, given: dict[str, str], runs: Path) -> SweepPlan:
    """Read a plan.

    Args:
        path: YAML file.
        given: What --set fills its placeholders with; {RUNS} and the labels, as {axis}, are known without it.
        runs: Folder of the runs.

    Raises:
        InputError: the file is no plan.
    """
    check_regular(path, f"plan {path}")
    if not path.is_file():
        meant = did_you_mean(str(path), map(str, path.parent.glob("*.yaml")))
        raise InputError(f"{path}: no such plan{looked_for_in(path)}{meant}")
    content = read_mapping(path, "plan", AsWritten, example="fit")
    try:
        return _Reader(path.stem, content, given, runs).plan()
    except InputError as error:
        raise InputError(f"plan {path}: {error}") from error


class _Reader:
    """Checks the content of a plan and builds its cells; what it raises does not name the file."""

    def __init__(self, name: str, content: dict[str, Any], given: dict[str, str], runs: Path) -> None:
        _check_keys(content, KEYS, ("fit", "over"), "it")
        self.name, self.content, self.given, self.runs = name, content, given, runs
        self.filled: set[str] = set()
        self.followed: dict[tuple[str, str], str] = {}
        """The other axis that decides the words of an axis' label."""

    def plan(self) -> SweepPlan:
        fit = _flags("fit", self.content["fit"])
        then = [_then(line) for line in _as_list("then", self.content.get("then", []))]
        over = self._axes()
        cells = []
        for point in product(*(axis.items() for axis in over.values())):
            labels = dict(zip(over, (label for label, _ in point), strict=True))
            chosen = (self._chosen(axis, labels, words) for axis, (_, words) in zip(over, point, strict=True))
            own = [*fit, *chain.from_iterable(chosen)]
            lines = [["fit", *own], *([verb, *own, *words] for verb, *words in then)]
            cells.append(Cell(self.name, labels, [self._filled(line, labels) for line in lines]))
        _check_names(cells)
        axes = {axis: list(labels) for axis, labels in over.items()}
        drawn = self.content.get("figure", [])
        verbs = {verb for verb, *_ in then}
        figures = [_figure(item, axes, verbs) for item in (drawn if isinstance(drawn, list) else [drawn])]
        return SweepPlan(self.name, axes, cells, figures, frozenset(self.filled))

    def _axes(self) -> dict[str, dict[str, Words]]:
        over = self.content["over"]
        if not isinstance(over, dict) or not over:
            raise InputError(f"over must hold axes such as `--seed_everything: [0, 1]`, not {kind(over)}")
        axes = {_plain(axis): _axis(axis, labels) for axis, labels in over.items()}
        if len(axes) < len(over):
            raise InputError("over holds an axis twice, with and without dashes")
        for axis, labels in axes.items():
            others = {name: other for name, other in axes.items() if name != axis}
            for label, words in labels.items():
                if isinstance(words, dict):
                    self.followed[axis, label] = _axis_of(f"{axis}, {label}", words, others)
        return axes

    def _chosen(self, axis: str, labels: dict[str, str], words: Words) -> list[str]:
        """The words that an axis adds in the cell of these labels."""
        return words if isinstance(words, list) else words[labels[self.followed[axis, labels[axis]]]]

    def _filled(self, words: list[str], labels: dict[str, str]) -> list[str]:
        """Fill placeholders after the words were split: a value with spaces stays one word."""
        known = {**self.given, "RUNS": str(self.runs), **labels}

        def value(found: re.Match[str]) -> str:
            if (name := found[1]) not in known:
                raise InputError(f"{found[0]} has no value; give --set {name}=VALUE")
            if name != "RUNS" and name not in labels:
                self.filled.add(name)
            return known[name]

        return [PLACE.sub(value, word) for word in words]


def _axis(axis: str, labels: Any) -> dict[str, Words]:
    """Words that each label of an axis adds to the command line."""
    if not labels:
        raise InputError(f"the axis {axis} is empty; give it labels")
    if isinstance(labels, dict):
        return {label: _words(f"{axis}, {label}", words) for label, words in labels.items()}
    if not axis.startswith("-"):
        raise InputError(
            f"the axis {axis} must hold labels with their words, such as `small: --model.net.width 64`; "
            "a list of values goes to an axis that is a flag"
        )
    values = [_text(axis, value) for value in _as_list(axis, labels)]
    if twice := next((value for value in values if values.count(value) > 1), None):
        raise InputError(f"the axis {axis} has {twice} twice")
    return {value: _flags(axis, f"{axis} {shlex.quote(value)}") for value in values}


def _axis_of(where: str, labels: Collection[str], axes: dict[str, dict[str, Words]]) -> str:
    """Return the axis whose labels these are."""
    if len(same := [axis for axis in axes if axes[axis].keys() == set(labels)]) > 1:
        raise InputError(f"{where}: {' and '.join(same)} have the same labels; give one of them labels of its own")
    near = max(axes, key=lambda axis: (len(axes[axis].keys() & labels), axes[axis].keys() == set(labels)), default="")
    theirs = axes.get(near, {})
    if theirs.keys().isdisjoint(labels):
        raise InputError(f"{where}: no other axis has the labels {', '.join(labels)}")
    if stray := next((label for label in labels if label not in theirs), None):
        hint = did_you_mean(stray, theirs.keys() - labels)
        raise InputError(f"{where}: the axis {near} has no label {stray}{hint} (it has {', '.join(theirs)})")
    if missing := [label for label in theirs if label not in labels]:
        raise InputError(f"{where}: {', '.join(missing)} of the axis {near} is missing; '' adds no words there")
    return near


def _words(where: str, given: Any) -> Words:
    if isinstance(given, dict):
        return {label: _flags(f"{where}, {label}", words) for label, words in given.items()}
    return _flags(where, given)


def _then(text: Any) -> list[str]:
    verb, *words = _split("then", text) or [""]
    if verb not in SCORING:
        raise InputError(f"then: {text!r} must begin with {', '.join(SCORING[:-1])} or {SCORING[-1]}")
    pairs = [(word.partition("="), after) for word, after in pairwise([*words, ""])]
    given = [value or after for (flag, _, value), after in pairs if flag == "--ckpt_path"]
    if not given:
        raise InputError(f"then: {text!r} needs --ckpt_path last or best, the checkpoint of its run")
    checkpoint = given[-1]
    if checkpoint not in CHECKPOINTS and not Path(checkpoint).suffix and "/" not in checkpoint:
        hint = did_you_mean(checkpoint, CHECKPOINTS)
        raise InputError(f"then: --ckpt_path {checkpoint}: expected last, best or a file{hint}")
    return [verb, *words]


def _flags(where: str, text: Any) -> list[str]:
    """Split words that are the flags of a fit."""
    words = _split(where, text)
    if words and not words[0].startswith("-"):
        raise InputError(f"{where}: expected flags of fit, such as -c experiments/digits.yaml, not {words[0]!r}")
    for word in words:
        if (flag := word.partition("=")[0]) in SWEEP_FLAGS:
            raise InputError(f"{where}: leave out {flag}: a sweep {SWEEP_FLAGS[flag]}")
    return words


def _split(where: str, text: Any) -> list[str]:
    text = _text(where, text)
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{where}: {text!r} has an open quote or ends in a backslash") from error


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: expected text, not {kind(value)}; quote what begins with a bracket")
    return value


def _as_list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, such as [a, b], not {value!r}")
    return value


def _figure(content: Any, axes: dict[str, list[str]], then: Collection[str]) -> Figure:
    if not isinstance(content, dict):
        raise InputError(f"figure must hold a mapping such as {{x: lr, y: test/top1}}, not {kind(content)}")
    _check_keys(content, [field.name for field in fields(Figure)], ("x", "y"), "figure")
    named = {key: _text(f"figure, {key}", value) for key, value in content.items()}
    for key in {"x", "line", "spread"} & set(named):
        named[key] = _plain(named[key])
        if named[key] not in axes and not (key == "x" and "/" in named[key]):
            also = ", or a metric such as cost/exaflops" * (key == "x")
            hint = did_you_mean(named[key], axes)
            raise InputError(f"figure: {key} {named[key]} is no axis{hint} (of {', '.join(axes)}{also})")
    for key in ("xscale", "yscale"):
        if named.get(key, "linear") not in ("linear", "log"):
            raise InputError(f"figure: {key} {named[key]}: expected linear or log")
    figure = Figure(**named)
    _check_metric("y", figure.y, axes, then)
    if figure.x not in axes:
        _check_metric("x", figure.x, axes, then)
    else:
        unnamed = axes.keys() - {figure.x, figure.line, figure.spread}
        if stray := next((axis for axis in axes if axis in unnamed and len(axes[axis]) > 1), None):
            raise InputError(f"figure: the axis {stray} is neither x nor line nor spread")
        if figure.xscale == "log" and not (are_numbers(axes[figure.x]) and min(map(float, axes[figure.x])) > 0):
            raise InputError(f"figure: xscale log needs numbers above 0 as labels of {figure.x}")
    return figure


def _check_metric(key: str, name: str, axes: Collection[str], then: Collection[str]) -> None:
    """Refuse what cannot be a metric of a run; whether a run logs it, the first that ends will tell."""
    if not name.startswith(METRICS):
        said = "an axis, not a metric" if _plain(name) in axes else "no metric"
        raise InputError(f"figure: {key} {name} is {said}; the name of one begins with {', '.join(sorted(METRICS))}")
    if name.startswith("test/") and "test" not in then:
        raise InputError(f"figure: {key} {name} needs a line such as `test --ckpt_path last` under then")


def are_numbers(labels: Collection[str]) -> bool:
    """Whether all labels of an axis are numbers."""
    try:
        return all(float(label) == float(label) for label in labels)
    except ValueError:
        return False


def _check_keys(content: dict[str, Any], known: Collection[str], needed: Collection[str], what: str) -> None:
    if unknown := next((key for key in content if key not in known), None):
        raise InputError(
            f"{what} has the unknown key {unknown!r}{did_you_mean(unknown, known)} (known: {', '.join(known)})"
        )
    if missing := next((key for key in needed if not content.get(key)), None):
        raise InputError(f"{what} lacks {missing}")


def _check_names(cells: list[Cell]) -> None:
    names: set[str] = set()
    for cell in cells:
        if len(cell.name) > LONGEST:
            raise InputError(f"the folder {cell.name} would have {len(cell.name)} characters; shorten the labels")
        if cell.name.casefold() in names:
            raise InputError(f"two cells would share the folder {cell.name}; tell their labels apart by letters")
        names.add(cell.name.casefold())


def _plain(axis: str) -> str:
    return axis.lstrip("-")
