"""A loss and its gradients as one CUDA graph: the host launches a small net's step once, not kernel by kernel."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

WARM_UP = 3
"""Passes before the capture, in which libraries choose algorithms and take their memory."""


class GraphedLoss:
    """A loss that is captured with its gradients at the first call, and replayed afterwards.

    Args:
        model: what is trained; its parameters stay where they are in memory.
        loss: from a batch's tensors to the loss, with no decision that depends on their values.
    """

    def __init__(self, model: nn.Module, loss: Callable[..., Tensor]) -> None:
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.loss = loss
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return the loss of a batch; a batch of another shape than the first is computed without the graph."""
        if self.graph is None:
            self._capture(inputs)
        if any(new.shape != old.shape or new.dtype != old.dtype for new, old in zip(inputs, self.inputs, strict=True)):
            return self.loss(*inputs)
        for new, old in zip(inputs, self.inputs, strict=True):
            old.copy_(new)
        return _Replay.apply(self, *self.parameters)

    def _capture(self, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = [tensor.clone() for tensor in inputs]
        device = inputs[0].device
        state, stream = torch.cuda.get_rng_state(device), torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        # A cast that autocast keeps outside the graph would go stale in it.
        autocast = {"dtype": torch.get_autocast_dtype("cuda"), "enabled": torch.is_autocast_enabled("cuda")}
        with torch.autocast("cuda", cache_enabled=False, **autocast):
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    self._compute()
            torch.cuda.current_stream(device).wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            # Loaders pin memory in threads of their own, which must not end the capture.
            with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
                self.value, self.gradients = self._compute()
        torch.cuda.set_rng_state(state, device)

    def _compute(self) -> tuple[Tensor, list[Tensor | None]]:
        with torch.enable_grad():
            value = self.loss(*self.inputs)
            return value.detach(), list(torch.autograd.grad(value, self.parameters, allow_unused=True))


class _Replay(Function):
    """The replayed loss; its gradients are copied out, so that they may be accumulated, scaled or kept."""

    @staticmethod
    def forward(ctx: Any, graphed: GraphedLoss, *parameters: Tensor) -> Tensor:
        graphed.graph.replay()
        ctx.gradients = graphed.gradients
        return graphed.value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = iter(torch._foreach_mul([tensor for tensor in ctx.gradients if tensor is not None], grad))
        return None, *(None if tensor is None else next(scaled) for tensor in ctx.gradients)
