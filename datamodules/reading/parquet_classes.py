"""Classes of Parquet files: which they are, and which of them each label of a file is."""

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import numpy as np

from datamodules.reading.class_map import (
    FROM_ZERO,
    WrongLabelsError,
    called_otherwise,
    check_joined,
    check_kinds,
    check_names,
    check_order,
    class_numbers,
    classes_of,
    counted_from_zero,
    is_hidden,
    numbers_in_place,
)
from datamodules.reading.class_map_numbers import lacks_number
from datamodules.reading.doubtful_classes import check_numbers
from datamodules.reading.label_text import NUMBER, is_whole, look_alike
from datamodules.reading.parquet_labels import FileLabels
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError


def renamed_classes(file: Path, names: Sequence[str], class_of: Callable[[str], str]) -> list[str]:
    """Return the classes that the names in a file's metadata stand for.

    Args:
        file: the file.
        names: those names.
        class_of: returns the class of a name.

    Raises:
        InputError: naming one that a class map spells otherwise.
    """
    try:
        return list(map(class_of, names))
    except WrongLabelsError as error:
        raise InputError(f"{file} lists the class {min(error.labels)!r:.60}{error.why}") from error


def class_list(
    files: Sequence[FileLabels], listed: Iterable[Sequence[str]], source: Path, multi_label: bool = False
) -> list[str]:
    """Return the classes of a set.

    Args:
        files: labels of its training files whose metadata list no names.
        listed: the names that the metadata of the other training files list.
        source: what to call the files in messages.
        multi_label: whether a row may have several labels.

    Raises:
        InputError: if labels cannot be classes, naming the first.
    """
    known = dict.fromkeys(name for names in listed for name in names)
    texts = {name for file in files if not file.numbered for name in file.names} - known.keys()
    numbers = {name for file in files if file.numbered for name in file.names}
    try:
        if known or not all(map(NUMBER.fullmatch, texts)):  # numbers among named classes are errors of their rows
            names = [*known, *sorted(texts)]
            if texts:
                check_names(texts, known)
                check_joined(names, multi_label, most=max(Ragged(file.places, file.ends).longest for file in files))
                check_kinds(names)
            return names
        check_numbers(texts | numbers)
        return classes_of(texts | numbers)
    except WrongLabelsError as error:
        for file in files:
            if first := file.first(error.labels):
                raise InputError(f"{file.file} has in row {first[0]} the label {first[1]!r:.60}{error.why}") from error
        raise InputError(f"{source} has the label {min(error.labels)!r}{error.why}") from error


def match(
    found: FileLabels,
    class_names: Sequence[str],
    source: str | Path,
    or_numbers: bool,
    may_hide: bool = False,
    training: Collection[str] = (),
) -> np.ndarray:
    """Return the class of each label of a file, IGNORE where it is missing.

    Args:
        found: the labels.
        class_names: all names, in the order of the classes.
        source: what named the classes.
        or_numbers: whether numbers may stand for classes with names.
        may_hide: whether text such as nan and -1 may stand for a missing label.
        training: the different labels that train, if no class map names the classes.

    Raises:
        InputError: naming file, row and label of the first that is no class.
    """
    if or_numbers and (found.numbered or any(map(is_whole, found.names))):
        check_order(class_names, str(found.file))
    numbers = class_numbers(found.names, class_names, or_numbers)
    if found.numbered and not or_numbers and (numbers >= 0).any() and not numbers_in_place(class_names):
        raise InputError(
            f"{found.file} has numbers in its column of labels, which may be places among the classes of {source} "
            f"({shortened(class_names)}) or their names; give --data.class_map, or write the names as text"
        )
    if may_hide:
        numbers[(numbers < 0) & np.array([is_hidden(name) for name in found.names], bool)] = IGNORE
    named = zip(found.names, numbers.tolist(), strict=True)
    unknown = {name for name, number in named if number < 0 and number != IGNORE}
    if first := found.first(unknown):
        row, label = first
        fix = lacks_number(label, class_names) or called_otherwise(label) if source != "train" else ""
        fix = "; it is a number among named classes: give --data.class_map" if found.numbered else fix
        raise InputError(
            f"{found.file} has in row {row} the label {label!r:.60}, which {source} lacks "
            f"({len(class_names)} classes: {shortened(class_names)}){fix}{look_alike(label, class_names)}"
        )
    if first := found.first(counted_from_zero(found.names, training)):
        row, label = first
        raise InputError(f"{found.file} has in row {row} the label {label!r:.60}, which {source} lacks{FROM_ZERO}")
    return np.append(numbers, IGNORE).astype(np.int64)[found.places]


def shortened(names: Sequence[str], most: int = 5) -> str:
    """Return the first of some names."""
    return ", ".join(names[:most]) + ", ..." * (len(names) > most)
