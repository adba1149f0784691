"""What a plan says of its table by task: which scores stand in it, their groups, and the published rows beside them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from vit_lightning.commands.sweep.words import check_keys, list_of, plain, text_of
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.averages import GROUP_MEAN, MEAN
from vit_lightning.evaluation.published import published
from vit_lightning.evaluation.scores import score_of
from vit_lightning.yaml_files import kind

KEYS = ("tasks", "y", "also", "plans", "groups", "published")


@dataclass(frozen=True)
class TaskTable:
    """A table with a column for each task, and a row for each net."""

    tasks: str
    """The axis of the tasks."""
    y: str
    """The metric: a share of images."""
    labels: list[str]
    """Tasks of the plan, and those of the groups that it leaves out."""
    also: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Further columns: a task and another metric of its runs."""
    plans: dict[str, str] = field(default_factory=dict)
    """Further columns: the mean of all tasks of another plan, which has a table too."""
    groups: dict[str, list[str]] = field(default_factory=dict)
    published: str | None = None
    """Name of the published figures."""

    @property
    def scores(self) -> list[str]:
        """Columns that hold a score."""
        return [*self.labels, *self.also, *self.plans]

    @property
    def averages(self) -> list[str]:
        """Columns that hold an average."""
        return [*self.groups, MEAN, GROUP_MEAN] if self.groups else []


def task_table(content: Any, axes: dict[str, list[str]], then: Collection[str]) -> TaskTable:
    """Read what stands under `table` in a plan.

    Raises:
        InputError: it is no table.
    """
    if not isinstance(content, dict):
        raise InputError(f"table must hold a mapping such as {{tasks: task, y: test/top1}}, not {kind(content)}")
    check_keys(content, KEYS, ("tasks", "y"), "table")
    tasks, y = plain(text_of("table, tasks", content["tasks"])), text_of("table, y", content["y"])
    if tasks not in axes:
        raise InputError(f"table: tasks {tasks} is no axis{did_you_mean(tasks, axes)} (of {', '.join(axes)})")
    also = {name: _also(name, text, axes[tasks]) for name, text in _mapping("also", content).items()}
    for metric in (y, *(metric for _, metric in also.values())):
        _check_share(metric, then)
    groups = {name: list_of(f"table, groups, {name}", each) for name, each in _mapping("groups", content).items()}
    grouped = [text_of(f"table, groups, {name}", task) for name, each in groups.items() for task in each]
    if twice := next((task for task in grouped if grouped.count(task) > 1), None):
        raise InputError(f"table, groups: {twice} stands in two groups, or twice in one")
    if groups and (stray := next((task for task in axes[tasks] if task not in grouped), None)):
        raise InputError(f"table, groups: the task {stray} is in no group{did_you_mean(stray, grouped)}")
    plans = {name: text_of(f"table, plans, {name}", plan) for name, plan in _mapping("plans", content).items()}
    benchmark = text_of("table, published", content["published"]) if "published" in content else None
    if benchmark is not None:
        published(benchmark)
    return TaskTable(tasks, y, list(dict.fromkeys([*grouped, *axes[tasks]])), also, plans, groups, benchmark)


def _mapping(key: str, content: dict[str, Any]) -> dict[str, Any]:
    found = content.get(key, {})
    if not isinstance(found, dict):
        raise InputError(f"table, {key}: expected a mapping of names, not {kind(found)}")
    return found


def _also(name: str, text: Any, tasks: Collection[str]) -> tuple[str, str]:
    task, _, metric = text_of(f"table, also, {name}", text).partition(" ")
    if task not in tasks or not metric:
        hint = did_you_mean(task, tasks)
        raise InputError(
            f"table, also, {name}: {text!r}: expected a task and a metric, such as imagenet test/real{hint}"
        )
    return task, metric


def _check_share(metric: str, then: Collection[str]) -> None:
    score = score_of(metric)
    if score is None or not score.is_share:
        raise InputError(f"table: {metric} is no share of images, such as test/top1")
    if metric.startswith("test/") and "test" not in then:
        raise InputError(f"table: {metric} needs a line such as `test --ckpt_path last` under then")
