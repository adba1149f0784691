"""The distributions by which layers begin, against their formulas."""

import math

import pytest
import torch

from vit_lightning.models.dense import Dense, lecun_normal_, normal_, xavier_


@pytest.mark.parametrize(("shape", "parts"), [((60, 40), 1), ((60, 40), 3), ((40, 200), 2)])
def test_xavier_is_uniform_up_to_the_bound_of_each_matrix_in_a_stack(shape, parts):
    torch.manual_seed(0)
    weight = xavier_(torch.empty(shape), parts)
    bound = math.sqrt(6 / (shape[1] + shape[0] / parts))
    assert 0.99 * bound < weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)


@pytest.mark.parametrize("shape", [(50, 400), (20, 3, 10, 10)])
def test_lecun_is_a_normal_one_cut_at_two_deviations(shape):
    torch.manual_seed(0)
    weight = lecun_normal_(torch.empty(shape))
    inputs = math.prod(shape[1:])
    assert weight.std().item() == pytest.approx(1 / math.sqrt(inputs), rel=0.03)
    cut = 2 / math.sqrt(inputs) / 0.8796256610342398
    assert 0.95 * cut < weight.abs().max() <= cut * 1.0001


def test_normal_has_the_deviation_and_a_layer_begins_as_it_says():
    torch.manual_seed(0)
    assert normal_(torch.empty(10_000), 0.02).std().item() == pytest.approx(0.02, rel=0.05)
    layer = Dense(3, 5, torch.nn.init.ones_, lambda bias: torch.nn.init.constant_(bias, 7))
    assert layer.weight.eq(1).all() and layer.bias.eq(7).all() and layer.weight.shape == (5, 3)
    plain = Dense(30, 50)
    assert not plain.bias.any() and plain.weight.abs().max() <= math.sqrt(6 / 80)
    assert torch.equal(layer(torch.ones(2, 3)), torch.full((2, 5), 10.0))
    with torch.device("meta"):
        assert Dense(3, 5, lecun_normal_).weight.is_meta
