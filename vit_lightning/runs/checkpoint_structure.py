"""Whether a checkpoint is built as one is: looked at before anything is built after it, by every verb alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version
from torch import Tensor

from vit_lightning.errors import InputError, listing

TENSORS = ("state_dict", "current_model_state")
"""What holds tensors by name: the net to be used and, where that is an average, the one that is trained."""
OPTIONAL = {"hyper_parameters": dict, "loops": dict, "callbacks": dict, "epoch": int, "global_step": int}
"""What may lack, and of which type it is."""
STATE = {"loops": dict, "optimizer_states": list, "lr_schedulers": list, "callbacks": dict}
"""What a run needs to go on."""
PROGRESS = ("epoch_progress", "epoch_loop.batch_progress", "epoch_loop.state_dict")
"""What a run's state says at least of how far it came."""


def check_structure(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse a checkpoint whose parts are not what they must be.

    Args:
        path: where it lies.
        content: all of it; tensors may lack storage.

    Raises:
        InputError: naming the part.
    """
    for name, kind in OPTIONAL.items():
        value = content.get(name, kind())
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _damaged(path, f"its {name} is {value!r:.60}")
    try:
        Version(content.get("pytorch-lightning_version", "2"))
    except (InvalidVersion, TypeError) as error:
        version = content["pytorch-lightning_version"]
        raise _damaged(path, f"its pytorch-lightning_version is {version!r:.60}") from error
    for name in TENSORS:
        _check_tensors(path, name, content.get(name, {}))
    held, trained = (content.get(name, {}) for name in TENSORS)
    if trained and held.keys() != trained.keys():
        raise _damaged(path, f"its {' and '.join(TENSORS)} differ in {listing(sorted(held.keys() ^ trained.keys()))}")


def check_state(path: Path, content: Mapping[str, Any], is_ours: bool, is_sharded: bool) -> None:
    """Refuse a checkpoint from which a run cannot go on.

    Args:
        path: where it lies.
        content: all of it.
        is_ours: whether its model is one of ours, which has an optimiser.
        is_sharded: whether its optimiser's state lies elsewhere.

    Raises:
        InputError: it holds weights only, or is damaged.
    """
    if not content.keys() & STATE.keys() - {"loops"}:
        raise InputError(
            f"--ckpt_path {path} holds weights only, from which no run can go on; to begin with them, give "
            f"--model.weights {path} in its place"
        )
    for name, kind in STATE.items():
        if is_sharded and name == "optimizer_states":
            continue
        if not isinstance(content.get(name), kind):
            what = f"its {name} is {content[name]!r:.60}" if name in content else f"it lacks its {name}"
            raise _damaged(path, what)
    progress = content["loops"].get("fit_loop")
    if not isinstance(progress, dict) or not all(isinstance(progress.get(name), dict) for name in PROGRESS):
        raise _damaged(path, "its loops do not say how far its run came")
    if not is_sharded and not _are_states(content["optimizer_states"], is_ours):
        raise _damaged(path, "its optimizer_states are those of no optimiser")


def _check_tensors(path: Path, name: str, tensors: Any) -> None:
    if not isinstance(tensors, Mapping):
        raise _damaged(path, f"its {name} is {tensors!r:.60}")
    if others := [key for key, value in tensors.items() if not isinstance(value, Tensor) or not isinstance(key, str)]:
        value = tensors[others[0]]
        raise _damaged(path, f"{others[0]!s:.80} in its {name} is no tensor but {value!r:.60}")


def _are_states(states: list[Any], at_least_one: bool) -> bool:
    """Whether these are states of optimisers, each with its groups of parameters."""
    groups = [state.get("param_groups") if isinstance(state, dict) else None for state in states]
    return bool(states or not at_least_one) and all(
        isinstance(found, list) and found and all(isinstance(group, dict) and group.get("params") for group in found)
        for found in groups
    )


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path} is damaged: {what}; give another checkpoint")
