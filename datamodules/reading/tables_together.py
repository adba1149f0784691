"""What the tables of several splits say together: images that two of them have, numbers that two of them read apart."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from datamodules.reading import class_map, named_codes, table_links, table_repeats
from datamodules.reading.array_cache import MappedStrings
from datamodules.reading.class_map_file import ClassMap
from datamodules.reading.table_labels import TableLabels
from datamodules.reading.table_paths import Paths


class ReadTable(NamedTuple):
    """The table of a split, once it is read."""

    split: str
    table: Path
    paths: Paths
    labels: TableLabels


def check_apart(tables: Sequence[ReadTable]) -> None:
    """Refuse an image that two of the tables have, but for test images without labels, which serve predict.

    Raises:
        InputError: naming the table, or the image and both its rows.
    """
    told = [one for one in tables if one.labels.arrays["has_labels"].all()]
    table_repeats.check_apart(
        [table_repeats.Listed(one.split, one.table, one.labels.arrays["digests"], one.paths) for one in told]
    )
    table_links.check([table_links.Listed(one.split, one.labels, one.paths) for one in told])


def check_meaning(tables: Sequence[ReadTable], names: ClassMap, is_given: bool) -> list[str]:
    """Refuse numbers in one table that may be places among the names of another, or names.

    Whether another column calls them otherwise is said alone where the column of the numbers was given.

    Args:
        tables: those.
        names: the class map beside them.
        is_given: whether the column of labels was given.

    Raises:
        InputError: naming both tables.
    """
    if names.listed is None:
        class_map.check_meaning(
            [one.table for one in tables if one.labels.arrays["numbered"].all()],
            [(one.table, list(MappedStrings(one.labels.file, "listed"))) for one in tables],
        )
    named = [named_codes.Named.loaded(text) for one in tables for text in MappedStrings(one.labels.file, "named")]
    label = next((name for one in tables for name in MappedStrings(one.labels.file, "label_columns")), "")
    return named_codes.check(named, names.numbered, names.path, label, is_given)
