"""How two configs differ."""

import pytest

from vit_lightning.runs.differences import differences


def test_what_both_have_is_compared_at_any_depth_and_sorted():
    old = {"b": 1, "a": {"y": [1, 2], "x": {"z": None}}, "gone": 1, "same": (1, 2)}
    new = {"b": 2, "a": {"y": [1, 3], "x": {"z": 0.5}}, "new": 1, "same": [1, 2]}
    found = differences(old, new)
    assert list(found.items()) == [
        ("a.x.z", "a.x.z: None -> 0.5"),
        ("a.y", "a.y: [1, 2] -> [1, 3]"),
        ("b", "b: 1 -> 2"),
    ]
    assert list(differences(old, new, "model.")) == ["model.a.x.z", "model.a.y", "model.b"]


@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        (8, (8, 8), False),
        ([8, 8], 8, False),
        (8, (8, 16), True),
        ((8, 16), (16, 8), True),
        (8, 16, True),
    ],
)
def test_one_side_of_an_image_stands_for_both(old, new, differ):
    assert bool(differences({"image_size": old}, {"image_size": new})) == differ
    assert differences({"patch": 8}, {"patch": [8, 8]})


def test_a_part_that_became_a_value_differs():
    assert differences({"a": {"x": 1}}, {"a": None}) == {"a": "a: {'x': 1} -> None"}
