import json

import numpy as np
import pytest

from datamodules.reading.class_map import (
    class_numbers,
    classes_of,
    nested,
    not_utf8,
    numbered_classes,
    read_class_map,
    whole_number,
)
from vit_lightning.data.datamodule import MOST_CLASSES
from vit_lightning.errors import InputError


def test_names_in_order_and_files_that_hold_none(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("zebra\n\n ant \n", encoding="utf-8")
    assert read_class_map(path) == ["zebra", "ant"]
    path.write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(InputError, match=r"names\.txt cannot be read: it is not UTF-8 text"):
        read_class_map(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_class_map(tmp_path / "nowhere")


def test_labels_are_names_or_all_whole_numbers_up_to_the_greatest():
    assert classes_of(["1", "cat"], "t.csv") == ["1", "cat"]
    assert classes_of(["0", "3"], "t.csv") == ["0", "1", "2", "3"]
    with pytest.raises(InputError, match=r"t\.csv has the label 1000000, which is no class below 1000000; give --data"):
        classes_of(["1000000"], "t.csv")


def test_labels_are_looked_up_by_name_and_where_wanted_by_number():
    classes = ["cat", "2", "dog"]
    assert class_numbers(["dog", "cat", "cow", "0", "2"], classes).tolist() == [2, 0, -1, -1, 1]
    assert class_numbers(["dog", "0", "2", "3", "-1"], classes, or_numbers=True).tolist() == [2, 0, 1, -1, -1]


def test_a_name_of_two_classes_names_none():
    classes = ["crane", "dog", "crane"]
    assert class_numbers(["dog", "2"], classes, or_numbers=True).tolist() == [1, 2]
    with pytest.raises(InputError, match="the label 'crane' is the name of several classes"):
        class_numbers(["crane"], classes)


def test_whole_numbers_may_be_written_as_floats():
    assert classes_of(["0.0", "10", "2."], "t.csv") == [str(number) for number in range(11)]
    assert classes_of(["-1.0", "1"], "t.csv") == ["-1", "1"]
    assert class_numbers(["2.0", "1e0", "0.5", "nan"], ["0", "1", "2"]).tolist() == [2, 1, -1, -1]
    assert class_numbers(["2.0", "2"], ["2.0", "x"]).tolist() == [0, -1]
    assert class_numbers(["0"], ["3", "1"], or_numbers=True).tolist() == [-1]
    with pytest.raises(InputError, match=r"t\.csv has the label 0\.5, expected names or whole numbers"):
        classes_of(["0.5", "1"], "t.csv")


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ('["zebra", "ant", "cat"]', ["zebra", "ant", "cat"]),
        ('{"zebra": 2, "ant": 0, "cat": 1}', ["ant", "cat", "zebra"]),
        ('{"2": "ant", "0": "zebra", "1": "cat"}', ["zebra", "cat", "ant"]),
        (json.dumps({str(number): "abcdefghijk"[number] for number in range(10, -1, -1)}), list("abcdefghijk")),
        ('{"7": 1, "5": 0}', ["5", "7"]),
    ],
)
def test_json_lists_names_by_their_place_or_number(tmp_path, content, names):
    (tmp_path / "names.json").write_text(content)
    assert read_class_map(tmp_path / "names.json") == names


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('["a", 1]', "expected a list of names, or an object of names and numbers"),
        ("3", "expected a list of names, or an object of names and numbers"),
        ('{"a": "b"}', "expected an object of names and numbers"),
        ('{"a": 0, "b": "c"}', "expected an object of names and numbers"),
        ('{"a": 0, "b": 2}', "expected the numbers 0 to 1, each once"),
        ('{"a": 1, "b": 2}', "expected the numbers 0 to 1, each once"),
        ('{"a": 0, "b": 0}', "expected the numbers 0 to 1, each once"),
        ('{"0": "a", "00": "b"}', "expected the numbers 0 to 1, each once"),
    ],
)
def test_json_of_another_kind_is_refused(tmp_path, content, said):
    (tmp_path / "names.json").write_text(content)
    with pytest.raises(InputError, match=rf"--data.class_map .*names.json cannot be read: {said}"):
        read_class_map(tmp_path / "names.json")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfea\0", "it is not UTF-8 text but UTF-16; save it as UTF-8"),
        (b"\xfe\xff\0a", "it is not UTF-8 text but UTF-16; save it as UTF-8"),
        (b"a\xff\xfe", "it is not UTF-8 text"),
        (b"", "it is not UTF-8 text"),
    ],
)
def test_what_is_no_utf_8_is_told_apart(data, said):
    assert not_utf8(data) == said


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("['a', 2]", ["a", 2]),
        ('["a", null]', ["a", None]),
        ("{'a': 1}", {"a": 1}),
        ("[]", []),
        ("{1, 2}", None),  # a set
        ("[a]", None),
        ("[1}", None),
        ("(1, 2)", None),
        ("a", None),
        ("", None),
        ("[", None),
    ],
)
def test_lists_and_objects_in_text(text, found):
    assert nested(text) == found


def test_numbers_stand_for_classes_in_their_own_order_alone():
    """Where all names are numbers but not their places, a number is a name and nothing else."""
    assert class_numbers(["0", "1", "2"], ["2", "1", "0"], or_numbers=True).tolist() == [2, 1, 0]
    assert class_numbers(["0", "1", "3"], ["0", "1", "2"]).tolist() == [0, 1, -1]
    assert class_numbers(["01", "1.0"], ["0", "1"]).tolist() == [1, 1]
    assert class_numbers(["01", "3"], ["a", "b", "c"], or_numbers=True).tolist() == [1, -1]
    assert class_numbers(["1"], ["a", "b"]).tolist() == [-1]
    assert class_numbers(["cat"], ["dog", "cat"]).dtype == np.int32


@pytest.mark.parametrize(
    ("label", "whole"),
    [
        ("2.0", "2"),
        ("2", "2"),
        ("02", "02"),
        ("-3.0", "-3"),
        ("1e2", "100"),
        ("2.5", "2.5"),
        ("x", "x"),
        ("nan", "nan"),
    ],
)
def test_floats_that_are_whole_are_whole_numbers(label, whole):
    assert whole_number(label) == whole


def test_as_many_classes_are_made_as_the_greatest_number_asks_for():
    assert numbered_classes(-1, "t") == [] and numbered_classes(2, "t") == ["0", "1", "2"]
    assert len(numbered_classes(MOST_CLASSES - 1, "t")) == MOST_CLASSES
    with pytest.raises(InputError, match=f"t has the label {MOST_CLASSES}, which is no class below {MOST_CLASSES}; x"):
        numbered_classes(MOST_CLASSES, "t", "; x")
    assert classes_of(["b", "a", "10"], "t") == ["b", "a", "10"]
