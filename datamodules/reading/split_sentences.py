"""What a run says of a split: classes that it does not show, images of each class, and how it differs from another."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from datamodules.reading.drawn_split import LEFT_OUT, NAMES, TEST, TRAIN, VAL
from vit_lightning.data.image_set import ImageSet, label_of
from vit_lightning.errors import one_line
from vit_lightning.runs.folders import SPLIT_TABLE

LISTED = 12
"""Classes whose images in each split are said."""
SETTINGS = ("val_fraction", "test_fraction", "split_seed")
"""What a drawn split depends on."""


def absent_classes(classes: np.ndarray, splits: np.ndarray, drawn: Sequence[int], known: Sequence[str]) -> list[str]:
    """Say which classes some splits do not show.

    Args:
        classes: a class per image, -1 for none.
        splits: the split of each image.
        drawn: the splits that are looked at.
        known: names of all classes.
    """
    said = []
    for split in drawn:
        lacking = set(classes.tolist()) - set(classes[splits == split].tolist())
        absent = [name for number, name in enumerate(known) if number in lacking]
        if absent:
            kind = "validation" if split == VAL else "test"
            some = ", ".join(map(one_line, absent[:5])) + ", ..." * (len(absent) > 5)
            said.append(f"{len(absent)} of {len(known)} classes have no {kind} image, since they are small: {some}")
    return said


def images_of_classes(images: ImageSet, classes: np.ndarray, splits: np.ndarray, known: Sequence[str]) -> str:
    """Say how many images of each class a split of groups has come to, which cannot be chosen at will.

    Args:
        images: all images.
        classes: a class per image; of several the rarest.
        splits: the split of each image.
        known: names of all classes.
    """
    counts = np.zeros((len(known), len(NAMES)), int)
    for place, split in enumerate(splits.tolist()):
        if split == LEFT_OUT:
            continue
        label = np.asarray(label_of(images, place))  # of several labels, every class is counted
        shown = np.flatnonzero(label > 0) if label.ndim else classes[place]
        counts[shown, split] += 1
    said = [
        f"{one_line(name)} {' + '.join(map(str, row))}"
        for name, row in zip(known[:LISTED], counts.tolist(), strict=False)
    ]
    more = f" and {len(known) - LISTED} classes more" * (len(known) > LISTED)
    return f"images of {', '.join(said)}{more}"


def counts_of_groups(groups: Sequence[str], splits: np.ndarray) -> str:
    """Return how many groups each split has."""
    return " + ".join(
        str(len({group for group, found in zip(groups, splits.tolist(), strict=True) if found == split}))
        for split in (TRAIN, VAL, TEST)
    )


def other_split(then: Mapping[str, Any], now: Mapping[str, Any], given: Mapping[str, Any], trains: bool) -> str | None:
    """Say how a split differs from that of a checkpoint, and what to do; None where it is the same.

    Args:
        then: what the checkpoint keeps of its split.
        now: as much of the split that was made here.
        given: the settings that the user gave, None for those that are unset.
        trains: whether the net is to train on.
    """
    changed = [
        f"--data.{name} {given[name]} (the checkpoint's: {then[name]})"
        for name in SETTINGS
        if None not in (given[name], then[name]) and given[name] != then[name]
    ]
    if then["digest"] == now["digest"] and not changed:
        return None
    what = " and ".join(changed) or (
        f"{_counts(now)} here, {_counts(then)} in the checkpoint, so files were added, removed or renamed, or the "
        "split was drawn with other flags"
    )
    drawn = " ".join(f"--data.{name} {then[name]}" for name in SETTINGS if then[name] is not None)
    return (
        f"the checkpoint was trained with another split: {what}; give {drawn or 'the same --data.split_file'} and "
        f"the same files, or the run's {SPLIT_TABLE} as --data.split_file"
        + ("; or begin a new run" if trains else "; to score other data whole, give --data.split_file null")
    )


def _counts(facts: Mapping[str, Any]) -> str:
    return " + ".join(str(facts[name]) for name in NAMES) + " images"
