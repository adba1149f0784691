"""Registers for a net that was trained without them: stores for what it puts into artefacts (arXiv 2506.08010).

A few neurons of the MLPs write the artefacts. In a copy of the net they write into new tokens, which no head reads,
and into no patch any more. No weight is trained.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from einops import reduce
from torch import Tensor, nn

from vit_lightning.errors import InputError
from vit_lightning.inspection.observation import blocks_of, hooked, observe
from vit_lightning.models import assemble
from vit_lightning.models.vit import ViT

NEURONS = 10
"""Neurons that are moved."""


class Neuron(NamedTuple):
    """A neuron of the MLP of a block."""

    layer: int
    number: int


@torch.no_grad()
def register_neurons(
    net: ViT, batches: Iterable[Tensor], threshold: float, emerges_at: int, count: int = NEURONS
) -> list[Neuron]:
    """Returns the neurons that are more active at artefacts than elsewhere, by falling difference.

    Args:
        net: the net, in evaluation mode.
        batches: normalised images `b c height width`.
        threshold: norm of the last block's output from which on a patch is an artefact.
        emerges_at: the last block whose neurons count.
        count: how many to return.

    Raises:
        InputError: no image has an artefact.
    """
    layers, blocks = range(emerges_at + 1), blocks_of(net)
    high, low = (torch.zeros(len(layers), net.config.mlp, dtype=torch.float64) for _ in range(2))
    counts = [0, 0]
    for images in batches:
        is_high = observe(net, images).norms[-1] > threshold
        counts = [counts[0] + int(is_high.sum()), counts[1] + int((~is_high).sum())]

        def add(layer: int, activations: Tensor, is_high: Tensor = is_high) -> None:
            patches = activations[:, net.num_prefix_tokens :].abs()
            high[layer] += patches[is_high].double().sum(0).cpu()
            low[layer] += patches[~is_high].double().sum(0).cpu()

        with hooked((blocks[layer].mlp.activation.register_forward_hook, _reader(layer, add)) for layer in layers):
            net.through_blocks(net.place(net.embed(images)))
    if not counts[0]:
        raise InputError("no patch of these images is an artefact, so that no neuron writes any; give other images")
    difference = high / counts[0] - low / max(counts[1], 1)
    best = difference.flatten().topk(min(count, difference.numel())).indices.tolist()
    return [Neuron(*divmod(place, net.config.mlp)) for place in best]


def with_test_time_registers(net: ViT, neurons: Iterable[Neuron], registers: int = 1) -> ViT:
    """Returns a copy of a net in which neurons write into new registers what they would write into patches.

    A register takes the largest activation of the patches, and the patches none. The copy has hooks, which neither
    files nor exported programs keep.

    Args:
        net: the net.
        neurons: what `register_neurons` returns.
        registers: tokens to add, behind those that the net has.

    Raises:
        InputError: the net's positions or its attention leave no place for further tokens.
    """
    if net.config.position == "relative" or net.config.attention != "global":
        raise InputError("registers need attention among all tokens and positions that are added; this net has others")
    grown = assemble(replace(net.config, registers=net.config.registers + registers), net.image_size, net.num_classes)
    assert isinstance(grown, ViT)
    state = deepcopy(net.state_dict())
    empty = torch.zeros(1, registers, net.config.width)
    state["registers"] = torch.cat([state["registers"].cpu(), empty], dim=1) if "registers" in state else empty
    grown.load_state_dict(state)
    grown.eval().to(next(net.parameters()).device)
    by_layer: dict[int, list[int]] = {}
    for neuron in neurons:
        by_layer.setdefault(neuron.layer, []).append(neuron.number)
    prefix = grown.num_prefix_tokens
    for layer, numbers in by_layer.items():
        blocks_of(grown)[layer].mlp.activation.register_forward_hook(_mover(numbers, prefix, registers))
    return grown


def _reader(layer: int, add: Callable[[int, Tensor], None]) -> Callable[..., None]:
    def read(module: nn.Module, inputs: Any, activations: Tensor) -> None:
        add(layer, activations)

    return read


def _mover(numbers: list[int], prefix: int, registers: int) -> Callable[..., Tensor]:
    def move(module: nn.Module, inputs: Any, activations: Tensor) -> Tensor:
        moved, chosen = activations.clone(), torch.tensor(numbers, device=activations.device)
        largest = reduce(activations[:, prefix:, chosen], "b n m -> b 1 m", "max")
        moved[:, prefix - registers : prefix, chosen] = largest
        moved[:, prefix:, chosen] = 0
        return moved

    return move
