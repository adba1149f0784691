"""Weights that are no numbers are named, and how many there are."""

import math

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.models.finite import check_finite


def test_numbers_pass_whatever_their_kind():
    tensors = {"a": torch.tensor([0.0, -1e38, 1e38]), "count": torch.tensor(3), "half": torch.zeros(2).half()}
    check_finite(tensors | {"none": torch.empty(0)}, "x.ckpt")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_the_first_tensor_with_others_is_named(value, kind):
    whole, bad = torch.ones(2, 3, dtype=kind), torch.ones(2, 3, dtype=kind)
    bad[1, :2] = value
    said = r"^x\.ckpt holds weights that are not finite: 2 of 6 values of b are NaN or infinite"
    with pytest.raises(InputError, match=f"{said}; take weights of before"):
        check_finite({"a": whole, "b": bad}, "x.ckpt")
    with pytest.raises(InputError, match=f"{said}, and 1 other tensor holds more; take weights of before"):
        check_finite({"a": whole, "b": bad, "c": bad}, "x.ckpt")
    with pytest.raises(InputError, match=f"{said}, and 2 other tensors hold more; take weights of before"):
        check_finite({"a": whole, "b": bad, "c": bad, "d": torch.nn.Parameter(bad)}, "x.ckpt")
