"""An optimiser's step as a CUDA graph: the host launches it once, not by kernels."""

from collections.abc import Callable, Iterator
from itertools import chain
from types import MethodType
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn
from torch.optim import Optimizer


class GraphedStep:
    """An optimiser's step that is captured once it has its state, and replayed while gradients stay in their places.

    Where anything but learning rates changes, the step is taken without it. Muon's step keeps the host longer than a
    small net's device.

    Args:
        optimizer: of torch, whose rule takes learning rates from tensors too.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.plain_step = optimizer.step
        self.has_state = False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.can_capture = True
        self.places: list[int | None] = []
        self.settings: list[dict[str, Any]] = []
        self.rates: list[Tensor] = []

    def __call__(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Take a step after computing the loss, which is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        places = [None if each.grad is None else each.grad.data_ptr() for each in self._parameters()]
        if self.has_state and self.graph is None and self.can_capture:
            self._capture(places)
        if self.graph is not None and places == self.places and self._settings() == self.settings:
            for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
                rate.fill_(group["lr"])
            self.graph.replay()
        else:
            self.plain_step()
        self.has_state = True
        return loss

    def _parameters(self) -> Iterator[nn.Parameter]:
        return chain.from_iterable(group["params"] for group in self.optimizer.param_groups)

    def _settings(self) -> list[dict[str, Any]]:
        """What the capture has fixed: all of a group but its parameters and its rate."""
        return [
            {name: value for name, value in group.items() if name not in ("params", "lr")}
            for group in self.optimizer.param_groups
        ]

    def _capture(self, places: list[int | None]) -> None:
        groups, device = self.optimizer.param_groups, next(self._parameters()).device
        self.places, self.settings = places, self._settings()
        self.rates = [torch.zeros((), device=device) for _ in groups]
        kept: list[dict[str, Any]] = [
            {name: group[name] for name in ("lr", "capturable") if name in group} for group in groups
        ]
        graph = torch.cuda.CUDAGraph()
        for group, rate in zip(groups, self.rates, strict=True):
            group.update(lr=rate, capturable=True)
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.plain_step()
            self.graph = graph
        except RuntimeError as error:
            self.can_capture = False
            rank_zero_info(f"the optimiser's step is not captured ({str(error).partition(chr(10))[0]})")
        finally:
            for group, own in zip(groups, kept, strict=True):
                group.pop("capturable")
                group.update(own)


def graph_steps(optimizer: Optimizer) -> None:
    """Let an optimiser take its steps from a CUDA graph (see GraphedStep)."""
    graphed = GraphedStep(optimizer)
    step = MethodType(lambda optimizer, closure=None: graphed(closure), optimizer)  # schedulers want a method
    optimizer.step = step  # type: ignore[method-assign]
