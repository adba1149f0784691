"""Means of gradients over processes, of which one stands for all."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vit_lightning.training import gradient_means
from vit_lightning.training.gradient_means import AllReducedGradients, average_gradients


def test_gradients_are_averaged_over_processes(monkeypatch):
    """Two processes, of which the other has twice these gradients; what has none keeps none."""

    def all_reduce(tensor, op):
        assert op == torch.distributed.ReduceOp.AVG
        tensor.mul_(1.5)

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    net, idle = nn.Linear(3, 2), nn.Parameter(torch.zeros(1))
    net(torch.ones(1, 3)).sum().backward()
    average_gradients([*net.parameters(), idle])
    assert torch.equal(net.weight.grad, torch.full((2, 3), 1.5)) and torch.equal(net.bias.grad, torch.full((2,), 1.5))
    assert idle.grad is None


@pytest.mark.parametrize("bucket", [1, 20, 10**6])
def test_a_backward_pass_averages_its_gradients_in_pieces(monkeypatch, bucket):
    """Messages go off while the pass runs, the last pieces when it ends; what has no gradient has no mean."""
    sent = []

    def all_reduce(tensor, op, async_op):
        assert op == torch.distributed.ReduceOp.AVG and async_op
        sent.append(tensor.clone())
        return SimpleNamespace(wait=lambda: tensor.mul_(1.5))

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    monkeypatch.setattr(gradient_means, "BUCKET", bucket)
    net, idle = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2)), nn.Parameter(torch.zeros(1))
    parameters = [*net.parameters(), idle]
    value = net(torch.ones(1, 3)).sum()
    expected = torch.autograd.grad(value, parameters, allow_unused=True, retain_graph=True)
    with AllReducedGradients(parameters) as averaged:
        torch.autograd.grad(value, parameters, allow_unused=True)
    assert len(sent) == {1: 4, 20: 2, 10**6: 1}[bucket]
    assert averaged.gradients[-1] is None
    for ours, theirs in zip(averaged.gradients[:-1], expected[:-1], strict=True):
        assert torch.equal(ours, 1.5 * theirs)
