"""What the checkpoints of a run say of it, whatever its logs have kept: steps, scores, cost and net."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import FACTS, LAST, NEW, PREVIOUS, is_sharded

BEST = "best.ckpt"
NEWEST = (NEW, LAST, PREVIOUS)
"""Names of the newest state, that which counts first."""


@dataclass
class State:
    """What checkpoints say; what none of them does is empty."""

    steps: int = 0
    """Optimiser steps of the newest one."""
    cost: dict[str, float] = field(default_factory=dict)
    """What the run had cost by then, by metric."""
    net: dict[str, Any] = field(default_factory=dict)
    """Every field of the net."""
    monitor: str = ""
    best: float | None = None
    """Best monitored score of all validations."""
    best_steps: int | None = None
    """Optimiser steps of best.ckpt."""


def state_of(folder: Path) -> State:
    """Read the checkpoints of a run as far as they can be read; no code of theirs runs."""
    place = folder / folders.CHECKPOINTS
    newest = next((facts for name in NEWEST if (facts := _facts(place / name))), None)
    best = _facts(place / BEST)
    found = [facts for facts in (newest, best) if facts]
    if not found:
        return State()
    last = max(found, key=_steps)  # of equals the first
    monitored = _callback(best or last, "ModelCheckpoint")
    return State(
        steps=_steps(last),
        cost=_cost(last),
        net=dict(_mapping(_mapping(last.get("hyper_parameters")).get("net"))),
        monitor=str(monitored.get("monitor") or ""),
        best=_number(monitored.get("best_model_score")),
        best_steps=_steps(best) if best else None,
    )


def _facts(path: Path) -> Mapping[str, Any] | None:
    """Return what a checkpoint holds, whose tensors are not read; None: it is not there, or no such file."""
    import torch

    file = path / FACTS if is_sharded(path) else path
    if not file.is_file():
        return None
    try:
        with file.open("rb") as opened:
            content = torch.load(str(file), map_location="cpu", weights_only=True, mmap=_is_zip(opened.read(4)))
    except Exception:  # damaged bytes fail in ways of their own, which another note tells
        return None
    return content if isinstance(content, Mapping) else None


def _is_zip(begins: bytes) -> bool:
    return begins == b"PK\x03\x04"


def _steps(facts: Mapping[str, Any]) -> int:
    steps = facts.get("global_step")
    return steps if isinstance(steps, int) else 0


def _callback(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the state of the first callback whose key begins with a name."""
    states = _mapping(facts.get("callbacks"))
    return next((_mapping(state) for key, state in states.items() if str(key).startswith(name)), {})


def _cost(facts: Mapping[str, Any]) -> dict[str, float]:
    figures = {name: _number(value) for name, value in _callback(facts, "Throughput").items()}
    return {f"cost/{name}": value for name, value in figures.items() if value}  # 0: nobody has measured it


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None
