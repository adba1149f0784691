"""Which of the runs each job of a job array does."""

import re

from vit_lightning.commands.sweep.choice import at, open_axes
from vit_lightning.commands.sweep.plan import Cell, SweepPlan
from vit_lightning.errors import InputError


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
    cells = [(plan, cell) for plan in plans for cell in (*(plan.choice.plan.cells if plan.choice else ()), *plan.cells)]
    keys = [_choice_of(plan, cell) for plan, cell in cells]
    if len(set(keys)) < parts:
        keys = [_run_of(plan, cell) for plan, cell in cells]
    mine = set(list(dict.fromkeys(keys))[part - 1 :: parts])
    return {cell.place for (_, cell), key in zip(cells, keys, strict=True) if key in mine}


def _choice_of(plan: SweepPlan, cell: Cell) -> tuple[str, ...]:
    return (plan.name, *at(cell, plan.choice.per)) if plan.choice else (cell.place,)


def _run_of(plan: SweepPlan, cell: Cell) -> tuple[str, ...]:
    """Key of a run, whichever setting is chosen for it."""
    return (cell.plan, *at(cell, open_axes(plan))) if cell.plan == plan.name else (cell.place,)
