"""Paths in folders that are called as labels are, and labels beside them that say another thing."""

import pyarrow
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from datamodules.reading.labelled_folders import Differing, differing
from tests.datamodules.test_folder import put
from tests.datamodules.test_labels import picture
from tests.datamodules.test_manifest_split import ready, write
from vit_lightning.errors import InputError

PATHS = [f"{name}/{number}.png" for name in ("cat", "dog", "emu") for number in range(4)]


@pytest.fixture
def root(tmp_path):
    for number, path in enumerate(PATHS):
        put(tmp_path / "set" / path, number)
    return tmp_path / "set"


def labels(**wrong: str) -> list[str]:
    """Return the label that each path says, but in some rows, which are counted from 1."""
    return [wrong.get(f"row{row}", path[:3]) for row, path in enumerate(PATHS, start=1)]


SORTED = [path[:3] for path in PATHS[::-1]]


@pytest.mark.parametrize("form", ["{}", "set/{}", "set\\train\\{}", "{}/2019", "./{}/images"])
def test_rows_that_differ(form):
    paths = [form.format(path[:3]) + path[3:] for path in PATHS]
    found = differing(zip(paths, SORTED, strict=True))
    assert found and (found.row, found.label, found.folder, found.count, found.of) == (1, "emu", "cat", 8, 12)
    assert differing(zip(paths, labels(), strict=True)) is None


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["0", "1", "2"], ["2", "0", "1"]),  # shards of images
        (["a", "b", "c"], ["c", "a", "b"]),  # initials of something
        (["train", "test", "val"], ["val", "train", "test"]),
        (["rec1", "rec2", "cat"], ["cat", "dog", "emu"]),
        (["Cat", "DOG", "e_mu"], ["cat", "dog", "e mu"]),
        (["2019", "2020", "2021"], ["cat", "dog", "emu"]),
        (["", "", ""], ["cat", "dog", "emu"]),
        (["cat/dog", "dog/emu", "emu/cat"], ["cat", "dog", "emu"]),
        (["site/cat", "site/dog", "other/emu"], ["cat", "dog", "emu"]),
    ],
)
def test_folders_of_another_meaning(folders, names):
    rows = [(f"{folder}/{number}.png", name) for folder, name in zip(folders, names, strict=True) for number in "012"]
    assert differing(rows) is None


def found(folders: list[str], names: list[str]) -> Differing:
    pairs = enumerate(zip(folders, names, strict=True))
    some = differing((f"{folder}/{row}.png", name) for row, (folder, name) in pairs)
    assert some
    return some


ANIMALS = ["cat"] * 40 + ["dog"] * 40 + ["wolf"] * 40


@pytest.mark.parametrize(
    "names",
    [
        ["cat"] * 40 + ["dog"] * 10 + ["wolf"] * 70,
        ["cat"] * 40 + ["dog"] * 20 + ["fox"] * 20 + ["wolf"] * 40,
        ["cat"] * 39 + ["dog", *["cat"] * 12, *["dog"] * 16, *["wolf"] * 12, *["wolf"] * 40],
        [name if row % 5 else "cat" for row, name in enumerate(ANIMALS)],
    ],
)
def test_many_corrected_labels_are_a_notice(names):
    some = found(ANIMALS, names)
    assert some.count >= 12 and "the column counts" in some.said("table", "label", is_given=False)


@pytest.mark.parametrize(
    "names",
    [
        ANIMALS[::-1],
        ANIMALS[12:] + ANIMALS[:12],
        [ANIMALS[7 * row % 120] for row in range(120)],
        ["dog"] * 40 + ["cat"] * 40 + ["wolf"] * 40,
        [ANIMALS[7 * row % 120] for row in range(118)] + ["cat", "cat"],
    ],
)
def test_columns_that_were_sorted_or_moved_are_errors(names):
    with pytest.raises(InputError, match=r"--data\.label_column label says so"):
        found(ANIMALS, names).said("table", "label", is_given=False)


def test_folders_of_views_are_no_labels():
    sides = ["left", "right", "right", "left"]
    assert "the column counts" in found(sides * 9, sorted(sides * 9)).said("table", "label", is_given=False)


def test_a_sorted_column_is_an_error(root):
    write(root / "train.csv", "path,label", [f"{path},{name}" for path, name in zip(PATHS, SORTED, strict=True)])
    with pytest.raises(InputError) as error:
        ready(root)
    assert str(error.value) == (
        f"{root}/train.csv has in row 1 the label 'emu' in the column 'label' for cat/0.png, whose folder is called as "
        "another label is; so it is in 8 of 12 such rows; see whether one column alone was sorted or moved; if the "
        "labels are right, --data.label_column label says so"
    )
    (said,) = [text for text in ready(root, label_column="label").notices if "another label" in text]
    assert said.endswith("12 such rows, and the column counts; see whether one column alone was sorted or moved")
    assert ready(root, label_column="label").class_names == ["cat", "dog", "emu"]


def test_a_corrected_label_is_a_notice(root):
    rows = [f"{path},{name}" for path, name in zip(PATHS, labels(row5="cat"), strict=True)]
    write(root / "train.csv", "path,label", rows)
    (said,) = [text for text in ready(root).notices if "another label" in text]
    assert "in row 5 the label 'cat' in the column 'label' for dog/0.png" in said and "in 1 of 12 such rows" in said
    write(root / "train.csv", "path,label", [f"{path},{path[:3]}" for path in PATHS])
    assert not [text for text in ready(root).notices if "another label" in text]
    write(root / "train.csv", "path,label", [f"{path},{name}" for path, name in zip(PATHS, SORTED, strict=True)])
    assert not [text for text in ready(root, multi_label=True).notices if "another label" in text]


def test_paths_in_parquet(tmp_path):
    def read(names: list[str], **options) -> Parquet:
        images = [{"bytes": picture(row), "path": path} for row, path in enumerate(PATHS)]
        parquet.write_table(pyarrow.table({"image": images, "label": names}), tmp_path / "train.parquet")
        data = Parquet(root=tmp_path, image_size=8, **options)
        data.setup("fit")
        return data

    with pytest.raises(
        InputError, match=r"train\.parquet has in row 1 the label 'emu' in the column 'label' for cat/0"
    ):
        read(SORTED)
    assert "the column counts" in "".join(read(SORTED, label_column="label").notices)
    assert not read(labels()).notices


def test_folders_that_are_called_as_labels_hold_half_of_the_images():
    few = [("cat/0.png", "cat"), ("cat/1.png", "dog"), ("dog/2.png", "dog")]
    many = [(f"misc/{number}.png", "cat") for number in range(4)]
    assert differing([*few, *many]) is None
    found = differing([*few, *many[:3]])
    assert found is not None and (found.count, found.of, found.path) == (1, 3, "cat/1.png")
