"""What is doubtful about the classes of a set: missing labels, two spellings of one, numbers that mark no class."""

from collections.abc import Collection

from datamodules.reading.class_map import WrongLabelsError, doubtful_label
from datamodules.reading.folder_spelling import said_of_signs
from datamodules.reading.label_text import is_whole, whole_number

IGNORED = frozenset({99, 255, 999, 9999, 65535})
"""Numbers that mark images or pixels to ignore in many sets."""
FEWEST_EMPTY = 8
"""Classes without an image that are worth a notice."""


def said_of(
    classes: Collection[str], labels: Collection[str] = (), known: Collection[str] = (), fix: str = "write both alike"
) -> list[str]:
    """Say what may be no class, or one class twice.

    Args:
        classes: all classes.
        labels: the different labels that train, where numbers are the places of classes.
        known: classes that the user has listed, which are what they are called.
        fix: what makes one class of two.
    """
    spelling = None if {*known}.issuperset(classes) else said_of_signs(classes, fix)
    return [said for said in (doubtful_label(classes), spelling, _said_of_gap(labels)) if said]


def check_numbers(labels: Collection[str]) -> None:
    """Refuse a number that marks images to ignore beside 0, 1, ..., which would make hundreds of classes.

    Args:
        labels: the different labels that train.

    Raises:
        WrongLabelsError: naming it.
    """
    numbers = _numbers(labels)
    if len(numbers) < 3 or numbers[-1] not in IGNORED or not _has_gap(numbers):
        return
    *rest, last = numbers
    if rest == list(range(len(rest))):
        raise WrongLabelsError(
            [label for label in labels if int(whole_number(label)) == last],
            f" beside 0 to {rest[-1]}, which would make {last + 1} classes and marks images to ignore in many sets; "
            f"take out what has it, or give --data.class_map a .csv with a line such as {last},NAME for each label",
        )


def _said_of_gap(labels: Collection[str]) -> str | None:
    """Say that most classes below the greatest number have no image."""
    numbers = _numbers(labels)
    if not numbers or not _has_gap(numbers):
        return None
    last, empty = numbers[-1], numbers[-1] + 1 - len(numbers)
    return (
        f"the label {last} is the greatest of {len(numbers)} numbers, so that there are {last + 1} classes, {empty} of "
        "them without an image that trains; take out what has it if it marks images to ignore, or give "
        f"--data.class_map a .csv with a line such as {last},NAME for each label"
    )


def _has_gap(numbers: list[int]) -> bool:
    below, empty = len(numbers) - 1, numbers[-1] + 1 - len(numbers)
    return 2 * below < numbers[-1] and empty >= FEWEST_EMPTY


def _numbers(labels: Collection[str]) -> list[int]:
    """Return the different numbers that labels are, in order; none if some are names."""
    return sorted({int(whole_number(label)) for label in labels}) if all(map(is_whole, labels)) else []
