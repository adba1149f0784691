"""Scoring on some of a net's classes: those that shifted data have, as a test set of 200 of ImageNet's 1,000."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vit_lightning.data.image_set import scored_classes_of
from vit_lightning.weights.class_names import numbers_of


class ScoredClasses:
    """Leaves of logits those classes on which a set is scored, and numbers its labels likewise.

    Args:
        columns: numbers of these classes among the logits.
        names: what they are called.
        labels_are_columns: whether a label is the number of a logit, and not yet that of a column.
        classes: number of logits.
    """

    def __init__(self, columns: Sequence[int], names: Sequence[str], labels_are_columns: bool, classes: int) -> None:
        self.columns = torch.tensor(list(columns), dtype=torch.int64)
        self.names = list(names)
        self.classes = classes
        self.places = torch.full((classes,), -1)
        """Column of each class, in labels that are numbers of logits."""
        self.places[self.columns] = torch.arange(len(self.columns))
        self.labels_are_columns = labels_are_columns

    @classmethod
    def of_data(cls, ours: Sequence[str], theirs: Sequence[str], in_any_order: bool = False) -> "ScoredClasses | None":
        """Return what scores data with some of a net's classes, by name; None: they are no proper part of these.

        They are called as the net calls them, which may be spelt otherwise.

        Args:
            ours: names of the data's classes.
            theirs: names of the net's classes.
            in_any_order: whether they may be all of them too, in another order.
        """
        is_reordered = in_any_order and sorted(ours) == sorted(theirs) and list(ours) != list(theirs)
        numbers = numbers_of(ours, theirs) if 0 < len(ours) < len(theirs) or is_reordered else None
        return numbers and cls(numbers, [theirs[number] for number in numbers], False, len(theirs))

    @classmethod
    def of_set(cls, images: Any, names: Sequence[str], classes: int) -> "ScoredClasses | None":
        """Return what scores a set that says on which of the data's classes; None: on all of them, in their order."""
        numbers = scored_classes_of(images)
        if numbers is None or numbers.tolist() == list(range(classes)):
            return None
        known = names or list(map(str, range(classes)))
        return cls(numbers.tolist(), [known[number] for number in numbers], True, classes)

    def logits(self, logits: Tensor) -> Tensor:
        """Return logits `(b, k)` of those `(b, classes)` of the net."""
        return logits[:, self.columns.to(logits.device)]

    def labels(self, labels: Tensor) -> Tensor:
        """Return labels of these classes, int64 `(b,)` or shares `(b, k)`; negative ones stay."""
        if not self.labels_are_columns:
            return labels
        if labels.ndim == 2:
            return labels[:, self.columns.to(labels.device)]
        places = self.places.to(labels.device)
        return torch.where(labels >= 0, places[labels.clamp(min=0)], labels)

    def __str__(self) -> str:
        if len(self.names) == self.classes:
            return "the data has the net's classes in another order: they are matched by name"
        return f"scored on {len(self.names):,} of {self.classes:,} classes"


def parts_of(
    data: Any, further: Sequence[str], names: Sequence[str], classes: int
) -> dict[tuple[str, int], ScoredClasses]:
    """Return what scores the sets of data that say on which classes, by split and number of the set.

    Args:
        data: The data.
        further: Names of the further sets, whose numbers begin at 1.
        names: Of the data's classes; none: nobody says them.
        classes: Number of the data's classes.
    """
    found = {}
    for split in ("val", "test"):
        sets = [getattr(data, f"{split}_set", None), *(data.further_sets[name] for name in further)]
        for number, images in enumerate(sets):
            if (part := ScoredClasses.of_set(images, names, classes)) is not None:
                found[split, number] = part
    return found
