"""Rules about class lists and labels one by one, without the tables that they are of."""

import json
from pathlib import Path

import numpy as np
import pytest

from datamodules.reading import class_map as rules
from datamodules.reading import class_map_file
from datamodules.reading.class_map import WrongLabelsError
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("labels", "training", "found"),
    [
        (["0", "1"], ["1", "2"], ["0"]),
        (["0.0", "2"], ["1.0", "2"], ["0.0"]),
        (["0", "1"], ["0", "1"], []),
        (["0", "1"], ["2", "3"], []),
        (["0", "1"], ["1", "cat"], []),
        (["1", "2"], ["1", "2"], []),
        (["0"], [], []),
        (["0"], ["1", "0.0"], []),
    ],
)
def test_numbers_that_are_counted_from_1_in_training(labels, training, found):
    assert rules.counted_from_zero(labels, training) == found


@pytest.mark.parametrize(
    ("labels", "multi_label", "separator", "most", "said"),
    [
        (
            ["cat", "dog", "cat;dog"],
            False,
            None,
            1,
            "whose parts are labels of their own; give --data.multi_label true if",
        ),
        (["cat", "dog", "cat;dog"], False, "|", 1, "give --data.multi_label true if"),
        (["cat", "dog", "cat;dog"], True, None, 2, "divide it at ';' into a list if"),
        (["cat", "dog", "cat;dog"], True, ";", 2, "divide it at ';' into a list if"),
        (["cat", "dog", "cat;dog"], True, "|", 2, "give --data.separator ';' if"),
        (["cat", "dog", "cat/dog"], True, "|", 2, "give --data.separator '/' if"),
        (["cat", "dog", "cat/dog"], False, None, 1, None),
        (["cat", "cat|dog"], False, None, 1, "whose parts other labels are or have; give --data.multi_label true if"),
        (["cat", "cat|dog"], True, None, 1, "whose parts other labels are or have; divide it at"),
        (["cat", "cat|dog"], True, None, 2, None),
        (["cat", "cat,dog"], True, None, 1, "whose parts other labels are or have; divide it at ',' into"),
        (["cat", "cat,dog"], False, None, 1, None),
        (["cat", "dog"], True, None, 1, None),
    ],
)
def test_labels_made_of_others(labels, multi_label, separator, most, said):
    for check in (rules.check_joined, rules.classes_in_text):
        if said is None:
            check(labels, multi_label, separator, most)
            continue
        with pytest.raises(WrongLabelsError) as told:
            check(labels, multi_label, separator, most)
        assert said in told.value.why and told.value.labels == {labels[-1]}
        assert told.value.why.endswith(" it holds several labels, else --data.class_map")


@pytest.mark.parametrize(
    ("labels", "few", "said"),
    [
        (["1", "cat", "dog"], {"1"}, "where others are names, such as 'cat'"),
        (["1", "2", "dog"], {"dog"}, "where others are numbers, such as '1'"),
        (["0.5", "cat"], None, None),
        (["1", "2.5"], None, None),
        (["cat", "01"], None, None),
    ],
)
def test_numbers_beside_names(labels, few, said):
    if few is None:
        rules.check_kinds(labels)
        return
    with pytest.raises(WrongLabelsError) as told:
        rules.check_kinds(labels)
    assert said in told.value.why and told.value.labels == few


@pytest.mark.parametrize(
    ("labels", "listed", "wrong"),
    [
        (["cat", "None"], [], {"None"}),
        (["cat", "-1.0"], [], {"-1.0"}),
        (["cat", "N/A", "nan"], [], {"N/A", "nan"}),
        (["cat", "nano"], ["null"], None),
        (["cat"], ["Cat", "owl"], {"Cat", "cat"}),
        (["cat", "owl"], ["cat", "dog"], None),
    ],
)
def test_names_that_are_one_or_none(labels, listed, wrong):
    if wrong is None:
        rules.check_names(labels, listed)
        return
    with pytest.raises(WrongLabelsError) as told:
        rules.check_names(labels, listed)
    assert told.value.labels == wrong


def test_the_first_row_of_some_labels():
    names, rows = ["a", "b", "c"], Ragged(np.array([0, 2, 0, 1, 2]), np.array([0, 1, 1, 3, 5]))
    assert rules.first_of({"c"}, names, rows) == (2, "c")
    assert rules.first_of({"b", "c"}, names, rows) == (2, "c")
    assert rules.first_of({"b"}, names, rows) == (3, "b") and rules.first_of({"a"}, names, rows) == (0, "a")


@pytest.mark.parametrize(
    ("names", "in_place"),
    [
        (["0", "1"], True),
        (["cat", "1"], True),
        (["1", "0"], False),
        (["0", "cat", "1"], False),
        (["cat", "1.0"], True),
        (["0.5"], False),
    ],
)
def test_names_that_are_numbers_of_their_places(names, in_place):
    assert rules.numbers_in_place(names) is in_place
    listed = [(Path("b.csv"), ["x"]), (Path("c.csv"), names)]
    rules.check_meaning([], listed)
    if in_place:
        rules.check_meaning([Path("a.csv")], listed)
        return
    with pytest.raises(
        InputError, match=rf"^a\.csv has numbers as labels, .* that c\.csv lists \({', '.join(names)}\) or"
    ):
        rules.check_meaning([Path("a.csv")], listed)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["1", "0"], "0 may be the name of a class or the place of 1"),
        (["0", "2", "1"], "1 may be the name of a class or the place of 2"),
        (["cat", "2", "1"], "1 may be the name of a class or the place of 2"),
        (["1", "2"], None),
        (["0", "1", "cat"], None),
        (["cat", "dog"], None),
    ],
)
def test_numbers_in_another_order(names, said):
    if said is None:
        rules.check_order(names, "the set")
        return
    with pytest.raises(InputError, match=f"^the set has numbers as labels, .*: {said}; order the map"):
        rules.check_order(names, "the set")


@pytest.mark.parametrize(
    ("name", "text", "pairs"),
    [
        ("x.csv", "n01,tench\nn02,shark\nn03,tench\n", {"n01": "tench", "n02": "shark", "n03": "tench"}),
        ("x.json", '{"n01": " tench "}', {"n01": "tench"}),
        ("x.txt", "n01,tench\n", {}),
        ("x.CSV", "n01,1\nn02,01\n", {"n01": "1", "n02": "01"}),
        ("x.csv", "tench,0\n", {}),
    ],
)
def test_folders_that_have_another_name(tmp_path, name, text, pairs):
    (tmp_path / name).write_text(text)
    assert class_map_file.read_renaming(tmp_path / name) == (pairs if name != "x.CSV" else {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n01,tench\nn01,shark\n", "it has the folder 'n01' twice; give each folder one class"),
        (
            "n01,caf\u00e9\nn02,cafe\u0301\n",
            "look alike, but their code points .* differ; write both alike, or give each class",
        ),
        ("n01,x\nn02,  \n", "it has the name '', which is empty"),
    ],
)
def test_renamings_that_cannot_be(tmp_path, text, said):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=rf"^--data\.class_map .*x\.csv cannot be read: .*{said}"):
        class_map_file.read_renaming(tmp_path / "x.csv")


def test_numbers_that_are_names_of_two_classes(tmp_path):
    (tmp_path / "x.txt").write_text("1\n01\n2\n")
    assert class_map_file.read_class_map(tmp_path / "x.txt") == ["1", "01", "2"]
    assert rules.class_numbers(["2.0", "01", "1"], ["1", "01", "2"]).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("training", "names", "file", "is_said"),
    [
        (["1", "2"], "cat dog cow", "map.txt", True),
        (["1.0", "2"], "cat dog cow", "map.txt", True),
        (["0", "1", "2"], "cat dog cow", "map.txt", False),
        (["1"], "cat dog", "map.txt", False),
        (["5", "17"], "cat dog cow", "map.txt", False),
        (["1", "2"], "cat dog cow", "map.csv", False),  # says the numbers
        (["1", "2"], "cat dog cow", "map.json", True),
        (["1", "2"], "cat dog cow", "object.json", False),
        (["1", "2"], "1 2 3", "map.txt", False),
        (["cat", "dog"], "cat dog cow", "map.txt", False),
        ([], "cat dog", "map.txt", False),
    ],
)
def test_labels_that_begin_at_1_beside_a_longer_list(tmp_path, training, names, file, is_said):
    numbers = {name: number for number, name in enumerate(names.split())}
    texts = {
        "map.txt": "\n".join(numbers),
        "map.csv": "".join(f"{number},{name}\n" for name, number in numbers.items()),
        "map.json": json.dumps([*numbers]),
        "object.json": json.dumps(numbers),
    }
    (tmp_path / file).write_text(texts[file])
    found = class_map_file.ClassMap(tmp_path / file, lambda: training)
    if not is_said:
        found.check_numbers(training, "t.csv")
        class_map_file.ClassMap(None, lambda: training).check_numbers(training, "t.csv")
        return
    said = r"^t\.csv has the labels 1 to 2 and no 0 in training, and .*map\.\w+ lists 3 names: 1 may be 'cat', counted"
    with pytest.raises(InputError, match=said):
        found.check_numbers(training, "t.csv")


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        (["cat", "dog", "?"], "?"),
        (["cat", "dog", "-"], "-"),
        (["cat", "--"], "--"),
        (["cat", "."], "."),
        (["cat", "Missing"], "Missing"),
        (["cat", "nil"], "nil"),
        (["undefined", "cat"], "undefined"),
        (["+", "-", "="], None),
        (["?", "!", "."], None),
        (["?"], None),
        (["cat", "missing hole"], None),
        (["0", "1"], None),
    ],
)
def test_a_label_that_may_stand_for_a_missing_one(labels, label):
    said = rules.doubtful_label(labels)
    assert said is None if label is None else said.startswith(f"the label {label!r} may stand for a missing one")
