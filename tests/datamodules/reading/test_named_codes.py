"""Numbers with names beside them, which two tables may give anew: they are errors, and not other classes."""

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from tests.datamodules.reading.test_unread_splits import root  # noqa: F401  # a fixture
from tests.datamodules.test_labels import picture
from tests.datamodules.test_manifest_split import ready, write
from vit_lightning.errors import InputError

TRAIN = {"0": "c", "1": "b", "2": "a"}


def table(root: Path, name: str, names: dict[str, str], column: str, rows: range) -> None:  # noqa: F811
    numbers = [list(names)[row % len(names)] for row in rows]
    write(
        root / name,
        f"path,label,{column}",
        [f"{row}.png,{n},{names[n]}" for row, n in zip(rows, numbers, strict=True)],
    )


def files(folder: Path, column: str, **splits: list[tuple[int, str]]) -> Parquet:
    folder.mkdir(exist_ok=True)
    for place, (split, rows) in enumerate(splits.items()):
        images = [picture(20 * place + number) for number in range(len(rows))]
        columns = {"image": images, "label": [number for number, _ in rows], column: [name for _, name in rows]}
        parquet.write_table(pyarrow.table(columns), folder / f"{split}.parquet", row_group_size=2)
    data = Parquet(root=folder, image_size=8)
    data.setup("fit")
    return data


@pytest.mark.parametrize(
    ("names", "column", "said"),
    [
        (
            {"0": "a", "1": "b"},
            "label_name",
            "train.csv has in row 3 the label 2 and 'a' but {}te.csv has in row 1 the",
        ),
        ({"0": "a", "1": "b"}, "breed", "te.csv has in row 1 the label 0 and 'a' in the column 'breed': the numbers"),
        ({"0.0": "b"}, "class", "train.csv has in row 2 the label 1 and 'b' but {}te.csv has in row 1 the label 0 and"),
        ({"0": "a", "1": "B"}, "class", "te.csv has in row 1 the label 0 and 'a' in the column 'class'"),
        ({"0": "x", "1": "y"}, "class_name", "train.csv has in row 1 the label 0 and 'c' but {}te.csv has in row 1"),
    ],
)
def test_tables_that_number_names_anew(root, names, column, said):  # noqa: F811
    table(root, "train.csv", TRAIN, column, range(6))
    table(root, "te.csv", names, column, range(6, 10))
    with pytest.raises(InputError) as error:
        ready(root, test="te.csv")
    assert said.format(f"{root}/") in str(error.value)
    assert f"give --data.label_column {column} to go by these names, or --data.label_column label" in str(error.value)


def test_the_names_are_the_way_out(root):  # noqa: F811
    table(root, "train.csv", TRAIN, "label_name", range(6))
    table(root, "te.csv", {"0": "a", "1": "b"}, "label_name", range(6, 10))
    data = ready(root, test="te.csv", label_column="label_name")
    assert data.class_names == ["a", "b", "c"] and data.test_set.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (TRAIN, "label_name"),
        ({"2": "a"}, "label_name"),
        ({"0": "C", "2": "A"}, "label_name"),
        ({"0": "", "1": "b"}, "label_name"),
        ({"0": "x", "1": "y"}, "photographer"),
        ({"0": "5", "1": "6"}, "label_name"),
    ],
)
def test_tables_that_agree(root, names, column):  # noqa: F811
    table(root, "train.csv", TRAIN, column, range(6))
    table(root, "te.csv", names, column, range(6, 10))
    assert len(ready(root, test="te.csv").test_set) == 4


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (["left", "right"] * 3, ["right", "left"] * 2),  # of three labels each
        (["ann"] * 6, ["ann"] * 4),
        ([f"note {row}" for row in range(6)], [f"note {5 - row}" for row in range(4)]),
        (["cat"] * 3 + ["dog"] * 3, ["dog"] * 4),
    ],
)
def test_other_columns_say_nothing(root, train, test):  # noqa: F811
    write(root / "train.csv", "path,label,name", [f"{row}.png,{row % 3},{name}" for row, name in enumerate(train)])
    write(root / "te.csv", "path,label,name", [f"{row + 6}.png,{row % 2},{name}" for row, name in enumerate(test)])
    assert len(ready(root, test="te.csv").test_set) == 4


def test_splits_of_one_table_that_number_names_anew(root):  # noqa: F811
    rows = [f"{row}.png,{row % 2},{'ab'[row % 2]},train" for row in range(6)]
    write(root / "train.csv", "path,label,name,split", [*rows, "6.png,0,b,test", "7.png,1,a,test"])
    with pytest.raises(InputError, match=r"has in row 2 the label 1 and 'b' but .*train\.csv has in row 7 the label 0"):
        ready(root)
    write(root / "train.csv", "path,label,name,split", [*rows, "6.png,0,a,test", "7.png,1,b,test"])
    assert len(ready(root).test_set) == 2


def test_the_metadata_of_sagemaker(root):  # noqa: F811
    def lines(name: str, names: str, rows: range) -> None:
        found = [
            {"source-ref": f"{row}.png", "label": row % 2, "label-metadata": {"class-name": names[row % 2], "job": "j"}}
            for row in rows
        ]
        (root / name).write_text("\n".join(map(json.dumps, found)))

    lines("train.jsonl", "ab", range(6))
    lines("te.jsonl", "ba", range(6, 10))
    options = {"train": "train.jsonl", "test": "te.jsonl", "path_column": "source-ref"}
    with pytest.raises(InputError, match=r"in the column 'label-metadata\.class-name': .*; write them there, or"):
        ready(root, **options)
    lines("te.jsonl", "ab", range(6, 10))
    assert len(ready(root, **options).test_set) == 4


@pytest.mark.parametrize("form", ["b\na\n", "number,name\n0,b\n1,a\n"])
def test_a_class_map_of_other_names(root, form):  # noqa: F811
    table(root, "train.csv", {"0": "a", "1": "b"}, "breed", range(8))
    class_map = root / ("names.csv" if "," in form else "names.txt")
    class_map.write_text(form)
    with pytest.raises(
        InputError, match=r"names\.\w+ gives the number 1 the name 'a' but .* row 1 the label 0 and 'a'"
    ):
        ready(root, class_map=class_map)
    class_map.write_text(form.replace("b\n", "n0123\n").replace("a\n", "n0456\n"))
    assert ready(root, class_map=class_map).class_names == ["n0123", "n0456"]


def test_files_of_parquet_that_number_names_anew(tmp_path):
    train = [(0, "a"), (1, "b"), (2, "c")] * 3
    said = r"train\.parquet has in row 3 the label 2 and 'c' but .*val\.parquet has in row 2 the label 1 and 'c' in"
    with pytest.raises(InputError, match=said):
        files(tmp_path / "one", "class", train=train, val=[(0, "a"), (1, "c")])
    data = files(tmp_path / "two", "class", train=train, val=[(0, "a"), (2, "c")], test=[(1, "b"), (0, None)])
    assert data.val_set.labels.tolist() == [0, 2]
    data = files(tmp_path / "three", "camera", train=train, val=[(0, "d"), (1, "e")])
    assert data.val_set.labels.tolist() == [0, 1]
    data = files(tmp_path / "four", "caption", train=[(n, f"text {row}") for row, (n, _) in enumerate(train)])
    assert data.num_classes == 3


def test_doctor_names_the_numbers(root, app):  # noqa: F811
    table(root, "train.csv", TRAIN, "label_name", range(6))
    table(root, "te.csv", {"0": "a", "1": "b"}, "label_name", range(6, 10))
    done = app("doctor", "--data", "Manifest", "--data.root", root, "--data.test", "te.csv", "--data.image_size", 8)
    assert done.code != 0 and "the numbers are not those of the same classes" in done.out + done.err


@pytest.mark.parametrize(
    ("column", "train", "test"),
    [
        ("comment", ["blurry", "dark", "", "", "blurry", "dark", "", "", ""], ["dark", "blurry"]),  # beside a few rows
        ("photographer_name", ["ann", "bob"] * 4, ["eve", "joe"]),  # of something else
        ("class_name", ["tench", "owl"] * 4, ["tench, Tinca tinca", "Owl"]),
    ],
)
def test_columns_that_do_not_number_names_anew(root, column, train, test):  # noqa: F811
    for name, cells, first in (("train.csv", train, 0), ("te.csv", test, len(train))):
        rows = [f'{first + row}.png,{row % 2},"{cell}"' for row, cell in enumerate(cells)]
        write(root / name, f"path,label,{column}", rows)
    data = ready(root, test="te.csv")
    assert data.test_set.labels.tolist() == [0, 1]
