"""Bounds of a metric, beyond which a run fails."""

import re
from collections.abc import Collection, Mapping

from lightning.pytorch import Callback, LightningModule, Trainer

from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.evaluation.scores import SCORES, Better, score_of

SPLITS = {"fit": "val", "validate": "val", "test": "test"}
"""The split that a verb scores."""
BOUNDED: dict[str, Better] = {"at_least": "max", "at_most": "min"}
"""Which value is the best of a score that a flag bounds."""


class Require(Callback):
    """Fail a fit whose final metric falls short, so that a smoke run proves that something was learnt.

    Fails a validation or a test likewise, of whose split the metric is. A fast_dev_run, which learns nothing, passes.

    Args:
        metric: Name of a logged metric, such as val/top1.
        at_least: Smallest value that counts as success; of an accuracy and the like, a share between 0 and 1.
        at_most: Greatest value that does, such as of a loss.

    Raises:
        InputError: such a share is none, or there is no bound.
    """

    def __init__(self, metric: str, at_least: float | None = None, at_most: float | None = None) -> None:
        self.bounds = {
            name: bound for name, bound in (("at_least", at_least), ("at_most", at_most)) if bound is not None
        }
        if not self.bounds:
            raise InputError(f"Require bounds {metric} by nothing; give at_least or at_most")
        for name, bound in self.bounds.items():
            _check_share(metric, name, bound)
        self.metric = metric
        self._trains = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._trains = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._check(trainer, "" if self._trains else ", since nothing was left to train")

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == "validate" and self.metric.startswith("val/"):
            self._check(trainer)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.metric.startswith("test/"):
            self._check(trainer)

    def _check(self, trainer: Trainer, because: str = "") -> None:
        """Raise an error that names every bound of this split that does not hold."""
        split = self.metric.partition("/")[0]
        others = [one for one in bounds(trainer) if one is not self and one.metric.partition("/")[0] == split]
        said = [text for one in (self, *others) if (text := one.falls_short(trainer, because))]
        if said:
            raise InputError("; ".join(said))

    def falls_short(self, trainer: Trainer, because: str = "") -> str:
        """Return a sentence that says by how much the metric falls short; empty: it does not."""
        if trainer.fast_dev_run:  # type: ignore[attr-defined]  # set by Lightning from outside
            return ""
        value = trainer.callback_metrics.get(self.metric)
        missed = [name for name, bound in self.bounds.items() if value is None or not _holds(name, float(value), bound)]
        if not missed:
            return ""
        near = did_you_mean(_last(self.metric), map(_last, trainer.callback_metrics)) if value is None else ""
        got = f"was not logged{because}" if value is None else f"ended at {float(value):.4f}"
        asked = " and ".join(f"{name.replace('_', ' ')} {self.bounds[name]}" for name in missed)
        return f"{self.metric} {got}, {asked} is required{near}"


def bounds(trainer: Trainer) -> list[Require]:
    """Return the bounds that a trainer's run is held to."""
    return [one for one in trainer.callbacks if isinstance(one, Require)]


def required(
    verb: str,
    bounds: Mapping[str, float] | None,
    is_typed: bool = True,
    others: Collection[str] | None = None,
    flag: str = "at_least",
) -> list[Callback]:
    """Return what fails a verb one of whose scores is beyond its bound.

    Args:
        verb: Name of the verb.
        bounds: Bounds by score, such as top1 or test/top1.
        is_typed: Whether the bounds are those of a flag. Those of a file, which serves all verbs, are left to the verbs
            that have such a score.
        others: Further sets, whose scores have their names, where nobody but us logs scores; None: others may.
        flag: Which bounds they are: at_least or at_most.

    Raises:
        InputError: the verb has no scores, or one of these is none of its split or bounded where it is best.
    """
    if bounds and verb not in SPLITS:
        if not is_typed:
            return []
        raise InputError(f"--{flag} is for {', '.join(SPLITS)}, which score; drop it for {verb}")
    found: list[Callback] = []
    for name, bound in (bounds or {}).items():
        split, last = SPLITS[verb], _last(name)
        if name.startswith(("val/", "test/")) and not name.startswith(f"{split}/"):
            if not is_typed:
                continue
            raise InputError(f"--{flag} {name}: {verb} scores {split}; give {last}, or {split}/{last}")
        if score_of(name) is None and (hint := _meant(last, others)):
            raise InputError(f"--{flag} {name}: no score has this name{hint}")
        if (score := score_of(name)) and BOUNDED[flag] != score.better:
            more, other = ("less", "at_most") if score.better == "min" else ("more", "at_least")
            raise InputError(f"--{flag} {name}: {more} is better of it; give --{other} '{{{name}: {bound:g}}}'")
        found.append(Require(name if name.startswith(f"{split}/") else f"{split}/{name}", **{flag: bound}))
    return found


def _holds(name: str, value: float, bound: float) -> bool:
    return value >= bound if name == "at_least" else value <= bound


def _check_share(metric: str, name: str, bound: float) -> None:
    """Refuse a bound, such as 90 for 90 %, that no share of the images reaches, or that every one does."""
    score = score_of(metric)
    if score is not None and score.is_share and not 0 <= bound <= 1:
        meant = f"for {bound:g} % give {bound / 100:g}" if 1 < bound <= 100 else "give 0.9, say"
        raise InputError(f"{name} {bound:g} of {metric} is no share, which lies between 0 and 1; {meant}")


def _meant(name: str, others: Collection[str] | None) -> str:
    """Suggest the score that a name means; one that is only near may be that of a callback, or of a further set."""
    if known := _spelled_otherwise(name):
        return f"; did you mean {known}?"
    return did_you_mean(name, SCORES) if others is not None and name not in others else ""


def _spelled_otherwise(name: str) -> str | None:
    """Return the score that a name means which differs from it in signs and large letters alone."""
    plain = re.sub(r"[\W_]", "", name).lower()
    return next((known for known in SCORES if known.replace("_", "") == plain), None)


def _last(name: str) -> str:
    return name.rpartition("/")[2]
