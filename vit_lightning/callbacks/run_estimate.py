"""What a run will cost, as far as it is known before its first step: compute and memory."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from torch import nn

from vit_lightning.callbacks.run_length import RunLength
from vit_lightning.compute.cost import training_flops
from vit_lightning.compute.memory import Step, Trained, TrainingMemory, activations
from vit_lightning.contracts import RecipeTrained
from vit_lightning.terminal import number

GIB, MIB = 2**30, 2**20
GAPS = 1.15
"""What a CPU's allocator takes of activations, gaps and what passes included, measured for Ti/16, S/16 and B/16."""
PRECISIONS = {"bf16": "bf16-mixed", "fp16": "16-mixed"}
"""Precisions that train in half floats, by arithmetic."""


class RunEstimate(NamedTuple):
    """What is known of a run without measuring.

    Args:
        steps: Optimiser steps; infinite for a run that time ends.
        images: Training images, each as often as it is seen.
        exaflops: As the paper's table 6 counts; None for a model that names no net.
        memory: On each device; None likewise.
    """

    steps: float
    images: float
    exaflops: float | None
    memory: TrainingMemory | None

    @property
    def figures(self) -> dict[str, float]:
        """Figures for the logs, by name."""
        found = {"cost/estimated_exaflops": self.exaflops} if self.exaflops else {}
        return found | ({"cost/estimated_memory_gib": self.memory.total / GIB} if self.memory else {})


def estimate(trainer: Trainer, model: LightningModule) -> RunEstimate:
    """Return what a run will cost, whose loaders and optimisers are there."""
    length, batch = RunLength(trainer), getattr(trainer.train_dataloader, "batch_size", None)
    if not isinstance(model, RecipeTrained) or not batch:
        return RunEstimate(length.steps, math.inf, None, None)
    images = length.batches * batch * trainer.world_size
    flops = flops_per_image(model, computed=False)
    exaflops = images * flops / 1e18 if flops and math.isfinite(images) else None
    try:
        memory = training_memory(model, batch, trainer)
    except RuntimeError:  # a net of timm has an operation that needs storage
        memory = None
    return RunEstimate(length.steps, images, exaflops, memory)


def estimate_line(found: RunEstimate) -> str | None:
    """Return the line of a plan that says what a run will cost; None where nothing is known."""
    parts = [f"{found.exaflops:.3g} exaFLOPs"] if found.exaflops else []
    parts += [memory_in_words(found.memory)] if found.memory else []
    return f"estimate {', '.join(parts)}" if parts else None


def memory_in_words(memory: TrainingMemory) -> str:
    """Return the memory of a device and its parts."""
    unit, name = (GIB, "GiB") if memory.total >= GIB else (MIB, "MiB")
    parts = zip(("weights", "gradients", "optimiser", "activations"), memory, strict=True)
    said = ", ".join(f"{part} {_rounded(value / unit, 2)}" for part, value in parts)
    return f"{_rounded(memory.total / unit, 3)} {name} on a device ({said})"


def _rounded(value: float, digits: int) -> str:
    """Return a number of so many digits that count, without an exponent."""
    return number(float(f"{value:.{digits}g}"))


def cost_in_words(figures: Mapping[str, float], on_gpu: bool) -> str:
    """Return what a run has cost beside what it was estimated to.

    Args:
        figures: Figures of Throughput, by name.
        on_gpu: Whether the memory is a GPU's, and not that of a process with all that it has loaded.
    """

    def beside(name: str, digits: str = ".3g") -> str:
        estimated = figures.get(f"cost/estimated_{name}")
        return "" if estimated is None else f" (estimated {estimated:{digits}})"

    parts = [f"{figures['cost/device_hours']:.3g} device hours"]
    if "cost/exaflops" in figures:
        parts.insert(0, f"{figures['cost/exaflops']:.3g} exaFLOPs{beside('exaflops')}")
    if "cost/memory_gib" in figures:
        whose = "peak memory" if on_gpu else "peak memory of the process"
        parts.append(f"{whose} {figures['cost/memory_gib']:.3g} GiB{beside('memory_gib') if on_gpu else ''}")
    if "cost/energy_kwh" in figures:
        parts.append(f"{figures['cost/energy_kwh']:.3g} kWh")
    return ", ".join(parts)


def flops_per_image(model: LightningModule, computed: bool) -> int | None:
    """FLOPs of training on one image, as computed or as the paper counts; None for a model that names no net."""
    if not isinstance(model, RecipeTrained):
        return None
    facts = model.hparams
    frozen, bias_only = facts.get("freeze_trunk", False), facts.get("bias_only", False)
    return training_flops(model.config, facts.image_size, facts.num_classes, frozen, computed, bias_only)


def training_memory(
    model: LightningModule, batch: int, trainer: Trainer, arithmetic: str | None = None
) -> TrainingMemory:
    """Return the memory of a step on each device.

    Args:
        model: A model that names its net, which is built.
        batch: Images on a device.
        trainer: Its trainer, with its optimisers.
        arithmetic: That of matrix products on a GPU which is not here, such as bf16; None: the trainer's device and
            precision.
    """
    facts = model.hparams
    precision = str(trainer.precision) if arithmetic is None else PRECISIONS.get(arithmetic, "32-true")
    half, whole = precision.startswith(("bf16", "16")), precision.endswith("true")
    on_gpu = arithmetic is not None or trainer.strategy.root_device.type == "cuda"
    total, trained, states = _numbers(model, trainer)
    size = 8 if precision.startswith("64") else 2 if half and whole else 4
    step = Step(
        batch,
        activation_bytes=2 if half else size,
        stream_bytes=size,
        on_gpu=on_gpu and not facts.get("compile"),
        recompute=bool(facts.get("recompute")),
        trained=_trained(facts),
    )
    copies = 2 * total if half and not whole and step.trained != "head" else 0  # what autocast makes of kernels
    copies += 4 * total if facts.get("averaging", {}).get("decay") else 0
    copies += size * total if facts.get("lora", {}).get("rank") else 0  # kernels with their updates
    buckets = 2 if isinstance(trainer.strategy, DDPStrategy) and trainer.world_size > 1 else 1
    shares = trainer.world_size if isinstance(trainer.strategy, ModelParallelStrategy) else 1
    kept = activations(model.config, facts.image_size, facts.num_classes, step)
    kept = kept if on_gpu else int(GAPS * kept)
    return TrainingMemory(
        (total * size + copies) // shares, trained * size * buckets // shares, states * size // shares, kept
    )


def _trained(facts: dict) -> Trained:
    if facts.get("freeze_trunk"):
        return "head"
    return "biases" if facts.get("bias_only") else "all"


def _numbers(model: nn.Module, trainer: Trainer) -> tuple[int, int, int]:
    """Parameters, those that are trained, and the numbers that the optimiser keeps of these."""
    counts = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    states = sum(
        parameter.numel() * (1 if group.get("muon") or "betas" not in group else 2)
        for optimizer in trainer.optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    )
    return sum(count for count, _ in counts), sum(count for count, trained in counts if trained), states
