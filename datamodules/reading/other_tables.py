"""Tables that lie beside that of the training images, and are not read."""

from collections.abc import Mapping
from pathlib import Path

from datamodules.reading.splits import SPLITS


def other_tables(root: Path, tables: Mapping[str, Path | None]) -> list[str]:
    """Say which tables lie beside that of the training images and are not asked for.

    Args:
        root: folder that the tables' names start from.
        tables: the table of each split; that of training is there.
    """
    train = root / (tables["train"] or "")
    ending = train.name.partition(".")[2]
    found = []
    for split in ("val", "test"):
        beside = [train.with_name(f"{name}.{ending}") for name in SPLITS[split]]
        if train.parent != root:
            beside += [train.parent.parent / name / train.name for name in SPLITS[split]]
        there = [table for table in beside if table != train and table.is_file()]
        if there and tables[split] is None:
            found.append(f"{there[0]} is not read; give --data.{split} {there[0]} if it holds {split} images")
    return found
