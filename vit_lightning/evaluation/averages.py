"""Averages of a net's scores on the tasks of a benchmark, never of a part of them."""

from collections.abc import Mapping, Sequence
from statistics import fmean

MEAN, GROUP_MEAN = "mean", "mean of groups"
"""The two averages of a benchmark. VTAB takes the first (arXiv 1910.04867); in the second, small groups weigh more."""


def averages(scores: Mapping[str, float], groups: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the mean of each group, that of all tasks, and that of the groups' means.

    An average is left out where a task that it needs has no score.

    Args:
        scores: Score by task; tasks of no group count nothing.
        groups: Tasks by group.
    """
    whole = {group: tasks for group, tasks in groups.items() if tasks and all(task in scores for task in tasks)}
    means = {group: fmean(scores[task] for task in tasks) for group, tasks in whole.items()}
    if not groups or len(means) < len(groups):
        return means
    everything = fmean(scores[task] for tasks in groups.values() for task in tasks)
    return {**means, MEAN: everything, GROUP_MEAN: fmean(means.values())}
