"""The optimiser, its parameter groups, and the learning rate as a pure function of the step."""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from vit_lightning.errors import InputError
from vit_lightning.models.lora import PART
from vit_lightning.training.muon import Muon


@dataclass
class Optim:
    """The update rule and its numbers."""

    name: Literal["adam", "adamw", "sgd", "muon"] = "adam"
    """Update rule. adam and adamw share one, Adam with decoupled decay, p <- p - lr * (adam + weight_decay * p); adam
    decays every parameter as the paper's code does, adamw kernels only. sgd has Nesterov-free momentum and coupled
    decay. muon makes the steps of the blocks' kernels orthogonal and is adamw for the rest, at learning rates of its
    order."""
    lr: float = 1e-3
    """Peak learning rate."""
    weight_decay: float = 0.0
    """Weight decay: a step takes off this share times the learning rate. The paper quotes it so; big_vision
    quotes the product."""
    momentum: float = 0.9
    """Momentum of sgd; muon's is 0.95."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of Adam's two moments."""
    decay_on: Literal["all", "kernels"] | None = None
    """Parameters that decay; unset: the optimiser's own choice. Kernels are the weights of linear maps and
    convolutions: no bias, norm, token, position table or layer scale."""
    layer_decay: float = 1.0
    """Factor on the learning rate per layer below the head: block l of d learns at lr * layer_decay^(d + 1 - l)."""

    def __post_init__(self) -> None:
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InputError(f"--model.optim.{name} is {value}; it must not be negative, and finite")
        for name, values in (("momentum", (self.momentum,)), ("betas", self.betas)):
            if not all(0 <= value < 1 for value in values):
                raise InputError(f"--model.optim.{name} {getattr(self, name)} must lie in [0, 1), such as 0.9")
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"layer_decay {self.layer_decay} must lie in (0, 1]; 1 turns it off")
        if self.name == "sgd":
            self._refuse_idle("betas", tuple(self.betas), "Adam's")
        else:
            self._refuse_idle("momentum", self.momentum, "sgd's")

    def _refuse_idle(self, field: str, value: Any, owner: str) -> None:
        if value != (default := getattr(Optim, field)):
            raise InputError(
                f"--model.optim.{field} {value} does nothing beside --model.optim.name {self.name}, for it is {owner}; "
                f"leave it at {default}"
            )

    def build(self, net: nn.Module) -> torch.optim.Optimizer:
        """Return the optimiser over the trainable parameters of `net`."""
        groups = parameter_groups(net, self)
        if not groups:
            raise InputError("no parameter is left to train: freeze_trunk with a net without a head")
        if self.name == "sgd":
            return torch.optim.SGD(groups, lr=self.lr)
        if self.name == "muon":
            _check_whole(groups)
        devices = {parameter.device.type for group in groups for parameter in group["params"]}
        rule = Muon if self.name == "muon" else torch.optim.AdamW
        optimizer = rule(groups, lr=self.lr, fused=True if devices <= {"cuda", "cpu"} else None)
        # Lightning refuses to clip for an optimiser that could unscale gradients itself, even where nothing scales.
        optimizer._step_supports_amp_scaling = False
        return optimizer

    def decays(self, name: str, parameter: torch.Tensor) -> bool:
        """Tell whether the parameter called `name` decays."""
        everything = self.name in ("adam", "sgd") if self.decay_on is None else self.decay_on == "all"
        return everything or is_kernel(name, parameter)


@dataclass
class Schedule:
    """The learning rate over a run, in optimiser steps (gradient accumulation does not stretch it)."""

    decay: Literal["linear", "cosine", "rsqrt", "step", "constant"] = "cosine"
    """Shape after warm-up: linear to end_lr, cosine to 0, base / sqrt(1 + (step - warmup) / timescale), a tenth after
    every milestone, or constant."""
    warmup_steps: int = 0
    """Optimiser steps of linear warm-up; step 0 learns at 0, step warmup_steps at the peak."""
    end_lr: float = 1e-5
    """Last learning rate of the linear decay."""
    timescale: int = 10_000
    """Steps after which rsqrt has fallen by sqrt(2)."""
    milestones: tuple[float, ...] = (30 / 90, 60 / 90, 80 / 90)
    """Shares of the run after which step has fallen to another tenth: BiT's epochs 30, 60 and 80 of 90."""
    cooldown_steps: int = 0
    """Steps at the end over which the learning rate falls linearly to 0, on top of the decay."""
    allow_horizon_change: bool = False
    """Let a resumed run end at another step than its checkpoint's was to: the learning rate then follows the formula
    for the new length from the step it goes on from."""

    def __post_init__(self) -> None:
        for name in ("warmup_steps", "end_lr", "timescale", "cooldown_steps"):
            value, positive = getattr(self, name), name == "timescale"
            if not positive <= value < math.inf:
                expected = "positive" if positive else "finite and not negative"
                raise InputError(f"--model.schedule.{name} is {value}; it must be {expected}")
        if not all(0 < share < 1 for share in self.milestones):
            raise InputError(f"model.schedule.milestones are {self.milestones}; each is a share of the run, 0 to 1")

    def lr(self, step: int, base: float, total: float) -> float:
        """Learning rate of optimiser step `step` (from 0) in a run of `total` steps with peak `base`.

        Source: vision_transformer's utils.py (linear, cosine), big_vision's utils.py (rsqrt, cooldown), BiT (step).
        """
        after = max(step - self.warmup_steps, 0)
        progress = min(after / max(total - self.warmup_steps, 1), 1.0)
        match self.decay:
            case "linear":
                lr = self.end_lr + (base - self.end_lr) * (1 - progress)
            case "cosine":
                lr = base * 0.5 * (1 + math.cos(math.pi * progress))
            case "rsqrt":
                lr = base / math.sqrt(1 + after / self.timescale)
            case "step":
                lr = base * 0.1 ** sum(step >= share * total for share in self.milestones)
            case "constant":
                lr = base
        if self.warmup_steps:
            lr *= min(1.0, step / self.warmup_steps)
        if self.cooldown_steps:
            lr *= min(1.0, max(total - step, 0) / self.cooldown_steps)
        return lr

    def follows_horizon(self) -> bool:
        """Whether the learning rate depends on the run's length."""
        return self.decay in ("linear", "cosine", "step") or self.cooldown_steps > 0

    def check(self, total: float) -> None:
        """Raise InputError when a run has no step, no end, or no room for the warm-up."""
        if total < 1:
            raise InputError(
                "the run has no optimiser step; raise --trainer.max_steps or --trainer.limit_train_batches"
            )
        if total == math.inf:
            raise InputError("the schedule needs the run's length; give --trainer.max_epochs or --trainer.max_steps")
        if self.warmup_steps >= total:
            raise InputError(
                f"warm-up of {self.warmup_steps} steps does not fit into a run of {total} optimiser steps; "
                "lower --model.schedule.warmup_steps or train longer"
            )


@runtime_checkable
class LayersInOrder(Protocol):
    """A module whose parameters lie in layers, one after another."""

    def depth_of(self, name: str) -> int:
        """Return the layer of the parameter called `name`, from 0."""


def parameter_groups(net: nn.Module, optim: Optim) -> list[dict[str, Any]]:
    """Split the trainable parameters by depth (with layer decay) and decay; each is in exactly one group.

    Every group carries all of its settings, its real `lr` among them, so that any scheduler respects the layer decay
    and a resumed run can write them anew over what the optimiser's state brings back.
    """
    depths = _depths(net) if optim.layer_decay < 1 else {}
    top = max(depths.values(), default=0)
    members: dict[tuple[int, bool, bool], dict[str, nn.Parameter]] = defaultdict(dict)
    for name, parameter in net.named_parameters():
        if parameter.requires_grad:
            muon = optim.name == "muon" and "blocks." in name and name.endswith(".weight") and parameter.ndim == 2
            members[depths.get(name, top), optim.decays(name, parameter), muon][name] = parameter
    return [
        {
            "params": list(parameters.values()),
            "parameter_names": list(parameters),
            **(
                {"name": f"layer{depth}_{'decay' if decays else 'no_decay'}{'_muon' * muon}"}
                if len(members) > 1
                else {}
            ),
            **({"muon": muon} if optim.name == "muon" else {}),
            "lr": optim.lr * optim.layer_decay ** (top - depth),
            "initial_lr": optim.lr * optim.layer_decay ** (top - depth),
            "weight_decay": optim.weight_decay if decays else 0.0,
            **({"momentum": optim.momentum} if optim.name == "sgd" else {"betas": optim.betas}),
        }
        for (depth, decays, muon), parameters in sorted(members.items())
    ]


def _check_whole(groups: list[dict[str, Any]]) -> None:
    parameters = [parameter for group in groups if group["muon"] for parameter in group["params"]]
    if not parameters:
        raise InputError("--model.optim.name muon is for nets of blocks, and no block is trained here; use adamw")
    if any(isinstance(parameter, DTensor) for parameter in parameters):
        raise InputError("--model.optim.name muon needs whole matrices, which FSDP2 shards; use ddp, or adamw")


def is_kernel(name: str, parameter: torch.Tensor) -> bool:
    """Tell the weights of linear maps and convolutions, and factors of their updates, from all else."""
    return (name.rpartition(".")[2] == "weight" or PART in name) and parameter.ndim >= 2


def kind_of(name: str, parameter: torch.Tensor) -> str:
    """Return which kind of parameter the one called `name` is, in the plural."""
    last = name.rpartition(".")[2]
    if is_kernel(name, parameter):
        return "kernels"
    if last in ("weight", "bias"):
        return "biases" if last == "bias" else "norms"
    if "pos" in name:
        return "positions"
    return "layer scales" if last.startswith(("scale", "gamma")) else "tokens"


def decay_line(optimizer: torch.optim.Optimizer) -> str | None:
    """Say which kinds of parameters an optimiser of `Optim` decays, how much, and how many; None of another one."""
    sums: dict[float, tuple[dict[str, None], int, int]] = {}
    for group in optimizer.param_groups:
        if "parameter_names" not in group:
            return None
        kinds, tensors, parameters = sums.get(group["weight_decay"], ({}, 0, 0))
        kinds |= dict.fromkeys(map(kind_of, group["parameter_names"], group["params"]))
        sums[group["weight_decay"]] = (
            kinds,
            tensors + len(group["params"]),
            parameters + sum(parameter.numel() for parameter in group["params"]),
        )
    return "; ".join(
        f"{decay:g} on {', '.join(sorted(kinds))} ({tensors} tensors, {parameters:,} parameters)"
        for decay, (kinds, tensors, parameters) in sorted(sums.items(), reverse=True)
    )


def _depths(net: nn.Module) -> dict[str, int]:
    if not isinstance(net, LayersInOrder):
        raise InputError(f"layer_decay needs a net with layers in order; {type(net).__name__} has none: use 1")
    return {name: net.depth_of(name) for name, _ in net.named_parameters()}
