"""The callbacks that are on without being asked for: for which verbs, and why."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch import Callback
from lightning.pytorch.callbacks.progress import ProgressBar

from vit_lightning.callbacks.class_tables import ClassTables
from vit_lightning.callbacks.final_validation import FinalValidation
from vit_lightning.callbacks.finite_guard import FiniteGuard
from vit_lightning.callbacks.hyper_parameters import HyperParameters
from vit_lightning.callbacks.learning_rates import LearningRates
from vit_lightning.callbacks.monitors import Monitors
from vit_lightning.callbacks.pictures import TrainingPictures
from vit_lightning.callbacks.plan import RunPlan
from vit_lightning.callbacks.predictions import Predictions
from vit_lightning.callbacks.progress import PlainProgress, RunBar
from vit_lightning.callbacks.score_file import ScoreFile
from vit_lightning.callbacks.score_table import SPLITS, ScoreTable
from vit_lightning.callbacks.skipped_images import SkippedImages
from vit_lightning.callbacks.split_record import SplitRecord
from vit_lightning.callbacks.summary import RunSummary
from vit_lightning.callbacks.throughput import Throughput
from vit_lightning.callbacks.timely_end import TimelyEnd
from vit_lightning.runs.random_state import RandomState
from vit_lightning.terminal import is_live


@dataclass(frozen=True)
class Setting:
    """What the choice of callbacks depends on.

    Args:
        verb: Name of the verb.
        trainer: The trainer's config.
        given: Callbacks that the user asks for.
        folder: Run folder; None where nothing is kept.
        predictions: File for predictions.
        logs: Whether there is a logger.
        watching: Callbacks that watch a metric, by the name of their flags.
        undirected: Those of them whose metric has no known direction.
        record: Makes the callback that writes config and environment into the run folder.
        checkpoint: The file that --ckpt_path names.
        source: What the data are known by.
        is_own: Whether they are those of the run.
        pictures: Whether TensorBoard gets pictures.
    """

    verb: str
    trainer: Mapping[str, Any]
    given: Collection[Callback]
    folder: Path | None
    predictions: Path
    logs: bool
    watching: Mapping[str, Callback]
    undirected: Collection[str]
    record: Callable[[], Callback]
    checkpoint: str | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    is_own: bool = True
    pictures: bool = True

    @property
    def trains(self) -> bool:
        return self.verb == "fit"

    @property
    def plans(self) -> bool:
        """Whether what a fit checks before its first step is checked: doctor and plan begin one."""
        return self.verb in ("fit", "doctor", "plan")

    @property
    def is_kept(self) -> bool:
        """Whether the run has a folder: a fast_dev_run has none."""
        return self.trains and not self.trainer.get("fast_dev_run")

    @property
    def shows_own_progress(self) -> bool:
        """Whether a bar of the user's shows how far a run is."""
        return any(isinstance(callback, ProgressBar) for callback in self.given)

    @property
    def wants_bar(self) -> bool:
        """Whether a bar may be drawn: without one, the lines of a log stand in a terminal too."""
        return self.trainer.get("enable_progress_bar") is not False


class Default(NamedTuple):
    """A callback, when it is on, and why."""

    make: Callable[[Setting], Callback]
    when: Callable[[Setting], bool]
    why: str


def _progress(setting: Setting) -> Callback:
    return RunBar() if is_live() and setting.wants_bar else PlainProgress()


def _summary(setting: Setting) -> Callback:
    assert setting.folder is not None
    return RunSummary(setting.folder)


def _splits(setting: Setting) -> Callback:
    assert setting.folder is not None
    return SplitRecord(setting.folder)


DEFAULTS = (
    Default(
        _progress, lambda s: not s.shows_own_progress, "shows how far a run is: a bar in a terminal, lines in a log"
    ),
    Default(lambda s: TimelyEnd(), lambda s: True, "ends a failed run within seconds, whatever its workers do"),
    Default(lambda s: SkippedImages(), lambda s: True, "says how many images could not be read"),
    Default(
        lambda s: ScoreFile(s.folder, s.checkpoint, s.source, s.is_own),
        lambda s: s.verb in ("validate", "test") and s.folder is not None,
        "writes validate.json or test.json into the run folder",
    ),
    Default(
        lambda s: ClassTables(s.folder, s.checkpoint, s.source, s.is_own),
        lambda s: s.verb in SPLITS,
        "writes scores by class and the confusion matrix beside the run",
    ),
    Default(lambda s: ScoreTable(), lambda s: s.verb in SPLITS, "prints the scores of each set, once they are kept"),
    Default(
        lambda s: Predictions(s.predictions, s.checkpoint), lambda s: s.verb == "predict", "writes predictions.csv"
    ),
    Default(
        lambda s: Monitors(s.watching, s.undirected), lambda s: s.plans, "refuses a metric that nobody logs, at once"
    ),
    Default(
        lambda s: RunPlan(s.folder, s.is_kept), lambda s: s.plans, "says what will be trained before the first step"
    ),
    Default(lambda s: FinalValidation(), lambda s: s.trains, "validates the last weights when a run ends in between"),
    Default(lambda s: RandomState(), lambda s: s.trains, "lets a resumed run draw the numbers of an uninterrupted one"),
    Default(lambda s: Throughput(), lambda s: s.trains, "logs images per second, waiting for data, and cost"),
    Default(lambda s: s.record(), lambda s: s.is_kept, "writes config.yaml and env.json into the run folder"),
    Default(_splits, lambda s: s.is_kept and s.folder is not None, "writes which images were trained on and held out"),
    Default(lambda s: HyperParameters(), lambda s: s.is_kept and s.logs, "hands the run's settings to its loggers"),
    Default(lambda s: LearningRates(), lambda s: s.is_kept and s.logs, "logs the learning rate of every step"),
    Default(lambda s: FiniteGuard(s.folder), lambda s: s.trains, "ends a run whose loss is not finite"),
    Default(
        lambda s: TrainingPictures(),
        lambda s: s.pictures and s.is_kept and s.logs,
        "shows the first images, the confusion matrix and the gradient's norm",
    ),
    Default(_summary, lambda s: s.is_kept and s.folder is not None, "says what a run has come to, and what comes next"),
)


def default_callbacks(setting: Setting) -> list[Callback]:
    """Callbacks that are added to those that the user asks for, in the order in which they run."""
    return [default.make(setting) for default in DEFAULTS if default.when(setting)]
