"""Of two nets in one file the average, or the teacher, is taken rather than what was trained; the report says so."""

import re
from collections.abc import Collection
from typing import Any

from torch import Tensor

# Under which names training codes keep the average of a net's weights, and the weights that were trained.
DICTS = (
    ("state_dict", "current_model_state"),
    ("state_dict_ema", "state_dict"),
    ("model_ema", "model"),
    ("ema_state_dict", "state_dict"),
    ("ema", "model"),
    ("teacher", "student"),
    ("target_encoder", "encoder"),
)
# The same, where both nets lie in one dict under these parts of their tensors' names.
PREFIXES = (
    ("teacher", "student"),
    ("teacher_model", "student_model"),
    ("model_ema", "model"),
    ("ema_model", "model"),
    ("ema", "model"),
    ("momentum_encoder", "base_encoder"),
    ("target_encoder", "encoder"),
)
RAW = "--raw (of fit: --model.weights_raw true)"
# Where training codes put the tensors of the only net.
NESTED: tuple[str, ...] = ("state_dict", "model", "teacher", "module", "model_state_dict")
NESTED += ("state_dict_ema", "model_ema", "ema_state_dict", "ema", "student")


def innermost(content: dict[str, Any], raw: bool) -> tuple[dict[str, Any], list[str]]:
    """Returns the dict of tensors inside what a training code saved, and notes about the net that was chosen.

    Args:
        content: what was saved.
        raw: of two nets take what was trained rather than its average.
    """
    notes: list[str] = []
    while True:
        inside = {key for key, value in content.items() if _has_tensors(value)}
        both = next((both for both in DICTS if inside.issuperset(both)), None)
        key = both[raw] if both else next((key for key in NESTED if key in inside), None)
        if key is None:
            return content, notes
        if both:
            notes.append(_note(both, raw))
        content = content[key]


def without_the_other(names: Collection[str], raw: bool) -> tuple[dict[str, str], list[str]]:
    """Returns the tensors of the net that is not taken, with the reason, and notes about the one that is.

    Args:
        names: all tensors of a dict or file.
        raw: of two nets take what was trained rather than its average.
    """
    for both in PREFIXES:
        average, trained = (re.compile(rf"(.+\.)?{part}\.") for part in both)
        averaged = [name for name in names if average.match(name)]
        nets = averaged, [name for name in names if trained.match(name) and name not in set(averaged)]
        if all(nets):
            return dict.fromkeys(nets[not raw], f"only {both[raw]} is taken"), [_note(both, raw)]
    return {}, []


def _has_tensors(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(one, Tensor) or _has_tensors(one) for one in value.values())


def _note(both: tuple[str, str], raw: bool) -> str:
    taken, other = both[raw], both[not raw]
    if raw:
        return f"{taken} was trained and is taken, its average {other} is not: leave out {RAW} to take that"
    return f"{taken} is the average and is taken, not {other}: {RAW} takes that"
