"""What columns call the numbers of parts of a set, by hand: who is counted, what is one to one, what contradicts."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.reading.named_codes import Named, check, in_parquet, in_rows
from vit_lightning.errors import InputError


def named(place: str, *pairs: str, column: str = "breed", labelled: int | None = None) -> Named:
    """A part in which each row has a number and a name, as "0 cat"."""
    found = Named(place, column)
    for row, (number, name) in enumerate((pair.split(" ", 1) for pair in pairs), start=1):
        found.add(number, name, row)
    found.labelled = found.rows if labelled is None else labelled
    return found


TRAIN = ("0 cat", "1 dog", "0 cat", "1 dog", "1 dog", "0 cat", "1 dog", "0 cat", "0 cat")
OTHER = ("0 dog", "1 cat", "0 dog", "1 cat")


def test_both_rows_of_a_contradiction_are_named():
    said = (
        r"^train has in row 2 the label 1 and 'dog' but test has in row 1 the label 0 and 'dog' in the column 'breed': "
        r".*; give --data\.label_column breed to go by these names"
    )
    with pytest.raises(InputError, match=said):
        check([named("train", *TRAIN), named("test", *OTHER)], {})
    with pytest.raises(InputError, match=r"^val has in row 2 the label 1 and 'cat' but test has in row 1 the label 0"):
        check([named("train", "0 cow", "0 cow"), named("val", *OTHER), named("test", *TRAIN)], {})
    check([named("train", *TRAIN), named("test", *TRAIN[:4]), named("val", "1 Dog", "0 cat")], {})
    check([named("train", *TRAIN), named("test", *OTHER, column="other")], {})


@pytest.mark.parametrize(("labelled", "is_dense"), [(10, True), (11, False)])
def test_a_column_names_classes_where_nine_of_ten_labelled_rows_have_a_name(labelled, is_dense):
    parts = [named("train", *TRAIN, labelled=labelled), named("test", *OTHER)]
    for some in (parts, parts[::-1]):
        if is_dense:
            with pytest.raises(InputError, match="the numbers are not those of the same classes"):
                check(some, {})
        else:
            check(some, {})


@pytest.mark.parametrize(
    ("train", "is_sure"),
    [(TRAIN[:4], True), (TRAIN[:3], False), (("0 cat",) * 4, False), (("0 a", "1 b", "1 b", "0 a"), True)],
)
def test_a_column_may_name_classes_where_some_part_has_each_of_several_names_twice(train, is_sure):
    few = named("test", "0 dog" if "0 cat" in train else "0 b")
    if is_sure:
        with pytest.raises(InputError, match="test has in row 1"):
            check([named("train", *train), few], {})
        with pytest.raises(InputError, match="test has in row 1"):
            check([few, named("train", *train)], {})
    else:
        check([named("train", *train), few], {})


def test_numbers_with_other_names_contradict_in_a_column_of_classes_alone():
    parts = [("train", TRAIN), ("test", ("0 cow", "1 dog", "0 cow", "1 dog"))]
    check([named(place, *rows) for place, rows in parts], {})
    with pytest.raises(InputError, match=r"train has in row 1 the label 0 and 'cat' but test has in row 1 the label 0"):
        check([named(place, *rows, column="class name") for place, rows in parts], {})
    longer = [("train", TRAIN), ("test", ("0 cat, tabby", "1 dog", "0 cat, tabby", "1 dog"))]
    check([named(place, *rows, column="class name") for place, rows in longer], {})


def test_a_class_map_comes_first():
    said = (
        r"^--data\.class_map names\.csv gives the number 1 the name 'cat' but train has in row 1 the label 0 and 'cat'"
    )
    with pytest.raises(InputError, match=said):
        check([named("train", *TRAIN)], {"0": "dog", "1": "cat"}, "names.csv")
    check([named("train", *TRAIN)], {"0": "cat", "1": "dog", "2": "cow"}, "names.csv")


@pytest.mark.parametrize(
    "pairs", [("0 cat", "0 dog"), ("0 cat", "1 cat"), ("0 cat", "1 Cat"), ("0 1",), ("0 cat", "1 2.5")]
)
def test_what_is_not_one_to_one_names_no_classes(pairs):
    part = named("train", *TRAIN, *pairs)
    assert not part.is_one_to_one
    check([part, named("test", *OTHER)], {})
    again = Named.loaded(part.dumped())
    assert not again.is_one_to_one and again.names == {} and (again.rows, again.labelled) == (part.rows, part.rows)


def test_what_is_kept_of_a_part_is_read_back():
    part = named("train", "0 cat", "1 dog", "0 Cat", labelled=7)
    again = Named.loaded(part.dumped())
    assert part.is_one_to_one and (again.place, again.column, again.rows, again.labelled) == ("train", "breed", 3, 7)
    assert {number: tuple(name) for number, name in again.names.items()} == {"0": ("cat", 1), "1": ("dog", 2)}


def test_rows_are_counted_for_each_split_and_column():
    rows = [
        ("cat", {"name": "x", "count": 3}),
        ("dog", None),
        (" cat ", {"name": "x"}),
        ("", {}),
        ("owl", None),
        (4, None),
    ]
    found = in_rows("t.csv", ["breed", "facts"], rows, ["0", "1", "0", "1", "", "1"], [0, 0, 1, 1, 1, 0])
    assert {(one.column, one.rows, one.labelled, *one.names.items()) for one in found} == {
        ("breed", 2, 3, ("0", ("cat", 1)), ("1", ("dog", 2))),
        ("breed", 1, 2, ("0", ("cat", 3))),
        ("facts.name", 1, 3, ("0", ("x", 1))),
        ("facts.name", 1, 2, ("0", ("x", 3))),
    }
    (alone,) = in_rows("t.csv", ["breed"], [("cat",), ("cat",)], ["0", "0"], [])
    assert (alone.rows, alone.labelled, alone.place) == (2, 2, "t.csv")


def test_columns_of_a_parquet_file_are_read_as_long_as_they_are_one_to_one(tmp_path):
    """Of three, the first has two names for one number; rows without a label count for nothing."""
    columns = {
        "note": ["x", "y", "x", "y", "x", "y"],
        "breed": ["cat", "dog", "cat", None, "cat", " dog "],
        "colour": ["red", "blue", "red", "blue", "red", "blue"],
        "number": [1, 2, 3, 4, 5, 6],
    }
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=2)
    places, texts = np.array([0, 1, 0, 1, 1, -1]), ["7", "9"]
    labels = SimpleNamespace(file=tmp_path / "x.parquet", places=places, texts=texts, names=None, numbered=True)
    splits = np.array([0, 0, 0, 0, 1, 1])
    found = {(one.column, one.rows, one.labelled): one.names for one in in_parquet(labels, {"colour"}, splits)}
    assert found == {
        **{("note", 4, 4): {"7": ("x", 1), "9": ("y", 2)}, ("note", 1, 1): {"9": ("x", 5)}},
        **{("breed", 3, 4): {"7": ("cat", 1), "9": ("dog", 2)}, ("breed", 1, 1): {"9": ("cat", 5)}},
    }
    places[:] = [0, 0, 0, 1, 1, 1]  # the note and the breed of 7 are two, the colour too
    columns["colour"] = ["red", "red", "red", "blue", "blue", "blue"]
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=2)
    whole = {one.column: (one.is_one_to_one, one.rows, one.labelled) for one in in_parquet(labels, (), None)}
    assert whole["colour"] == (True, 6, 6) and not whole["note"][0] and not whole["breed"][0]
