"""What is known of a run, whatever file has told it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vit_lightning.commands.report.state import State
from vit_lightning.commands.report.tables import ClassRow, Matrix, Mistake, Point, Validated


@dataclass
class Run:
    """What a run folder tells."""

    folder: Path
    configs: list[dict[str, Any]] = field(default_factory=list)
    """What it was told, in the order of its parts."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Where its first part ran."""
    later_environments: list[dict[str, Any]] = field(default_factory=list)
    """Where it went on, part by part."""
    is_told_from_the_start: bool = False
    """Whether the first config is that of the first part, which alone says what net the run began with."""
    plan: list[tuple[str, str]] = field(default_factory=list)
    """What was said before the first step of its last part: a word, and the rest of the line."""
    resumed_at: list[int] = field(default_factory=list)
    """Optimiser steps that had been made at its resumes, as far as its plans say."""
    curves: dict[str, list[Point]] = field(default_factory=dict)
    """Values by optimiser step, of each metric."""
    state: State = field(default_factory=State)
    """What its checkpoints say."""
    log_is_whole: bool = False
    """Whether the log is there, and no row of it is damaged."""
    splits: dict[str, Any] = field(default_factory=dict)
    """Which images trained and were held out, by split, where these are published; else which validated."""
    validated: Validated | None = None
    """The validation images of its own table of a split; None: it has none, or these are not in it."""
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each file of scores holds, by the beginning of its name."""
    classes: list[ClassRow] = field(default_factory=list)
    confusion: Matrix | None = None
    mistakes: list[Mistake] | None = None
    """None: no table of them could be read."""
    tables_of: str = ""
    """Beginning of the names of the files that classes, confusion and mistakes come from; empty: there are none."""
    diverged_at: int | None = None
    """Optimiser step, counted from 1, whose loss or gradient was not finite."""
    ended: str = ""
    """Where and why it ended before its time; empty: nothing says so."""
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
        """Return the last value of a metric: what was logged, or what the newest checkpoint says of a later step."""
        points, kept = self.curves.get(metric), self.state.cost.get(metric)
        if kept is not None and self.state.steps > (points[-1][0] + 1 if points else 0):
            return kept
        return points[-1][1] if points else None

    @property
    def resumes(self) -> int:
        """How often it was resumed, as far as its files say."""
        return max(len(self.configs) - self.is_told_from_the_start, len(self.later_environments))

    @property
    def logged_steps(self) -> int:
        """Optimiser steps that were logged."""
        return 1 + max((points[-1][0] for name, points in self.curves.items() if is_of_a_step(name)), default=-1)

    @property
    def steps(self) -> int:
        """Optimiser steps that are known to have been made."""
        return max(self.logged_steps, self.state.steps)


def as_dict(value: Any) -> dict[str, Any]:
    """Return a mapping, empty in place of anything else."""
    return value if isinstance(value, dict) else {}


def is_of_a_step(metric: str) -> bool:
    """Whether a metric is logged under the step it is of: the cost at the end stands under the one after it."""
    return not metric.startswith("cost/")
