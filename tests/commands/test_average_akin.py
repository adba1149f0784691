"""How akin two nets are: by all kernels together, and by their heads for themselves."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.commands import average as module
from vit_lightning.commands.average import _apart, _are_equal, _cosine, _difference, _splits
from vit_lightning.weights import Report


def state(first: list[float], second: list[float], head: list[float]) -> dict[str, torch.Tensor]:
    """Two kernels and a head's, beside biases and a table that do not count."""
    return {
        "blocks.0.weight": torch.tensor([first]),
        "blocks.1.weight": torch.tensor([second]),
        "norm.weight": torch.full((2,), 100.0),
        "position.table": torch.full((1, 2, 2), 100.0),
        "head.weight": torch.tensor([head]),
        "head.bias": torch.full((2,), -100.0),
    }


def test_the_cosine_is_of_all_kernels_together_and_not_the_mean_of_theirs():
    one, other = state([3.0, 4.0], [1.0, 0.0], [1.0, 1.0]), state([6.0, 8.0], [0.0, 2.0], [1.0, 0.0])
    # Alone the first ones agree, and the second ones have nothing in common.
    assert _cosine(one, other, is_head=False) == pytest.approx(50 / (26 * 104) ** 0.5)
    assert _cosine(one, other, is_head=True) == pytest.approx(0.5**0.5)
    assert _cosine(one, {name: -each for name, each in one.items()}, is_head=False) == pytest.approx(-1)


def test_a_head_of_zeros_is_akin_to_any():
    one, zeros = state([1.0, 2.0], [3.0, 4.0], [1.0, 1.0]), state([1.0, 2.0], [3.0, 4.0], [0.0, 0.0])
    assert _cosine(one, zeros, is_head=True) == _cosine(zeros, one, is_head=True) == 1.0
    assert _cosine(zeros, zeros, is_head=False) == pytest.approx(1.0)
    assert _cosine({}, {}, is_head=False) == 1.0


def net(cosine: float, head: float) -> SimpleNamespace:
    """A net whose kernels and head have these cosines with those of (1, 0)."""
    turned = [[value, (1 - value**2) ** 0.5] for value in (cosine, head)]
    return SimpleNamespace(state_dict=lambda: state(turned[0], turned[0], turned[1]))


@pytest.mark.parametrize(
    ("cosine", "head", "what"),
    [
        (0.9, 0.9, ""),
        (0.31, 0.31, ""),
        (0.29, 0.9, "weights"),
        (0.9, 0.29, "heads"),
        (0.29, 0.29, "weights"),
        (-0.9, 0.9, "weights"),
    ],
)
def test_weights_are_looked_at_before_heads(cosine, head, what):
    assert _apart(net(1.0, 1.0), net(cosine, head)) == what


def test_nested_facts_are_equal_where_all_of_them_are():
    one = {"a": {"labels": torch.arange(3), "n": 3}, "b": "x"}
    assert _are_equal(one, {"b": "x", "a": {"n": 3, "labels": torch.arange(3)}})
    for other in (
        {"a": {"labels": torch.arange(3), "n": 3}},
        {"a": {"labels": torch.arange(3), "n": 3}, "b": "x", "c": 1},
        {"a": {"labels": torch.arange(3), "n": 3}, "b": "y"},
        {"a": {"labels": torch.arange(3) + 1, "n": 3}, "b": "x"},
        {"a": {"labels": torch.arange(4), "n": 3}, "b": "x"},
        {"a": {"labels": [0, 1, 2], "n": 3}, "b": "x"},
        {"a": {"labels": torch.arange(3), "n": 3.0}, "b": "x"},
        None,
    ):
        assert not _are_equal(one, other)


def test_splits_are_compared_of_data_that_both_know():
    """What is seen of the data, and by which shares and seed they were drawn, is no split."""
    split = {"digest": "1", "train": 5, "val_fraction": 0.1, "test_fraction": 0.2, "split_seed": 3}
    one = Report("", "", of_data={"A": {"split": split}, "B": {"split": {"digest": "2"}}, "seen_labels": {}})
    other = Report("", "", of_data={"B": {"split": {"digest": "9"}}, "A": {"split": {}}, "C": {}, "seen_labels": {}})
    assert _splits(one, other) == {"A": {"digest": "1", "train": 5}, "B": {"digest": "2"}}
    assert _splits(one, Report("", "")) == {}


def test_every_common_split_must_be_the_same():
    first, second = Path("a.ckpt"), Path("b.ckpt")
    same = {"A": {"train": 5, "digest": "1"}, "B": {"train": 7, "digest": "2"}}
    module._check_split(second, same, first, {name: dict(split) for name, split in same.items()})
    other = same | {"B": {"train": 8, "digest": "3"}}
    with pytest.raises(module.InputError, match="trained on 7 and on 8 images, each of its own split"):
        module._check_split(second, same, first, other)


@pytest.mark.parametrize(
    ("this", "that", "said"),
    [
        ((1, 2), (1, 3), "(1, 2) and (1, 3)"),
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 4, "c": 5}, "b is 2 and 4"),
        ({"a": 1}, {"a": 1, "z": 4}, "z is None and 4"),
        ({}, {0: "x", 1: "y"}, "none and x, y"),
    ],
)
def test_the_first_thing_that_differs_is_shown(this, that, said):
    assert _difference(this, that) == said
