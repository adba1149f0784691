"""Lists of classes in JSON, and lists in the text of a label."""

import json

import pytest

from datamodules.reading.class_map_file import read_class_map
from vit_lightning.errors import InputError


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
