"""A loss with its gradients as a CUDA graph: the host launches it once, not by kernels."""

import atexit
from collections.abc import Callable
from typing import Any, Literal

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from vit_lightning.errors import InputError
from vit_lightning.models.timm_net import TimmNet
from vit_lightning.training.averaging import replicates
from vit_lightning.training.gradient_means import AllReducedGradients, average_gradients

WARM_UP = 3
"""Passes before the capture, in which libraries choose algorithms and take their memory."""


class GraphedTraining:
    """A model's loss from a CUDA graph, and its gradients' means over devices, which DDP cannot take then.

    Args:
        model: what is trained.
        loss: from a batch's tensors to the loss, with no decision that depends on their values.
        asked: True refuses what cannot be captured; "auto" trains it without a graph.
    """

    def __init__(self, model: LightningModule, loss: Callable[..., Tensor], asked: Literal[True, "auto"]) -> None:
        self.model = model
        self.batch_loss = loss
        self.asked = asked
        self.hindrance = ""
        """What keeps the fit from using graphs, in words."""
        self.graphed: GraphedLoss | None = None
        self._launched = False  # once a fit has given its graph up, its gradients are still averaged here

    def choose(self, recompute: bool, compile: bool) -> None:
        """Settle whether the fit that begins uses graphs; the parameters of an earlier one may have lain elsewhere.

        Args:
            recompute: whether blocks compute their activations again.
            compile: whether the net is compiled.

        Raises:
            InputError: graphs are asked for, and the run cannot be captured.
        """
        self._release()
        own = type(self.model).__module__.partition(".")[0] == __package__.partition(".")[0]
        lacks = {
            "a GPU": self.model.device.type != "cuda",
            "one device, or a replica on each (--trainer.strategy ddp)": not replicates(self.model.trainer.strategy),
            "no recomputation": recompute,
            "a net that is not compiled": compile,
        }
        if self.asked == "auto":  # what is not known to decide nothing by a batch's values, or by the step
            lacks |= {
                f"a model of vit_lightning, not {type(self.model).__name__}": not own,
                "a net of vit_lightning, not timm's": isinstance(self.model.net, TimmNet),
            }
        self.hindrance = " and ".join(need for need, missing in lacks.items() if missing)
        if self.hindrance and self.asked is True:
            raise InputError(f"--model.cuda_graph true needs {self.hindrance}; drop it")
        self._launched = not self.hindrance

    def begin(self) -> None:
        """Keep DDP from averaging gradients that it does not see."""
        strategy = self.model.trainer.strategy
        if self._launched and isinstance(strategy, DDPStrategy):
            strategy.model.require_backward_grad_sync = False  # type: ignore[assignment]

    def loss(self, *batch: Tensor) -> Tensor:
        """Return the loss of a batch, whose graph is captured at the first call."""
        if self.hindrance:
            return self.batch_loss(*batch)
        accumulates = self.model.trainer.accumulate_grad_batches > 1
        failure = ""
        if self.graphed is None:
            averages = self.model.trainer.world_size > 1 and not accumulates
            self.graphed = GraphedLoss(self.model, self.batch_loss, averages)
            failure = self._unseen() if self.asked == "auto" else ""
        elif self.graphed.trains_others():
            failure = "other parameters train from here on"
        if not failure:
            try:
                return self.graphed(*batch, accumulates=accumulates)
            except RuntimeError as error:
                if self.asked is True or self.graphed.graph is not None:
                    raise
                failure = f"the loss cannot be captured ({str(error).partition(chr(10))[0]})"
        self._give_up(failure)  # outside the handler, whose error keeps the attempt's memory
        return self.batch_loss(*batch)

    def average_gradients(self) -> None:
        """Average the gradients over devices once per optimiser step, where neither the graph nor DDP has done so."""
        trainer = self.model.trainer
        if not self._launched or trainer.world_size == 1 or (self.graphed is not None and self.graphed.averaged):
            return
        batch = trainer.fit_loop.batch_idx + 1
        if batch % trainer.accumulate_grad_batches == 0 or trainer.is_last_batch:
            average_gradients(self.model.parameters())

    def _unseen(self) -> str:
        """What a replay would leave out without a word."""
        if torch.is_anomaly_enabled():
            return "anomaly detection looks at every operation"
        modules = list(self.model.net.modules())
        if any(each._forward_hooks or each._forward_pre_hooks or each._backward_hooks for each in modules):
            return "a hook waits for calls of the net's modules"
        return ""

    def _give_up(self, reason: str) -> None:
        self._release()
        self.hindrance = reason
        rank_zero_info(f"on without CUDA graphs: {reason}")

    def _release(self) -> None:
        if self.graphed is not None:
            self.graphed.release()
            self.graphed = None


class GraphedLoss:
    """A loss that is captured with its gradients at the first call, and replayed afterwards.

    Args:
        model: what is trained; its parameters stay where they are in memory.
        loss: from a batch's tensors to the loss, with no decision that depends on their values.
        averages: average the gradients over the processes of a run, beside the backward pass; `averaged` says whether
            those of the last call are.
    """

    def __init__(self, model: nn.Module, loss: Callable[..., Tensor], averages: bool = False) -> None:
        self.all_parameters, self.buffers = list(model.parameters()), list(model.buffers())
        self.parameters = [parameter for parameter in self.all_parameters if parameter.requires_grad]
        self.loss = loss
        self.averages = averages
        self.averaged = False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[Tensor] = []
        self.gradients: list[tuple[nn.Parameter, Tensor]] = []
        self.anchor = torch.zeros((), requires_grad=True)

    def __call__(self, *inputs: Tensor, accumulates: bool = True) -> Tensor:
        """Return the loss of a batch; a batch of another shape than the first is computed without the graph.

        Args:
            inputs: the batch.
            accumulates: keep the gradients that the parameters have, so that this batch's are added to them.
        """
        if self.graph is None:
            self._capture(inputs)
        self.averaged = False
        if any(new.shape != old.shape or new.dtype != old.dtype for new, old in zip(inputs, self.inputs, strict=True)):
            return self.loss(*inputs)
        for new, old in zip(inputs, self.inputs, strict=True):
            old.copy_(new)
        for parameter, gradient in self.gradients if accumulates else ():
            if parameter.grad is gradient:  # where the replay will write
                parameter.grad = gradient.clone()
        self.averaged = self.averages
        return _Replay.apply(self, self.anchor)

    def trains_others(self) -> bool:
        """Whether parameters were frozen or freed since the capture, which holds the gradients of those of then."""
        return sum(parameter.requires_grad for parameter in self.all_parameters) != len(self.parameters) or not all(
            parameter.requires_grad for parameter in self.parameters
        )

    def add_gradients(self, factor: Tensor) -> None:
        """Add the gradients, times a factor, to those that the parameters have."""
        torch._foreach_mul_([gradient for _, gradient in self.gradients], factor)
        waiting = [(parameter.grad, gradient) for parameter, gradient in self.gradients if parameter.grad is not None]
        if waiting:
            torch._foreach_add_(*map(list, zip(*waiting, strict=True)))
        for parameter, gradient in self.gradients:
            parameter.grad = gradient if parameter.grad is None else parameter.grad

    def release(self) -> None:
        """Drop the graph, which must not outlive the processes' connection."""
        if self.graph is not None:
            self.graph.reset()
        atexit.unregister(self.release)

    def _capture(self, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = [tensor.clone() for tensor in inputs]
        device = inputs[0].device
        random, statistics = torch.cuda.get_rng_state(device), [buffer.clone() for buffer in self.buffers]
        generator = torch.cuda.default_generators[inputs[0].get_device()]
        before = generator.clone_state()
        stream, graph = torch.cuda.Stream(device), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream(device))
        # A cast that autocast keeps outside the graph would go stale in it.
        dtype, enabled = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
        try:
            with torch.autocast("cuda", dtype, enabled, cache_enabled=False):
                with torch.cuda.stream(stream):
                    for _ in range(WARM_UP):
                        self._compute()
                torch.cuda.current_stream(device).wait_stream(stream)
                # Loaders pin memory in threads of their own, which must not end the capture.
                with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                    self.value, gradients = self._compute()
        except RuntimeError:
            generator.graphsafe_set_state(before)  # that of a capture that failed draws for nobody else
            raise
        finally:
            torch.cuda.set_rng_state(random, device)
            for buffer, value in zip(self.buffers, statistics, strict=True):
                buffer.copy_(value)
        self.graph = graph
        torch.cuda.reset_peak_memory_stats(device)  # from here on, replays hold what the capture did (peak_memory)
        pairs = zip(self.parameters, gradients, strict=True)
        self.gradients = [(parameter, gradient) for parameter, gradient in pairs if gradient is not None]
        if self.averages:
            atexit.register(self.release)  # before the connection is closed, which was registered earlier

    def _compute(self) -> tuple[Tensor, list[Tensor | None]]:
        with torch.enable_grad():
            value = self.loss(*self.inputs)
            if not self.averages:
                return value.detach(), list(torch.autograd.grad(value, self.parameters, allow_unused=True))
            with AllReducedGradients(self.parameters) as averaged:
                torch.autograd.grad(value, self.parameters, allow_unused=True)
            return value.detach(), averaged.gradients


class _Replay(Function):
    """The replayed loss. Its gradients go to the parameters at once: one node for each would keep the host busy."""

    @staticmethod
    def forward(ctx: Any, graphed: GraphedLoss, anchor: Tensor) -> Tensor:
        graphed.graph.replay()
        ctx.graphed = graphed
        return graphed.value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None]:
        ctx.graphed.add_gradients(grad)
        return None, None
