"""Averages over tasks of a benchmark."""

import pytest

from vit_lightning.evaluation.averages import averages

GROUPS = {"natural": ["a", "b", "c"], "structured": ["d"]}
SCORES = {"a": 0.1, "b": 0.2, "c": 0.6, "d": 0.7, "of no group": 0.0}


def test_small_groups_weigh_more_in_the_mean_of_groups_alone():
    found = averages(SCORES, GROUPS)
    assert list(found) == ["natural", "structured", "mean", "mean of groups"]
    assert list(found.values()) == pytest.approx([0.3, 0.7, 0.4, 0.5])


def test_no_average_is_of_a_part():
    assert averages({name: SCORES[name] for name in "abd"}, GROUPS) == {"structured": 0.7}
    assert averages(SCORES, GROUPS | {"empty": []}) == pytest.approx({"natural": 0.3, "structured": 0.7})
    assert averages(SCORES, {}) == {}
