"""Facts of a config, checked before they are used."""

import pytest

from vit_lightning.errors import InputError
from vit_lightning.weights.layouts.facts import fact, names_in, numbers_fact, size_fact


@pytest.mark.parametrize(
    ("value", "kind", "right"),
    [
        (3, int, True),
        (True, int, False),
        (0, bool, False),
        (False, bool, True),
        (3, float, True),
        (3.5, float, True),
        (True, float, False),
        (3.0, int, False),
        ("3", int, False),
        ("a", str, True),
        ([1], (int, list), True),
        (1, (int, list), True),
        ({}, (int, list), False),
        (None, int, False),
    ],
)
def test_a_fact_has_its_type(value, kind, right):
    if right:
        assert fact({"x": value}, "x", kind, "default") is value
    else:
        with pytest.raises(InputError, match="The file's config says x="):
            fact({"x": value}, "x", kind, "default")


def test_what_is_not_said_is_the_default():
    assert fact({"y": 1}, "x", int, 7) == 7 and fact({}, "x", int, None) is None and fact({"x": 7}, "x", int, 7) == 7


@pytest.mark.parametrize(
    ("value", "size"),
    [(8, (8, 8)), ([8, 16], (8, 16)), ((3, 8, 16), (8, 16)), ([], None), (None, None)],
)
def test_a_size_is_a_side_or_two(value, size):
    assert size_fact({"x": value} if value is not None else {}, "x") == size
    assert size_fact({}, "x", 224) == (224, 224)


@pytest.mark.parametrize("value", [0, -8, [8], [8, 0], [8, 8.5], [8, True], "8"])
def test_what_is_no_size_is_told(value):
    with pytest.raises(InputError, match="The file's config says x="):
        size_fact({"x": value}, "x")


def test_numbers_are_one_per_channel():
    assert numbers_fact({"x": [0.1, 2, 0.3]}, "x", 3) == (0.1, 2, 0.3)
    assert numbers_fact({"x": [0.1, 0.2]}, "x", 3) is None and numbers_fact({}, "x", 3) is None
    for value in (["a"], [True], 0.5):
        with pytest.raises(InputError, match="The file's config says x="):
            numbers_fact({"x": value}, "x", 1)


@pytest.mark.parametrize(
    ("names", "carried", "found"),
    [
        (["0", "1"], {0: ["ant"], 1: ["bee", "wasp"]}, ["ant", "bee, wasp"]),
        (["x", "y"], {0: ["ant"], 1: ["bee"]}, ["x", "y"]),
        (["0", "1"], {0: ["ant"]}, ["0", "1"]),
        (["0", "1"], {0: ["ant"], 2: ["bee"]}, ["0", "1"]),
        (["0", "1"], {0: ["ant"], 1: ["bee"], 2: ["cow"]}, ["0", "1"]),
        (["0", "1"], 3, ["0", "1"]),
        ([], {}, []),
    ],
)
def test_numbers_give_way_to_what_the_training_set_calls_its_classes(names, carried, found):
    assert names_in({"class_names": names, "seen_labels": {"class_names": carried}}) == found
    assert names_in({"class_names": names}) == names
    assert names_in({"class_names": names, "seen_labels": 3}) == names
