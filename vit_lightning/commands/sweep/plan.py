"""A plan: the common command line of many runs, the axes along which they differ, and the figures to draw of them."""

import re
from collections.abc import Collection
from dataclasses import dataclass, fields
from itertools import chain, product
from pathlib import Path
from typing import Any

from vit_lightning.commands.sweep.task_table import TaskTable, task_table
from vit_lightning.commands.sweep.words import (
    Words,
    axis_followed,
    axis_of,
    check_keys,
    flags_of,
    list_of,
    plain,
    text_of,
    then_of,
    words_of,
)
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.published import PublishedLine, published_lines
from vit_lightning.evaluation.scores import METRICS
from vit_lightning.files import check_regular, looked_for_in, meant
from vit_lightning.yaml_files import AsWritten, kind, read_mapping

KEYS = ("fit", "then", "over", "choose", "figure", "table")
CHOOSE_KEYS = ("by", "over", "fit", "per")
CHOOSING = ("val/", "best val/")
"""How the names of metrics of held-out images begin."""
PLACE = re.compile(r"\{([A-Za-z_][\w. ]*)\}")
FURTHER = "choose, fit"
"""Stands for an axis: what the runs of the first stage add to the words of a fit."""
LONGEST = 200
"""Characters of a folder's name; file systems take 255."""


@dataclass(frozen=True)
class Figure:
    """What to draw: y over x, a line per label of one axis, mean and deviation over another, and published lines."""

    x: str
    y: str
    line: str | None = None
    spread: str | None = None
    xscale: str = "linear"
    yscale: str = "linear"
    title: str = ""
    published: str | None = None
    """Benchmark and task whose published scores are drawn too, such as `compute/cifar10`."""

    @property
    def published_lines(self) -> list[PublishedLine]:
        """Published scores over what the last word of x says, exaflops or images."""
        benchmark, _, task = (self.published or "").partition("/")
        return published_lines(benchmark, task, self.x.rpartition("/")[2]) if self.published else []


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
    by: str | None = None
    """The metric by which the runs choose a setting, if they are for that."""
    table: TaskTable | None = None
    choice: "Choice | None" = None
    """What is chosen before the cells run, if anything: they are then those of all settings, of which one is chosen."""

    @property
    def spread(self) -> str | None:
        """Axis over which means and deviations are taken: the one a figure names, or that of the seeds."""
        return _spread(self.figures, self.axes)


@dataclass(frozen=True)
class Choice:
    """The first stage of a plan: runs that hold images out, by which a setting is chosen for the second stage."""

    per: list[str]
    """Axes of the plan; each combination of their labels has a choice of its own, by the mean over the other axes."""
    over: list[str]
    """Axes of the settings."""
    plan: SweepPlan
    """The runs of this stage: over the axes of the plan, of whose seeds it has the first, and those of the settings."""


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
        raise InputError(f"{path}: no such plan{looked_for_in(path)}{meant(path)}")
    content = read_mapping(path, "plan", AsWritten, example="fit")
    try:
        return _Reader(path.stem, content, given, runs).plan()
    except InputError as error:
        raise InputError(f"plan {path}: {error}") from error


class _Reader:
    """Checks the content of a plan and builds its cells; what it raises does not name the file."""

    def __init__(self, name: str, content: dict[str, Any], given: dict[str, str], runs: Path) -> None:
        check_keys(content, KEYS, ("fit", "over"), "it")
        self.name, self.content, self.given, self.runs = name, content, given, runs
        self.filled: set[str] = set()
        self.followed: dict[tuple[str, str], str] = {}
        """The other axis that decides the words of an axis' label."""

    def plan(self) -> SweepPlan:
        then = [then_of(line) for line in list_of("then", self.content.get("then", []))]
        over, choose = _axes("over", self.content["over"]), self._choose(then)
        settings = _axes("choose, over", choose["over"]) if choose else {}
        axes = over | settings
        if twice := next((axis for axis in settings if axis in over), None):
            raise InputError(f"choose, over: {twice} is an axis of the plan already; leave it out in one place")
        self._follow(axes)
        for axis, words in axes.items():
            _check_seeds(axis, words)
        labels = {axis: list(labels) for axis, labels in axes.items()}
        drawn = self.content.get("figure", [])
        verbs, own = {verb for verb, *_ in then}, {axis: labels[axis] for axis in over}
        figures = [_figure(item, own, verbs) for item in (drawn if isinstance(drawn, list) else [drawn])]
        table = task_table(self.content["table"], own, verbs) if "table" in self.content else None
        cells = self._cells(self.name, axes, then)
        choice = self._choice(choose, over, settings, _spread(figures, over)) if choose else None
        return SweepPlan(self.name, labels, cells, figures, frozenset(self.filled), table=table, choice=choice)

    def _cells(
        self, name: str, axes: dict[str, dict[str, Words]], then: list[list[str]], further: Words | None = None
    ) -> list[Cell]:
        fit, cells = flags_of("fit", self.content["fit"]), []
        for point in product(*(axis.items() for axis in axes.values())):
            labels = dict(zip(axes, (label for label, _ in point), strict=True))
            chosen = [self._chosen(axis, labels, words) for axis, (_, words) in zip(axes, point, strict=True)]
            own = [*fit, *chain.from_iterable(chosen), *self._chosen(FURTHER, labels, further or [])]
            lines = [["fit", *own], *([verb, *own, *words] for verb, *words in then)]
            cells.append(Cell(name, labels, [self._filled(line, labels) for line in lines]))
        _check_names(cells)
        return cells

    def _follow(self, axes: dict[str, dict[str, Words]]) -> None:
        for axis, labels in axes.items():
            others = {name: other for name, other in axes.items() if name != axis}
            for label, words in labels.items():
                if isinstance(words, dict):
                    self.followed[axis, label] = axis_followed(f"{axis}, {label}", words, others)

    def _choose(self, then: list[list[str]]) -> dict[str, Any]:
        """Check what a plan says of its choice, its axes aside."""
        if "choose" not in self.content:
            return {}
        choose = self.content["choose"]
        if not isinstance(choose, dict):
            raise InputError(f"choose must hold a mapping such as {{by: val/top1, over: ...}}, not {kind(choose)}")
        check_keys(choose, CHOOSE_KEYS, ("by", "over"), "choose")
        if not text_of("choose, by", choose["by"]).startswith(CHOOSING):
            raise InputError(f"choose: by {choose['by']} is no metric of held-out images, such as val/top1")
        tests = [words for verb, *words in then if verb == "test"]
        if len(tests) > 1:
            raise InputError(f"then holds {len(tests)} lines of test; a plan that chooses looks at the test set once")
        if any("best" in (word, word.partition("=")[2]) for words in tests for word in words):
            raise InputError(
                "then: test --ckpt_path best: the runs that are tested hold no images out, by which a checkpoint "
                "could be best; give --ckpt_path last"
            )
        return choose

    def _choice(
        self, choose: dict[str, Any], over: dict[str, Any], settings: dict[str, Any], spread: str | None
    ) -> Choice:
        if len(list(product(*settings.values()))) < 2:
            raise InputError("choose, over: one setting leaves no choice; give further labels, or put its words in fit")
        others = [axis for axis in over if axis != spread]
        per = [plain(text_of("choose, per", axis)) for axis in list_of("choose, per", choose.get("per", others))]
        if stray := next((axis for axis in per if axis not in others), None):
            raise InputError(f"choose: per {stray} is no axis{did_you_mean(stray, others)} (of {', '.join(others)})")
        further = words_of("choose, fit", choose.get("fit", ""))
        if isinstance(further, dict):
            self.followed[FURTHER, ""] = axis_followed("choose, fit", further, over)
        axes = {axis: labels if axis != spread else dict([next(iter(labels.items()))]) for axis, labels in over.items()}
        name = f"{self.name}.choose"
        cells = self._cells(name, axes | settings, [], further)
        labels = {axis: list(labels) for axis, labels in (axes | settings).items()}
        plan = SweepPlan(name, labels, cells, [], frozenset(), by=choose["by"])
        return Choice(per, list(settings), plan)

    def _chosen(self, axis: str, labels: dict[str, str], words: Words) -> list[str]:
        """The words that an axis adds in the cell of these labels."""
        return words if isinstance(words, list) else words[labels[self.followed[axis, labels.get(axis, "")]]]

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


def _axes(where: str, over: Any) -> dict[str, dict[str, Words]]:
    if not isinstance(over, dict) or not over:
        raise InputError(f"{where} must hold axes such as `--seed_everything: [0, 1]`, not {kind(over)}")
    axes = {plain(axis): axis_of(axis, labels) for axis, labels in over.items()}
    if len(axes) < len(over):
        raise InputError(f"{where} holds an axis twice, with and without dashes")
    return axes


def _spread(figures: list[Figure], axes: Collection[str]) -> str | None:
    named = [figure.spread for figure in figures if figure.spread]
    return next((axis for axis in [*named, "seed", "seed_everything"] if axis in axes), None)


def _figure(content: Any, axes: dict[str, list[str]], then: Collection[str]) -> Figure:
    if not isinstance(content, dict):
        raise InputError(f"figure must hold a mapping such as {{x: lr, y: test/top1}}, not {kind(content)}")
    check_keys(content, [field.name for field in fields(Figure)], ("x", "y"), "figure")
    named = {key: text_of(f"figure, {key}", value) for key, value in content.items()}
    for key in {"x", "line", "spread"} & set(named):
        named[key] = plain(named[key])
        if named[key] not in axes and not (key == "x" and "/" in named[key]):
            also = ", or a metric such as cost/exaflops" * (key == "x")
            hint = did_you_mean(named[key], axes)
            raise InputError(f"figure: {key} {named[key]} is no axis{hint} (of {', '.join(axes)}{also})")
    for key in ("xscale", "yscale"):
        if named.get(key, "linear") not in ("linear", "log"):
            raise InputError(f"figure: {key} {named[key]}: expected linear or log")
    figure = Figure(**named)
    _ = figure.published_lines  # those that there are
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
        said = "an axis, not a metric" if plain(name) in axes else "no metric"
        raise InputError(f"figure: {key} {name} is {said}; the name of one begins with {', '.join(sorted(METRICS))}")
    if name.startswith("test/") and "test" not in then:
        raise InputError(f"figure: {key} {name} needs a line such as `test --ckpt_path last` under then")


def are_numbers(labels: Collection[str]) -> bool:
    """Whether all labels of an axis are numbers."""
    try:
        return all(float(label) == float(label) for label in labels)
    except ValueError:
        return False


def _check_seeds(axis: str, labels: dict[str, Words]) -> None:
    """Refuse a seed that two labels share, whose equal runs would make the deviation too small."""
    seen: dict[str, str] = {}
    for label, words in labels.items():
        text = str(words)
        if "--seed_everything" in text and f"{{{axis}}}" not in text and seen.setdefault(text, label) != label:
            raise InputError(f"the axis {axis} has the same words at {seen[text]} and {label}; give each its seed")


def _check_names(cells: list[Cell]) -> None:
    names: set[str] = set()
    for cell in cells:
        if len(cell.name) > LONGEST:
            raise InputError(f"the folder {cell.name} would have {len(cell.name)} characters; shorten the labels")
        if cell.name.casefold() in names:
            raise InputError(f"two cells would share the folder {cell.name}; tell their labels apart by letters")
        names.add(cell.name.casefold())
