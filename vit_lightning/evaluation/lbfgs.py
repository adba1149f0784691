"""L-BFGS for smooth convex functions whose curvature is near 1 in every direction.

torch.optim.LBFGS begins with a step of length 1 / |gradient|, which wastes evaluations on such a function, and stops by
absolute changes alone.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

MEMORY = 10
"""Steps from which the curvature is told."""
ENOUGH = 1e-4
"""Share of the decrease that the slope promises, which a step must bring."""
STILL = 2
"""Steps in a row that hardly lower the value, after which the search ends."""


class Point(NamedTuple):
    """Where the search is: `(...)`, the value there, and its gradient."""

    at: Tensor
    value: float
    gradient: Tensor


class _Pair(NamedTuple):
    """A step, and by how much the gradient changed along it."""

    step: Tensor
    change: Tensor
    product: float


Function = Callable[[Tensor], tuple[float, Tensor]]


def minimise(function: Function, start: Tensor, steps: int, settled: float) -> Tensor:
    """Return where a function is least.

    Args:
        function: returns the value and the gradient at a point.
        start: where the search begins.
        steps: at most.
        settled: the search ends after two steps in a row that lower the value by less than this share of it, above 0.
    """
    here, pairs, still = Point(start, *function(start)), deque[_Pair](maxlen=MEMORY), 0
    for _ in range(steps):
        there = _stepped(function, here, _newton(here.gradient, pairs), settled)
        if there is None:
            break
        step, change = there.at - here.at, there.gradient - here.gradient
        if (product := _dot(step, change)) > 0:
            pairs.append(_Pair(step, change, product))
        still = still + 1 if here.value - there.value <= settled * abs(here.value) else 0
        here = there
        if still == STILL:
            break
    return here.at


def _newton(gradient: Tensor, pairs: deque[_Pair]) -> Tensor:
    """Return the gradient times the inverse curvature, as the pairs tell it (Nocedal and Wright, algorithm 7.4)."""
    found, shares = gradient.clone(), []
    for pair in reversed(pairs):
        shares.append(_dot(pair.step, found) / pair.product)
        found -= shares[-1] * pair.change
    if pairs:
        found *= pairs[-1].product / _dot(pairs[-1].change, pairs[-1].change)
    for pair, share in zip(pairs, reversed(shares), strict=True):
        found += (share - _dot(pair.change, found) / pair.product) * pair.step
    return found


def _stepped(function: Function, here: Point, newton: Tensor, settled: float) -> Point | None:
    """Return a point that is lower by enough; None: along this direction no step can be told from rounding."""
    part, slope = 1.0, -_dot(here.gradient, newton)
    while -part * slope > settled * abs(here.value) / 10:
        there = Point(at := here.at - part * newton, *function(at))
        if there.value <= here.value + ENOUGH * part * slope:
            return there
        lowest = -slope * part / (2 * (there.value - here.value - slope * part))  # of the parabola through both
        part *= min(0.5, max(0.1, lowest))
    return None


def _dot(one: Tensor, other: Tensor) -> float:
    return float(torch.dot(one.flatten(), other.flatten()))
