"""The captured step of an optimiser: equal to the plain one, and left out where settings change."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import Any

import pytest
import torch
from torch import nn

from vit_lightning.models import NetConfig, build, resolve
from vit_lightning.training import graphed_step
from vit_lightning.training.graphed_step import graph_steps
from vit_lightning.training.optim import Optim


class Recorded:
    """In place of a CUDA graph: what is recorded takes no effect before the replay."""

    def replay(self) -> None:
        self.work()


def recorder(net: nn.Module, optimizer: torch.optim.Optimizer, recorded: list[Recorded]) -> Any:
    step = type(optimizer).step

    @contextmanager
    def graph(into: Recorded, **_: Any) -> Iterator[None]:
        before = deepcopy((net.state_dict(), optimizer.state_dict()["state"]))
        rates = [group["lr"] for group in optimizer.param_groups]
        yield
        net.load_state_dict(before[0])
        for index, parameter in enumerate(chain.from_iterable(group["params"] for group in optimizer.param_groups)):
            for name, value in before[1][index].items():
                optimizer.state[parameter][name].copy_(value)

        def work() -> None:
            plain = [group["lr"] for group in optimizer.param_groups]
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            step(optimizer)
            for group, rate in zip(optimizer.param_groups, plain, strict=True):
                group["lr"] = rate

        into.work = work
        recorded.append(into)

    return graph


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_recorded_steps_follow_the_learning_rate(monkeypatch, name):
    """Gradients lie where they lay, but in the fifth step, which is taken as it is."""
    nets = [tiny_net() for _ in range(2)]
    plain, graphed = (Optim(name=name, lr=0.1, weight_decay=0.1).build(net) for net in nets)
    recorded: list[Recorded] = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recorded)
    monkeypatch.setattr(torch.cuda, "graph", recorder(nets[1], graphed, recorded))
    graph_steps(graphed)
    check_steps(nets, plain, graphed)
    assert len(recorded) == 1


def test_a_recorded_step_is_not_replayed_with_other_settings(monkeypatch):
    nets = [tiny_net() for _ in range(2)]
    plain, graphed = (Optim(name="adamw", lr=0.1, weight_decay=0.1).build(net) for net in nets)
    recorded: list[Recorded] = []
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recorded)
    monkeypatch.setattr(torch.cuda, "graph", recorder(nets[1], graphed, recorded))
    graph_steps(graphed)
    check_steps(nets, plain, graphed)
    replayed = recorded[0].work
    recorded[0].work = lambda: pytest.fail("replayed")
    for optimizer in (plain, graphed):
        optimizer.param_groups[0]["weight_decay"] += 0.1
        optimizer.step()
    for ours, theirs in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)
    recorded[0].work = replayed


def test_a_step_that_cannot_be_captured_is_taken_as_it_is(monkeypatch):
    @contextmanager
    def graph(*_: Any, **__: Any) -> Iterator[None]:
        raise RuntimeError("operation not permitted")
        yield

    said: list[str] = []
    monkeypatch.setattr(graphed_step, "rank_zero_info", said.append)
    nets = [tiny_net() for _ in range(2)]
    plain, graphed = (Optim(name="adamw", lr=0.1, weight_decay=0.1).build(net) for net in nets)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recorded)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    graph_steps(graphed)
    check_steps(nets, plain, graphed)
    assert said == ["the optimiser's step is not captured (operation not permitted)"]


def tiny_net(device: str = "cpu") -> nn.Module:
    torch.manual_seed(0)
    config = resolve(NetConfig("mu/8", depth=2, width=16, heads=2, mlp=24))
    net = build(config, (8, 16), 3)
    nn.init.normal_(net.head.weight)
    return net.to(device)


def check_steps(nets: list[nn.Module], plain: torch.optim.Optimizer, graphed: torch.optim.Optimizer) -> None:
    parameters = [list(net.parameters()) for net in nets]
    static = [torch.empty_like(parameter) for parameter in parameters[1]]
    schedules = [torch.optim.lr_scheduler.LambdaLR(each, lambda step: 1 / (1 + step)) for each in (plain, graphed)]
    for step in range(7):
        for place, pair in enumerate(zip(*parameters, strict=True)):
            pair[0].grad = torch.randn_like(pair[0])
            pair[1].grad = pair[0].grad.clone() if step == 4 else static[place].copy_(pair[0].grad)
        for optimizer, schedule in zip((plain, graphed), schedules, strict=True):
            assert optimizer.step(lambda: torch.ones(())) == 1
            schedule.step()
        for ours, theirs in zip(*parameters, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6), step
        assert [group["lr"] for group in graphed.param_groups] == [group["lr"] for group in plain.param_groups]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_captured_steps_follow_the_learning_rate(name):
    nets = [tiny_net("cuda") for _ in range(2)]
    plain, graphed = (Optim(name=name, lr=0.1, weight_decay=0.1).build(net) for net in nets)
    graph_steps(graphed)
    check_steps(nets, plain, graphed)
