"""The captured loss: refused where it cannot be, and equal to the plain one on a GPU."""

from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.strategies import ModelParallelStrategy, SingleDeviceStrategy
from torch import nn

from vit_lightning.errors import InputError
from vit_lightning.models.timm_net import TimmNet
from vit_lightning.training import cuda_graph
from vit_lightning.training.cuda_graph import GraphedLoss, GraphedTraining

SMOKE = str(Path(__file__).parents[2] / "experiments" / "smoke.yaml")


def test_a_graph_needs_a_gpu(app):
    run = app("fit", "-c", SMOKE, "--model.cuda_graph", "true", "--trainer.accelerator", "cpu")
    assert run.code == 1
    assert "--model.cuda_graph true needs a GPU" in run.err


class Owner(LightningModule):
    """A model with a trainer of two processes."""

    def __init__(self, strategy: object, **settings: object) -> None:
        super().__init__()
        self.layer = self.net = nn.Linear(3, 2)
        defaults = {"accumulate_grad_batches": 1, "world_size": 2, "is_last_batch": False}
        self._trainer = SimpleNamespace(strategy=strategy, fit_loop=SimpleNamespace(batch_idx=0), **defaults | settings)


@pytest.mark.parametrize(
    ("strategy", "settings", "said"),
    [
        (SingleDeviceStrategy(), {}, "needs a GPU; drop it"),
        (ModelParallelStrategy(), {}, "a GPU and one device, or a replica on each"),
        (
            SingleDeviceStrategy(),
            {"recompute": True, "compile": True},
            "no recomputation and a net that is not compiled",
        ),
    ],
)
def test_what_cannot_be_captured_is_refused_before_the_first_step(strategy, settings, said):
    owner = Owner(strategy)
    with pytest.raises(InputError, match=said):
        GraphedTraining(owner, owner.layer, True).choose(**{"recompute": False, "compile": False} | settings)


class OnGpu(Owner):
    """One of vit_lightning's own, as far as a decision can tell."""

    __module__ = "vit_lightning.classifier"
    device = torch.device("cuda")


@pytest.mark.parametrize(
    ("owner", "settings", "said"),
    [
        (OnGpu(SingleDeviceStrategy()), {}, ""),
        (OnGpu(ModelParallelStrategy()), {}, "one device, or a replica on each (--trainer.strategy ddp)"),
        (OnGpu(SingleDeviceStrategy()), {"compile": True}, "a net that is not compiled"),
        (Owner(SingleDeviceStrategy()), {}, "a GPU and a model of vit_lightning, not Owner"),
    ],
)
def test_unasked_graphs_are_left_out_where_they_cannot_be(owner, settings, said):
    graphs = GraphedTraining(owner, lambda images: images.sum(), "auto")
    graphs.choose(**{"recompute": False, "compile": False} | settings)
    assert graphs.hindrance == said
    if said:
        assert graphs.loss(torch.ones(2)) == 2
        graphs.average_gradients()  # DDP's own, for which there would be no connection here


def test_timms_nets_are_not_captured_unasked():
    owner = OnGpu(SingleDeviceStrategy())
    owner.net = TimmNet.__new__(TimmNet)
    graphs = GraphedTraining(owner, owner.layer, "auto")
    graphs.choose(recompute=False, compile=False)
    assert graphs.hindrance == "a net of vit_lightning, not timm's"


class Attempt:
    """In place of a captured loss."""

    error: str | None = None
    others = False

    def __init__(self, model: nn.Module, loss: Any, averages: bool) -> None:
        self.graph, self.averaged = None, False

    def __call__(self, images: torch.Tensor, accumulates: bool) -> torch.Tensor:
        if self.error:
            raise RuntimeError(self.error)
        self.graph = "captured"
        return torch.tensor(-1.0)

    def trains_others(self) -> bool:
        return self.others

    def release(self) -> None:
        pass


def attempted(monkeypatch: pytest.MonkeyPatch, asked: Any) -> tuple[GraphedTraining, list[str]]:
    """Graphs of a fit that has begun, and what it says."""
    said: list[str] = []
    monkeypatch.setattr(cuda_graph, "GraphedLoss", Attempt)
    monkeypatch.setattr(cuda_graph, "rank_zero_info", said.append)
    graphs = GraphedTraining(OnGpu(SingleDeviceStrategy(), world_size=1), lambda images: images.sum(), asked)
    graphs.choose(recompute=False, compile=False)
    return graphs, said


def test_what_cannot_be_captured_goes_on_without_graph_and_says_so_once(monkeypatch):
    graphs, said = attempted(monkeypatch, "auto")
    monkeypatch.setattr(Attempt, "error", "operation not permitted\nand a long story")
    assert [graphs.loss(torch.ones(2)) for _ in range(3)] == [2, 2, 2]
    assert said == ["on without CUDA graphs: the loss cannot be captured (operation not permitted)"]


def test_asked_for_graphs_raise_what_the_capture_raises(monkeypatch):
    graphs, _ = attempted(monkeypatch, True)
    monkeypatch.setattr(Attempt, "error", "operation not permitted")
    with pytest.raises(RuntimeError, match="operation not permitted"):
        graphs.loss(torch.ones(2))


def test_an_error_of_a_replay_is_raised(monkeypatch):
    graphs, _ = attempted(monkeypatch, "auto")
    assert graphs.loss(torch.ones(2)) == -1
    monkeypatch.setattr(Attempt, "error", "an illegal memory access")
    with pytest.raises(RuntimeError, match="an illegal memory access"):
        graphs.loss(torch.ones(2))


@pytest.mark.parametrize("asked", [True, "auto"])
def test_other_parameters_that_train_end_the_graph(monkeypatch, asked):
    graphs, said = attempted(monkeypatch, asked)
    assert graphs.loss(torch.ones(2)) == -1
    monkeypatch.setattr(Attempt, "others", True)
    assert graphs.loss(torch.ones(2)) == 2
    assert said == ["on without CUDA graphs: other parameters train from here on"]


def test_a_captured_loss_knows_which_parameters_it_serves():
    net = nn.Linear(3, 2)
    net.bias.requires_grad_(False)
    graphed = GraphedLoss(net, net)
    assert not graphed.trains_others()
    net.bias.requires_grad_(True)
    assert graphed.trains_others()
    net.weight.requires_grad_(False)  # as many as then
    assert graphed.trains_others()


@pytest.mark.parametrize(("asked", "loss"), [("auto", 2), (True, -1)])
def test_hooks_see_every_call_unless_graphs_are_asked_for(monkeypatch, asked, loss):
    graphs, said = attempted(monkeypatch, asked)
    graphs.model.net.register_forward_hook(lambda *_: None)
    assert graphs.loss(torch.ones(2)) == loss
    assert said == ["on without CUDA graphs: a hook waits for calls of the net's modules"] * (asked == "auto")


def test_gradients_are_averaged_here_once_a_graph_is_given_up(monkeypatch):
    graphs, _ = attempted(monkeypatch, "auto")
    graphs.model.trainer.world_size, seen = 2, []
    monkeypatch.setattr(cuda_graph, "average_gradients", seen.append)
    monkeypatch.setattr(Attempt, "error", "operation not permitted")
    graphs.loss(torch.ones(2))
    graphs.average_gradients()
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("settings", "averaged"),
    [({}, [0, 1, 2]), ({"accumulate_grad_batches": 2}, [1]), ({"world_size": 1}, [])],
)
def test_gradients_are_averaged_once_per_optimiser_step(monkeypatch, settings, averaged):
    owner, seen = Owner(SingleDeviceStrategy(), **settings), []
    monkeypatch.setattr(
        cuda_graph, "average_gradients", lambda parameters: seen.append(owner.trainer.fit_loop.batch_idx)
    )
    graphs = GraphedTraining(owner, owner.layer, True)
    graphs._launched, graphs.graphed = True, SimpleNamespace(averaged=False)
    for batch in range(3):
        owner.trainer.fit_loop.batch_idx = batch
        graphs.average_gradients()
    assert seen == averaged
    graphs.graphed.averaged = True  # in the graph
    graphs.average_gradients()
    assert seen == averaged


@pytest.mark.gpu
def test_a_capture_leaves_random_numbers_and_statistics_as_they_were():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 3)).cuda()
    images, state = torch.randn(4, 8, device="cuda"), deepcopy(net.state_dict())
    torch.cuda.manual_seed(1)
    expected = [net(images).square().mean().item() for _ in range(3)]
    counted = deepcopy(net.state_dict())
    net.load_state_dict(state)
    torch.cuda.manual_seed(1)
    graphed = GraphedLoss(net, lambda images: net(images).square().mean())
    assert [graphed(images).item() for _ in range(3)] == pytest.approx(expected, rel=1e-5)
    assert all(torch.equal(counted[name], value) for name, value in net.state_dict().items())


@pytest.mark.gpu
def test_a_loss_that_reads_the_device_is_trained_without_graph():
    torch.manual_seed(0)
    owner = OnGpu(SingleDeviceStrategy(), world_size=1)
    owner.net = net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3)).cuda()

    def loss(images):
        value = net(images).square().mean()
        return value * 2 if value.item() > 1e9 else value

    images = torch.randn(4, 8, device="cuda")
    torch.cuda.manual_seed(1)
    expected = [loss(images).item() for _ in range(3)]
    torch.cuda.manual_seed(1)
    graphs = GraphedTraining(owner, loss, "auto")
    graphs.choose(recompute=False, compile=False)
    values = [graphs.loss(images) for _ in range(3)]
    assert [value.item() for value in values] == pytest.approx(expected, rel=1e-6)
    values[-1].backward()
    assert net[0].weight.grad.isfinite().all() and "cannot be captured" in graphs.hindrance


@pytest.mark.gpu
def test_replayed_gradients_are_those_of_each_batch_and_accumulate():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3)).cuda()
    unused = nn.Parameter(torch.zeros(1, device="cuda"))
    net.register_parameter("unused", unused)

    def loss(images, labels):
        return nn.functional.cross_entropy(net(images), labels)

    graphed = GraphedLoss(net, loss)
    batches = [(torch.randn(4, 8, device="cuda"), torch.randint(3, (4,), device="cuda")) for _ in range(3)]
    batches.append((torch.randn(2, 8, device="cuda"), torch.randint(3, (2,), device="cuda")))  # another shape
    for count, batch in enumerate(batches, 1):
        value = graphed(*batch)
        value.backward()
        assert torch.allclose(value, loss(*batch))
        ours = [parameter.grad.clone() for parameter in net.parameters() if parameter is not unused]
        expected = torch.autograd.grad(
            sum(loss(*batch) for batch in batches[:count]), [p for p in net.parameters() if p is not unused]
        )
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours, expected, strict=True))
    assert unused.grad is None


@pytest.mark.gpu
def test_without_accumulation_the_gradients_of_a_step_replace_the_last_ones():
    torch.manual_seed(0)
    net = nn.Linear(8, 3).cuda()
    graphed = GraphedLoss(net, lambda images: net(images).square().mean())
    for _ in range(3):
        images = torch.randn(4, 8, device="cuda")
        value = graphed(images, accumulates=False)
        net.zero_grad()  # between loss and gradient, as Lightning does
        value.backward()
        expected = torch.autograd.grad(net(images).square().mean(), list(net.parameters()))
        assert all(torch.allclose(p.grad, g, atol=1e-6) for p, g in zip(net.parameters(), expected, strict=True))
