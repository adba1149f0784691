"""What was written is compared with the net: every tensor, and what it computes."""

import copy

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, build
from vit_lightning.weights.save import compare, parity

TINY = {"variant": "Ti/4", "width": 16, "depth": 1, "heads": 2, "mlp": 24}


def filled(randomise, head: bool = True, **fields: object) -> Net:
    torch.manual_seed(0)
    net = randomise(build(NetConfig(**TINY | fields), 8, 3))
    if not head:
        torch.nn.init.zeros_(net.head.weight)
    return net


@pytest.mark.parametrize("head", [True, False], ids=["a head", "a head of zeros"])
@pytest.mark.parametrize("fields", [{"gelu": "exact"}, {"norm_eps": 1e-1}, {"heads": 4}])
def test_a_net_of_the_same_tensors_that_computes_something_else_is_no_copy(randomise, head, fields):
    """A head of zeros gives every image the same logits, which say nothing."""
    net, other = filled(randomise, head), filled(randomise, head, **fields)
    other.load_state_dict(net.state_dict())
    assert compare(net, copy.deepcopy(net), "npz") == 0
    with pytest.raises(InputError, match=rf"cannot say all of this net \(net\.{next(iter(fields))}="):
        compare(net, other, "npz")


def test_a_tensor_that_was_lost_or_changed_is_named(randomise):
    net, other = filled(randomise), filled(randomise)
    with torch.no_grad():
        other.head.bias[1] += 1e-7
    with pytest.raises(InputError, match=r"cannot say all of this net \(head\.bias\)"):
        compare(net, other, "npz")


@pytest.mark.parametrize("trains", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("head", [True, False], ids=["a head", "a head of zeros"])
def test_a_net_is_compared_without_dropout_and_left_in_its_mode(randomise, head, trains):
    net = filled(randomise, head, dropout=0.5).train(trains)
    assert compare(net, copy.deepcopy(net), "npz") == 0
    assert {module.training for module in net.modules()} == {trains}


@pytest.mark.parametrize("head", [True, False], ids=["a head", "a head of zeros"])
def test_a_copy_whose_outputs_are_no_numbers_proves_nothing(randomise, head):
    """Weights are finite and those of the net, and what it computes overflows."""
    net = filled(randomise, head)
    with torch.no_grad():
        (net.head.weight if head else net.norm.weight).fill_(3e38)
        net.norm.bias.fill_(3e38)
    with pytest.raises(InputError, match="cannot say all of this net"):
        compare(net, copy.deepcopy(net), "npz")


def test_logits_whose_products_cancel_are_relative_to_those(randomise):
    """Half of the features count as much for a class as the other half against it: rounding is all that is left."""
    net = filled(randomise).eval()
    with torch.no_grad():
        torch.nn.init.zeros_(net.head.bias)
        images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        features = net.features(images)
        turned = torch.linalg.svd(features)[2][2]  # no image has anything of this direction
        net.head.weight.copy_(turned.expand_as(net.head.weight))
        off = 1e-6 * features.abs().max()
        assert net(images).abs().max() < 1e-5
        expected = float(off / (features.abs() @ turned.abs()).max())
        assert parity(net, lambda images: net(images) + off) == pytest.approx(expected, rel=1e-3)
        assert parity(net, lambda images: net.head(net.features(images) * 1.1)) < 2e-5  # as little as what it computes
        assert parity(net, lambda images: net(images.flip(1))) > 1e-3
