"""Means of gradients over the processes of a run, where a CUDA graph keeps DDP from taking them."""

from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

BUCKET = 50 * 2**20
"""Bytes of gradients that processes average in one message while the backward pass goes on."""


class AllReducedGradients:
    """Gradients that are replaced by their means over the processes of a run, while a backward pass makes more.

    DDP's own hooks do not see a graph.

    Args:
        parameters: what the backward pass inside the block differentiates by.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = parameters
        self.gradients: list[Tensor | None] = [None] * len(parameters)
        self._waiting: dict[int, Tensor] = {}
        self._sent: list[tuple[list[int], Tensor, torch.distributed.Work]] = []

    def __enter__(self) -> "AllReducedGradients":
        self._stream = torch.cuda.current_stream() if self.parameters[0].is_cuda else None
        self._hooks = [
            parameter.register_hook(partial(self._collect, place)) for place, parameter in enumerate(self.parameters)
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()
        if error[0] is not None:
            return  # the other processes may send nothing more
        if self._waiting:
            self._send()
        for places, flat, message in self._sent:
            message.wait()
            means = _unflatten_dense_tensors(flat, [self.parameters[place] for place in places])
            for place, mean in zip(places, means, strict=True):
                self.gradients[place] = mean

    def _collect(self, place: int, gradient: Tensor) -> None:
        self._waiting[place] = gradient
        if sum(each.nbytes for each in self._waiting.values()) >= BUCKET:
            self._send()

    def _send(self) -> None:
        with torch.cuda.stream(self._stream):  # hooks of parameters may run on the one that these were made on
            flat = _flatten_dense_tensors(list(self._waiting.values()))
            message = torch.distributed.all_reduce(flat, torch.distributed.ReduceOp.AVG, async_op=True)
        self._sent.append((list(self._waiting), flat, message))
        self._waiting = {}


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace the gradients that parameters have by their means over the processes of a run, in one message."""
    learning = [parameter for parameter in parameters if parameter.grad is not None]
    gradients = [parameter.grad for parameter in learning]
    flat = _flatten_dense_tensors(gradients)
    torch.distributed.all_reduce(flat, torch.distributed.ReduceOp.AVG)
    for parameter, mean in zip(learning, _unflatten_dense_tensors(flat, gradients), strict=True):
        parameter.grad = mean
