"""Kinds of numbers that weights may be, and names for a sentence."""

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.weights.completeness import check_dtype, some


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16, torch.float16, None])
def test_floating_point_numbers_are_weights(kind):
    check_dtype("head.weight", kind, torch.zeros(1), "net.ckpt")


@pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.int64, torch.complex64])
def test_other_numbers_are_none(kind):
    name = str(kind).removeprefix("torch.")
    with pytest.raises(InputError, match=f"head.weight of net.ckpt is {name}, but its net needs floating-point"):
        check_dtype("head.weight", kind, torch.zeros(1), "net.ckpt")
    check_dtype("norm.steps", kind, torch.zeros(1, dtype=torch.int64), "net.ckpt")  # a count is no weight


@pytest.mark.parametrize(
    ("names", "said"),
    [(["a"], "a"), (["c", "a", "b"], "a, b, c"), ("dbac", "a, b, c and 1 more"), ("edbac", "a, b, c and 2 more")],
)
def test_the_first_few_names_stand_in_a_sentence(names, said):
    assert some(names) == said
