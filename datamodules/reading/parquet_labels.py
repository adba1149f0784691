"""Labels of Parquet files as text, so that files of one set are matched by name and not by number."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from datamodules.reading.class_map import (
    WrongLabelsError,
)
from datamodules.reading.damaged_files import reading
from datamodules.reading.label_text import (
    IF_A_NAME,
    check_name,
    difference,
    has_vectors,
    names_a_list,
    nested,
    twins,
    whole_number,
)
from datamodules.reading.parquet_rows import open_table, read_columns
from vit_lightning.errors import InputError
from vit_lightning.terminal import counted

MISSING = -1
"""Place of a label that is absent, or hidden as -1 in published test sets."""


@dataclass(frozen=True)
class FileLabels:
    """The labels of one file.

    Args:
        file: the file.
        names: its different labels, as text.
        places: which of them each label is, or MISSING.
        ends: 0, and where the labels of each row end; one label per row without `multi_label`.
        numbered: whether the labels are numbers without names.
        listed: whether the file's metadata name its classes.
        texts: its different labels as they stand there, where a class map names their classes.
    """

    file: Path
    names: list[str]
    places: np.ndarray
    ends: np.ndarray
    numbered: bool
    listed: bool = False
    texts: list[str] = field(default_factory=list)

    def renamed(self, class_of: Callable[[str], str]) -> "FileLabels":
        """Return them as the classes that they stand for.

        Args:
            class_of: returns the class of a label.

        Raises:
            InputError: naming the first row with a label that a class map spells otherwise.
        """
        try:
            return replace(self, names=[*map(class_of, self.names)], texts=self.names)
        except WrongLabelsError as error:
            row, label = self.first(error.labels) or (0, min(error.labels))
            raise InputError(f"{self.file} has in row {row} the label {label!r:.60}{error.why}") from error

    def counts(self) -> Counter[str]:
        """Return the rows of each label as it stands there."""
        counts = np.bincount(self.places[self.places >= 0], minlength=len(self.texts))
        return Counter(dict(zip(self.texts, counts.tolist(), strict=True)))

    def check_complete(self, column: str, may_lack: np.ndarray | None = None) -> None:
        """Raise InputError if a label is missing, but in rows where it may be, bool `(rows,)`."""
        missing = self.places == MISSING
        if may_lack is not None:
            missing &= ~np.repeat(may_lack, np.diff(self.ends))
        if missing.any():
            raise InputError(
                f"{self.file} has no label in its column {column!r} in {counted(int(missing.sum()), 'row')}, the first "
                f"is row {self.row(missing)}"
            )

    def first(self, wanted: Collection[str]) -> tuple[int, str] | None:
        """Return row and name of the first label that is one of some names, None if none is."""
        found = np.isin(self.places, [place for place, name in enumerate(self.names) if name in wanted])
        return (self.row(found), self.names[self.places[np.argmax(found)]]) if found.any() else None

    def row(self, wanted: np.ndarray) -> int:
        """Return the row, counted from 1, of the first label for which `wanted` is true."""
        return int(np.searchsorted(self.ends, np.argmax(wanted), side="right"))


def features_of(file: Path) -> dict[str, Any]:
    """Return what Hugging Face's metadata in a file say about its columns."""
    metadata = open_table(file).schema_arrow.metadata or {}
    with reading(file):
        return json.loads(metadata.get(b"huggingface", "{}")).get("info", {}).get("features", {})


def listed_classes(file: Path, column: str) -> list[str] | None:
    """Return the class names that a file's metadata list for a column of numbers, or of lists of numbers."""
    feature = features_of(file).get(column)
    while feature:
        if isinstance(feature, list):  # the older form of a sequence
            feature = feature[0]
        elif names := feature.get("names"):
            if len(set(names)) < len(names):
                raise InputError(f"{file} lists the name of a class of its column {column!r} twice")
            if pair := twins(map(str, names), numbers=False):
                raise InputError(f"{file} lists classes of its column {column!r} that may be one: {difference(*pair)}")
            return list(map(str, names))
        else:
            feature = feature.get("feature")
    return None


def holds_numbers(file: Path, column: str) -> bool:
    """Tell whether a column holds numbers, or lists of numbers."""
    import pyarrow as pa

    kind = open_table(file).schema_arrow.field(column).type
    kind = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def holds_text(kind: Any) -> bool:
    """Tell whether Arrow's type of a column is that of text, plain or as categories."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def read_labels(file: Path, column: str, multi_label: bool = False, lists: Collection[str] = ()) -> FileLabels:
    """Read the labels of a file.

    Args:
        file: the file.
        column: the column with the labels.
        multi_label: whether a row may have a list of them.
        lists: names of classes that are called as lists are, or are numbers that else are none, as -1.

    Raises:
        InputError: naming file and row of the first label that is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with reading(file):
        values = read_columns(file, [column]).column(0).combine_chunks()
        is_list = pa.types.is_list(values.type) or pa.types.is_large_list(values.type)
        if is_list and not multi_label:
            raise InputError(
                f"{file} has lists in its column {column!r}; give --data.multi_label true, or another "
                "--data.label_column"
            )
        ends = np.arange(len(values) + 1)
        if is_list:
            lengths = pc.fill_null(pc.list_value_length(values), 1)  # a list that is null is a label that is missing
            ends = np.append(0, np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64))
            values = _items(values)
            if pa.types.is_boolean(values.type):
                raise InputError(
                    f"{file} has lists of truth values in its column {column!r}, expected those of classes"
                )
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_decimal(values.type):
            values = values.cast(pa.float64())
        if values.type in (pa.large_string(), pa.string_view()):
            values = values.cast(pa.string())
        if multi_label and not is_list and pa.types.is_string(values.type):
            raise InputError(
                f"{file} has text in its column {column!r}, expected lists of labels; leave out --data.multi_label, or "
                "give --data Manifest and its --data.separator for paths and labels in a table"
            )
        if pa.types.is_nested(values.type):
            raise InputError(f"{file} has {values.type} in its column {column!r}; expected whole numbers or text")
        encoded = values.dictionary_encode()
        different = encoded.dictionary.to_pylist()
        places = pc.fill_null(encoded.indices, MISSING).to_numpy(zero_copy_only=False).astype(np.int64)
    listed = listed_classes(file, column)
    found = FileLabels(file, [], places, ends, listed is None and _all_numbers(different), listed is not None)
    names = []
    for place, value in enumerate(different):
        try:
            names.append(_name(value, listed, lists))
        except ValueError as error:
            row = found.row(places == place)
            kind = "" if listed else f"{values.type} in its column {column!r}; expected whole numbers or text, but has "
            raise InputError(f"{file} has {kind}in row {row} the label {value!r:.60}{error}") from error
    known = sorted({name for name in names if name})
    place_of = {name: place for place, name in enumerate(known)}
    lookup = np.array([MISSING, *(place_of.get(name, MISSING) for name in names)])
    found = replace(found, names=known, places=lookup[places - MISSING])
    zero_and_one = ("0", "1") if listed is None else listed[:2]
    if is_list and len(zero_and_one) == 2 and (vectors := has_vectors(found.places, ends, known, zero_and_one)).any():
        raise InputError(
            f"{file} has in row {np.argmax(vectors) + 1} a list with a 0 or 1 for each class, expected the classes "
            "that show; write their names or numbers"
        )
    return found


def _items(values: Any) -> Any:
    """Return the items of all lists, and null for a list that is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not values.null_count:
        return values.flatten()
    nothing = pa.scalar([None], values.type)
    return pc.if_else(pc.is_valid(values), values, nothing).flatten()


def _all_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _name(value: Any, listed: Sequence[str] | None, lists: Collection[str]) -> str | None:
    """Return a label as text, None if it stands for a missing one, or raise ValueError.

    Args:
        value: the label.
        listed: the names of the file's metadata.
        lists: names of classes that are called as lists and as missing labels are.
    """
    if isinstance(value, int | float) and listed is None and whole_number(str(value)) in lists:
        return whole_number(str(value))
    if value is None or value != value or value in ("", -1):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        try:
            if value.strip() in lists or nested(value.strip()) is None:
                return check_name(value) or None
        except ValueError as error:
            raise ValueError(f", {error}" if str(error).startswith("which") else "") from error
        raise ValueError(f", which is a list; {IF_A_NAME}" if names_a_list(value.strip()) else "")
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int) and value >= 0 and listed is None:
        return str(value)
    if isinstance(value, int) and listed is not None and 0 <= value < len(listed):
        return listed[value]
    raise ValueError(f", outside its {len(listed)} classes" if listed else "")
