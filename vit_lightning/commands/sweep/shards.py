"""Which of the runs each job of a job array does."""

import re

from vit_lightning.commands.sweep.choice import at, open_axes
from vit_lightning.commands.sweep.plan import Cell, SweepPlan
from vit_lightning.commands.sweep.words import plain
from vit_lightning.errors import InputError, did_you_mean


def shard_of(text: str) -> tuple[int, int]:
    """Return i and n of i/n."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= part <= parts:
        raise InputError(f"--shard {text}: expected i/n with i from 1 to n, such as 1/4")
    return part, parts


def dealt(plans: list[SweepPlan], part: int, parts: int) -> set[str]:
    """Return the places of the runs of a part, those of every stage.

    A choice and the runs that follow it stay in one part, which then waits for no other, unless that would leave parts
    without work.
    """
    cells = _cells(plans)
    keys = [_choice_of(plan, cell) for plan, cell in cells]
    if len(set(keys)) < parts:
        keys = [_run_of(plan, cell) for plan, cell in cells]
    mine = set(list(dict.fromkeys(keys))[part - 1 :: parts])
    return {cell.place for (_, cell), key in zip(cells, keys, strict=True) if key in mine}


def picked(plans: list[SweepPlan], words: list[str]) -> set[str]:
    """Return the places of the runs, of every stage, that have the labels which `--only` names as AXIS=LABEL,LABEL.

    Raises:
        InputError: no plan has the axis, or the axis not the label.
    """
    wanted: dict[str, list[str]] = {}
    for word in words:
        axis, sign, labels = word.partition("=")
        known = {name: plan.axes[name] for plan in plans for name in open_axes(plan)}
        if not sign or plain(axis) not in known:
            hint = did_you_mean(plain(axis), known)
            raise InputError(f"--only {word}: expected AXIS=LABEL,LABEL of {', '.join(known)}{hint}")
        wanted[plain(axis)] = labels.split(",")
        if stray := next((label for label in labels.split(",") if label not in known[plain(axis)]), None):
            hint = did_you_mean(stray, known[plain(axis)])
            raise InputError(f"--only {word}: the axis {axis} has no label {stray}{hint}")
    return {
        cell.place
        for _, cell in _cells(plans)
        if all(cell.labels[axis] in labels for axis, labels in wanted.items() if axis in cell.labels)
    }


def _cells(plans: list[SweepPlan]) -> list[tuple[SweepPlan, Cell]]:
    """Runs of every stage, each with its plan."""
    return [(plan, cell) for plan in plans for cell in (*(plan.choice.plan.cells if plan.choice else ()), *plan.cells)]


def _choice_of(plan: SweepPlan, cell: Cell) -> tuple[str, ...]:
    return (plan.name, *at(cell, plan.choice.per)) if plan.choice else (cell.place,)


def _run_of(plan: SweepPlan, cell: Cell) -> tuple[str, ...]:
    """Key of a run, whichever setting is chosen for it."""
    return (cell.plan, *at(cell, open_axes(plan))) if cell.plan == plan.name else (cell.place,)
