"""Tables that lie beside that of the training images, and are not read."""

from collections.abc import Mapping
from pathlib import Path

from datamodules.reading.splits import SPLITS
from datamodules.reading.unread_splits import lists_around


def other_tables(root: Path, tables: Mapping[str, Path | None], is_stated: bool = False) -> list[str]:
    """Say which tables and lists lie beside the table of the training images and are not asked for.

    Args:
        root: folder that the tables' names start from.
        tables: the table of each split; that of training is there.
        is_stated: whether a column or a file states the split of each image.
    """
    train = root / (tables["train"] or "")
    ending = train.name.partition(".")[2]
    found = []
    known = {(root / table).resolve() for table in tables.values() if table is not None}
    lacking = [split for split in ("val", "test") if tables[split] is None and not is_stated]
    for split in ("val", "test"):
        beside = [train.with_name(f"{name}.{ending}") for name in SPLITS[split]]
        if train.parent != root:
            beside += [train.parent.parent / name / train.name for name in SPLITS[split]]
        there = [table for table in beside if table != train and table.is_file()]
        if there and tables[split] is None:
            found.append(f"{there[0]} is not read; give --data.{split} {there[0]} if it holds {split} images")
            lacking = [other for other in lacking if other != split]
    lists = lists_around(train.parent, lacking) | (lists_around(root, lacking) if train.parent != root else {})
    for split in lacking:
        if split in lists and lists[split].resolve() not in known:
            found.append(
                f"{lists[split]} may list the {split} images and is not read: those that {train.name} has as well "
                f"train; give --data.{split} {lists[split]} if it is a table with a path and a label for each image, "
                "else write a CSV of the columns file and split for --data.split_file, or a column of splits"
            )
    return found
