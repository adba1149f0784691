"""An image that two tables have is named with its row in each of them."""

from pathlib import Path

import numpy as np
import pytest

from datamodules.reading import table_repeats
from datamodules.reading.table_repeats import Grouped, Listed, Rows, check_apart, check_groups, digest
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


@pytest.mark.parametrize("linked", [False, True])
def test_one_path_below_two_folders_is_one_image_where_both_lead_to_one_file(tmp_path, linked):
    class Placed(list[str]):
        def __init__(self, folder: Path, *paths: str) -> None:
            super().__init__(paths)
            self.folders = (folder,)

        def image(self, row: int) -> Path:
            return self.folders[0] / self[row]

    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    paths = {"one": ("a.png", "b.png", "c.png"), "other": ("c.png", "b.png")}
    for folder, names in paths.items():
        for name in names:
            (tmp_path / folder / name).write_bytes(b"x")
    if linked:
        (tmp_path / "other/b.png").unlink()
        (tmp_path / "other/b.png").symlink_to(tmp_path / "one/b.png")
    tables = [
        Listed(
            split,
            Path(f"{split}.csv"),
            np.array(list(map(digest, paths[folder])), np.uint64),
            Placed(tmp_path / folder, *paths[folder]),
        )
        for split, folder in (("train", "one"), ("val", "other"))
    ]
    if not linked:
        return check_apart(tables)
    with pytest.raises(InputError, match=r"^train.csv has in row 2 the train image b.png, which val.csv has in row 2"):
        check_apart(tables)


def test_tables_without_a_common_image_are_apart():
    check_apart([listed("train", *MANY), listed("val", "x", "same"), listed("test", "y")])


def test_a_group_in_two_splits_is_named_with_a_row_of_each():
    train = Grouped("train", Path("train.csv"), [0, 4], ["a", "b"])
    val = Grouped("val", Path("val.csv"), [7, 8, 9], ["c", "b", "b"])
    with pytest.raises(InputError) as told:
        check_groups([train, Grouped("test", Path("x.csv"), [0], ["d"]), val], "patient")
    assert "1 value of --data.group_column patient has train and val images" in str(told.value)
    assert "'b' in row 5 of train.csv (train) and row 9 of val.csv (val)" in str(told.value)


@pytest.mark.parametrize("other", ["TCGA_01", "TCGA 01"])
def test_a_group_with_another_dash_is_refused(other):
    train = Grouped("train", Path("train.csv"), [0], ["TCGA-01"])
    with pytest.raises(InputError, match="which may be one in two spellings; write both alike"):
        check_groups([train, Grouped("val", Path("val.csv"), [0], [other])], "case")
    for apart in ("TCGA-10", "TCGA01", "TCG-A01", "TCGA-01-A"):
        check_groups([train, Grouped("val", Path("val.csv"), [0], [apart])], "case")


ROWS = (("a/x", "cat", "train"), ("a/y", "cat", "train"), ("a\\x", "cat", "train"))


@pytest.mark.parametrize(
    ("row", "pair"),
    [
        (("a/x", "dog", "train"), (2, 3)),
        (("./a/x", "cat", "val"), (2, 3)),
        (("a/x", "cat", "train"), None),
        (("a/z", "dog", "train"), None),
    ],
)
def test_rows_of_one_path_that_differ_in_label_or_split(row, pair):
    rows = Rows()
    for path, label, split in (*ROWS, row):
        rows.add(path, [label], split)
    assert rows.differing([path for path, *_ in (*ROWS, row)]) == pair


def test_paths_of_one_digest_need_not_be_one(monkeypatch):
    monkeypatch.setattr(table_repeats, "digest", lambda path: 1)
    rows = Rows()
    for path, label in (("a", "cat"), ("b", "dog")):
        rows.add(path, [label], "train")
    assert rows.differing(["a", "b"]) is None
