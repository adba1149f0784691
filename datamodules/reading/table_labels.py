"""Labels of a table that was read, and which classes they are."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from datamodules.reading import array_cache
from datamodules.reading.array_cache import MappedStrings
from datamodules.reading.class_map import (
    FROM_ZERO,
    MANY,
    MAY_BE_MISSING,
    WrongLabelsError,
    called_otherwise,
    check_order,
    class_numbers,
    counted_from_zero,
    first_of,
    is_hidden,
)
from datamodules.reading.class_map_numbers import lacks_number
from datamodules.reading.drawn_split import TRAIN, VAL, used_in
from datamodules.reading.label_text import look_alike
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError

MOST_NAMED = 3
"""Further wrong rows that an error names."""
HIDDEN_WORDS = MAY_BE_MISSING | {"hidden", "unlabeled", "unlabelled"}
"""What test images have as a label that is not told."""


class TableLabels:
    """The labels of a table.

    Args:
        file: where its content is kept, see `datamodules.reading.table_content`.
        table: what to call it.
        is_divided: whether a column says each image's split.
        class_of: returns the class that a label of the table stands for.
    """

    def __init__(self, file: Path, table: Path, is_divided: bool, class_of: Callable[[str], str] = str) -> None:
        self.file = file
        self.table = table
        self.is_divided = is_divided
        self.class_of = class_of
        self.arrays = array_cache.load(file)
        self.rows = Ragged(self.arrays["labels.values"], self.arrays["labels.ends"])

    @cached_property
    def names(self) -> list[str]:
        """The class that each of its different labels stands for.

        Raises:
            InputError: naming the first row with a label that a class map spells otherwise.
        """
        try:
            return list(map(self.class_of, self._texts))
        except WrongLabelsError as error:
            raise self._wrong(error.labels, error.why, self._texts) from error

    @cached_property
    def _texts(self) -> list[str]:
        """Its different labels as they stand there."""
        return list(MappedStrings(self.file, "names"))

    @property
    def counts(self) -> dict[str, int]:
        """The rows of each label as it stands there."""
        counts = np.bincount(self.rows.values, minlength=len(self._texts))
        return dict(zip(self._texts, counts.tolist(), strict=True))

    @property
    def most_labels(self) -> int:
        """Labels of the image that has most; several where there is a column for each class."""
        return MANY if self.arrays["one_hot"] else self.rows.longest

    @property
    def lists_classes(self) -> bool:
        """Whether its metadata name the classes, with or without images."""
        return len(MappedStrings(self.file, "listed")) > 0

    def training(self) -> list[str]:
        """Return the different labels of its training images, if it is a table of some."""
        if not self.is_divided or self.arrays["one_hot"]:
            return list(dict.fromkeys(self.names))
        return list(dict.fromkeys(self.names[place] for place in used_in(self.arrays, TRAIN)))

    def numbers(
        self, class_names: Sequence[str], training: Collection[str] | None, source: str, may_hide: bool
    ) -> np.ndarray:
        """Return the class of each different label, IGNORE where it stands for a hidden one.

        Args:
            class_names: all classes, in order.
            training: the different labels that train; None: a class map names the classes.
            source: what lacks a label that is no class, and what else there is to say.
            may_hide: whether labels may be hidden; in a divided table, those of test images.

        Raises:
            InputError: naming the first row with a label that is no class.
        """
        if training is None and self.arrays["numbered"].all():
            check_order(class_names, str(self.table))
        numbers = class_numbers(self.names, class_names, or_numbers=training is None)
        if may_hide or self.is_divided:
            hidden = np.array([is_hidden(name) for name in self.names], bool) & (numbers < 0)
            if self.is_divided:
                hidden[used_in(self.arrays, TRAIN, VAL)] = False
            numbers[hidden] = IGNORE
        used = {self.names[place] for place in np.unique(self.rows.values)}  # a column for each class may be empty
        unknown = {name for name, number in zip(self.names, numbers.tolist(), strict=True) if _is_none(number)}
        if training is not None and (may_be := {name for name in unknown & used if name.lower() in HIDDEN_WORDS}):
            raise self.wrong(may_be, ", no class of the training images; leave the cell empty if the label is hidden")
        if unknown & used:
            label = first_of(unknown, self.names, self.rows)[1]
            fix = "" if training is not None else lacks_number(label, class_names) or called_otherwise(label)
            raise self.wrong(unknown, f", which {source}{fix}", class_names)
        if zero := counted_from_zero(used, training or ()):
            raise self.wrong(zero, f", which {source}{FROM_ZERO}")
        return numbers

    def wrong(self, labels: Collection[str], why: str, known: Sequence[str] = ()) -> InputError:
        """Say which is the first row with one of some labels that cannot be, and which known one it resembles."""
        return self._wrong(labels, why, self.names, known)

    def _wrong(self, labels: Collection[str], why: str, names: Sequence[str], known: Sequence[str] = ()) -> InputError:
        row, label = first_of(labels, names, self.rows)
        place = f"{label!r:.60} in row {row + 1} ({MappedStrings(self.file, 'paths')[row]})"
        return InputError(
            f"{self.table} has the label {place}{why}{look_alike(label, known)}{self._more(labels, names)}"
        )

    def _more(self, labels: Collection[str], names: Sequence[str]) -> str:
        """Name the next rows with one of some labels, so that all can be mended at once; empty: there is one row."""
        found = np.flatnonzero(np.array([name in labels for name in names])[self.rows.values])
        rows = np.searchsorted(self.rows.ends, found, side="right") - 1
        numbers, firsts = np.unique(rows, return_index=True)
        if len(numbers) < 2:
            return ""
        shown = [
            f"{names[self.rows.values[found[at]]]!r:.60} in row {row + 1}"
            for row, at in zip(numbers[1 : MOST_NAMED + 1], firsts[1 : MOST_NAMED + 1], strict=True)
        ]
        return f" ({len(numbers):,} rows in all, next {', '.join(shown)})"


def _is_none(number: int) -> bool:
    return number < 0 and number != IGNORE
