"""An image that two tables have is named with its row in each of them."""

from pathlib import Path

import numpy as np
import pytest

from datamodules.reading.table_repeats import Listed, check_apart, digest
from vit_lightning.errors import InputError


class Named(list[str]):
    """Paths that start from the folders of their table."""

    folders = (Path(),)


def listed(split: str, *paths: str) -> Listed:
    return Listed(split, Path(f"{split}.csv"), np.array(list(map(digest, paths)), np.uint64), Named(paths))


FEW, MANY = ("a", "b/same"), ("p", "q", "r", "b\\same", "s")


@pytest.mark.parametrize(("train", "val"), [(FEW, MANY), (MANY, FEW), (FEW, ("b/same", "x"))])
def test_each_row_is_that_of_its_own_table(train, val):
    """Whichever of the tables is the longer one, and whichever slashes the path has there."""
    at = [next(row for row, path in enumerate(paths, 1) if path.endswith("same")) for paths in (train, val)]
    said = f"train.csv has in row {at[0]} the train image {train[at[0] - 1]}, which val.csv has in row {at[1]} as a val"
    with pytest.raises(InputError) as told:
        check_apart([listed("train", *train), listed("val", *val)])
    assert str(told.value).startswith(said)


def test_tables_without_a_common_image_are_apart():
    check_apart([listed("train", *MANY), listed("val", "x", "same"), listed("test", "y")])
