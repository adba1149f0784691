"""Columns at the border of stating splits: as many blanks as words, one split alone, long texts, words as numbers."""

import pytest

from datamodules.reading.splits import CELLS
from datamodules.reading.stated_split import Said, check_flag, decide, naming, read, split_words
from vit_lightning.errors import InputError


def found(name: str, cells: list, split: str = "train", use: str = "taken"):
    return decide("t.csv", read([(cell,) for cell in cells], [name]), split, use)


@pytest.mark.parametrize(("blanks", "column"), [(1, "note"), (2, None), (3, None)])
def test_a_column_called_otherwise_states_splits_where_most_of_its_cells_do(blanks, column):
    said = found("note", ["train", *[None] * blanks, "test"])
    assert said.column == column
    assert [text.startswith("t.csv has the column 'note', in which some words may") for text in said.notices] == (
        [] if column else [True]
    )
    assert found("set", ["train", *[None] * blanks, "test"]).column == "set"


def test_a_column_of_words_that_train_as_well_is_not_said_where_it_divides_nothing():
    assert found("split", ["trainval", "trainval"]) == (None, [])
    assert found("split", ["trainval", "test", "trainval"]).notices == [
        "t.csv has in the column 'split' trainval in 2 rows, which train as well"
    ]


@pytest.mark.parametrize(("split", "use"), [("train", "refused"), ("val", "taken"), ("val", "refused")])
def test_a_table_beside_others_may_be_of_one_split(split, use):
    assert found("split", ["test", "test"], split, use) == (None, [])
    with pytest.raises(InputError, match=r"t\.csv is to train, and its column 'split' names no split but test; give"):
        found("split", ["test", "test"])


def test_an_error_proposes_splits_for_the_four_most_frequent_texts():
    texts = ["a_train", *["b_test"] * 5, *["c_val"] * 3, *["d_test"] * 2, *["e_val"] * 4, "f_test"]
    with pytest.raises(InputError) as error:
        found("split", texts)
    pairs = "{b_test: test, e_val: val, c_val: val, d_test: test}"
    assert f"--data.split_names '{pairs}' says their splits" in str(error.value)
    assert "has in row 1 'a_train' in the column 'split', which may name the splits train and val and test" in str(
        error.value
    )


def test_words_are_compared_as_numbers_are_written():
    assert split_words({"1.0": "val", " Query ": "test", 0: "train"}) == CELLS | {
        **{"1": "val", "query": "test", "0": "train"},
    }
    words = split_words({"1.0": "val", "0": "train"})
    said = read([(1.0,), ("0.0",), (1,)], ["fold"], words)["fold"]
    assert said.splits == {"val": 2, "train": 1} and said.count == 0


def test_a_long_text_is_cut_in_a_proposal():
    assert naming(["x" * 61], ["train"]) == f"--data.split_names '{{{'x' * 60}: test}}'"
    assert naming(["a: b" + "x" * 61], ["train"]) == f"--data.split_names '{{\"a: b{'x' * 56}\": test}}'"


def test_what_the_cells_say_is_counted():
    rows = [("train", "a"), ("", "b"), (None, "train"), ("x", "c"), ("my_test", "d"), (float("nan"), "e")]
    assert read(rows, ["split", "other"]) == {
        "split": Said(
            is_likely=True,
            splits={"train": 1},
            joined={"my_test": 1},
            first_other=(2, ""),
            count=2,
            blank=3,
            is_plain=True,
        )
    }


@pytest.mark.parametrize("column", [True, ""])
def test_what_is_no_name_of_a_column(column):
    with pytest.raises(InputError, match=rf"--data\.split_column {column!r} is no column; give its name, or false"):
        check_flag(column, "split_column")
    for allowed in (None, False, "split", "true"):
        check_flag(allowed, "split_column")


def test_rows_are_read_as_long_as_a_column_may_state_splits():
    def rows():
        yield from [("train", "a"), ("b", "c")]
        raise AssertionError("no column is left that may state splits")

    assert read(rows(), ["one", "two"]) == {}
