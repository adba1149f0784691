"""The words of a plan: what fits, labels of axes and the verbs that follow add to a command line."""

import shlex
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.yaml_files import kind

SCORING = ("validate", "test", "predict")
CHECKPOINTS = ("last", "best")
SWEEP_FLAGS = {
    "--ckpt_path": "goes on with unfinished runs by itself",
    "--trainer.default_root_dir": "puts the runs below --runs",
    "--trainer.logger": "reads the metrics.csv of every run",
}
"""Flags of a fit that a plan leaves to the sweep, and why."""
Words = list[str] | dict[str, list[str]]
"""What a label adds to the command line: everywhere the same, or by the label of another axis."""


def axis_of(axis: str, labels: Any) -> dict[str, Words]:
    """Words that each label of an axis adds to the command line."""
    if not labels:
        raise InputError(f"the axis {axis} is empty; give it labels")
    if isinstance(labels, dict):
        return {label: words_of(f"{axis}, {label}", words) for label, words in labels.items()}
    if not axis.startswith("-"):
        raise InputError(
            f"the axis {axis} must hold labels with their words, such as `small: --model.net.width 64`; "
            "a list of values goes to an axis that is a flag"
        )
    values = [text_of(axis, value) for value in list_of(axis, labels)]
    alike = [_as_number(value) for value in values]
    if twice := next((value for value, same in zip(values, alike, strict=True) if alike.count(same) > 1), None):
        raise InputError(f"the axis {axis} has {twice} twice")
    return {value: flags_of(axis, f"{axis} {shlex.quote(value)}") for value in values}


def _as_number(value: str) -> float | str:
    """Return a value so that 0 and 00, or 0.1 and 1e-1, are alike."""
    try:
        return float(value)
    except ValueError:
        return value


def axis_followed(where: str, labels: Collection[str], axes: dict[str, dict[str, Words]]) -> str:
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


def words_of(where: str, given: Any) -> Words:
    """Split the words of a label, given once or by the label of another axis."""
    if isinstance(given, dict):
        return {label: flags_of(f"{where}, {label}", words) for label, words in given.items()}
    return flags_of(where, given)


def then_of(text: Any) -> list[str]:
    """Split a line that follows each fit: a verb that scores, its flags, and the checkpoint."""
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


def flags_of(where: str, text: Any) -> list[str]:
    """Split words that are the flags of a fit."""
    words = _split(where, text)
    if words and not words[0].startswith("-"):
        raise InputError(f"{where}: expected flags of fit, such as -c experiments/digits.yaml, not {words[0]!r}")
    for word in words:
        if (flag := word.partition("=")[0]) in SWEEP_FLAGS:
            raise InputError(f"{where}: leave out {flag}: a sweep {SWEEP_FLAGS[flag]}")
    return words


def _split(where: str, text: Any) -> list[str]:
    text = text_of(where, text)
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{where}: {text!r} has an open quote or ends in a backslash") from error


def text_of(where: str, value: Any) -> str:
    """Return a value that must be text."""
    if not isinstance(value, str):
        raise InputError(f"{where}: expected text, not {kind(value)}; quote what begins with a bracket")
    return value


def list_of(where: str, value: Any) -> list[Any]:
    """Return a value that must be a list."""
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, such as [a, b], not {value!r}")
    return value


def check_keys(content: dict[str, Any], known: Collection[str], needed: Collection[str], what: str) -> None:
    """Refuse unknown keys, and a content that lacks one that is needed."""
    if unknown := next((key for key in content if key not in known), None):
        raise InputError(
            f"{what} has the unknown key {unknown!r}{did_you_mean(unknown, known)} (known: {', '.join(known)})"
        )
    if missing := next((key for key in needed if not content.get(key)), None):
        raise InputError(f"{what} lacks {missing}")


def plain(axis: str) -> str:
    """Return the name of an axis without the dashes of a flag."""
    return axis.lstrip("-")
