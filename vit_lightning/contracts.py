"""What models and data offer each other, callbacks and verbs, beside Lightning's own interface.

Floors that may not import each other's classes ask for these instead: a model or datamodule from elsewhere, which
offers less, is trained all the same.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from torch import Tensor

if TYPE_CHECKING:
    from pathlib import Path

    from vit_lightning.models import NetConfig


class LearningRate(Protocol):
    """The learning rate over a run, in optimiser steps."""

    decay: str
    """Its shape after warm-up."""
    warmup_steps: int

    def check(self, total: int) -> None:
        """Refuse a run of `total` steps that the rate does not fit."""


@runtime_checkable
class RecipeTrained(Protocol):
    """A LightningModule whose net a recipe trains; its hyper-parameters hold `image_size` and `num_classes`."""

    config: "NetConfig"
    schedule: "LearningRate"
    weights: str | None
    """Where its net's first weights come from, if from elsewhere."""
    gradient_norms: Tensor | None
    """Norms of the last step's gradients, for clipping, where a callback has taken them."""

    @property
    def objective(self) -> str:
        """What training minimises, in words."""

    @property
    def engine(self) -> str:
        """How its training steps reach the device, in words."""

    @property
    def score_names(self) -> Sequence[str]:
        """Names of the scores that it logs of each split."""

    def smooth(self, targets: Tensor) -> Tensor:
        """Return smoothed targets of one-hot ones `(b, classes)`."""


@runtime_checkable
class LogsScores(Protocol):
    """A model or callback that says which scores it logs."""

    @property
    def score_names(self) -> Sequence[str]:
        """Names of the scores that it logs of each split that it scores."""


@runtime_checkable
class SmoothsTargets(Protocol):
    """A model that smooths labels: the data ask it to before they mix them, after which its loss no longer can."""

    def smooth(self, targets: Tensor) -> Tensor:
        """Return smoothed targets of one-hot ones `(b, classes)`."""


@runtime_checkable
class KnowsPixels(Protocol):
    """A model that keeps what the images of its training were, which hold where its data state nothing else."""

    @property
    def pixel_facts(self) -> tuple[int | None, tuple[float, float] | None]:
        """Channels, and the values that became black and white; None: nobody has stated them."""


@runtime_checkable
class KnowsRun(Protocol):
    """Data that keep something in the folder of their run."""

    run_folder: "Path | None"
    """The folder of the run that begins, or whose checkpoint is read; None: there is none."""
    ignores_split: bool
    """Whether the run's split is left out of account."""


@runtime_checkable
class PredictsFrom(Protocol):
    """Data of which predict may leave out the first images, whose rows a stopped run has written."""

    predict_from: int
    """Number of the first image that is predicted."""

    @property
    def predict_set(self) -> Any:
        """The whole set that is predicted; None if there is none."""


@runtime_checkable
class ShowsFeatures(Protocol):
    """A model whose `predict_step` returns features `(b, d)` behind the probabilities, if they are wanted."""

    wants_features: bool


@runtime_checkable
class ImageData(Protocol):
    """Data with known classes, as a model, a callback or a verb reads them."""

    batch_size: int
    """Images per device and step."""
    train_set: Any
    """The whole training set, of which a run may use a part; None before `setup`, or if there is none."""
    further_sets: Mapping[str, Any]
    """Sets that are scored beside the validation and test sets, by name."""

    @property
    def class_names(self) -> Sequence[str]:
        """A name per class, in the order of the labels; empty for unlabelled images."""
