"""Factors that bring the tensors of fp8 products into the range of their type, one for each tensor of a block.

A factor follows from the largest values of the last passes (delayed scaling: Micikevicius et al., 2022), so that a
tensor is scaled and rounded by the kernel that reads it anyway. Where no pass has shown a value yet, or all were zero
as below a new head, the tensor is looked at first.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

HISTORY = 16
"""Passes whose largest values decide a factor."""
LAYERS = ("qkv", "out", "up", "down")
TENSORS = ("input", "weight", "gradient")
"""What a layer's three products take: gradient is that of its output."""
TYPES = {"input": torch.float8_e4m3fn, "weight": torch.float8_e4m3fn, "gradient": torch.float8_e5m2}
HEADROOM = {"input": 2.0, "weight": 2.0, "gradient": 8.0}
"""How much larger than all of the last passes a value may be before it is cut: gradients grow fast in a warm-up, and
their type has exponents to spare."""
LARGEST_FACTOR = 1e30


class Site(NamedTuple):
    """One tensor's place among the factors.

    Args:
        scale: all factors; zero where none is known yet.
        amax: largest values of this pass.
        first: largest values of what was looked at because no factor was known.
        place: index of the tensor in all three.
        tensor: its kind, one of TENSORS.
    """

    scale: Tensor
    amax: Tensor
    first: Tensor
    place: int
    tensor: str

    @property
    def dtype(self) -> torch.dtype:
        """Type of the scaled tensor."""
        return TYPES[self.tensor]


class BlockScales(NamedTuple):
    """The factors of one block, which is the given one of those that compute in fp8."""

    scales: "Fp8Scales"
    block: int

    def site(self, layer: str, tensor: str) -> Site:
        """Return the place of a tensor of a layer."""
        scales, place = self.scales, LAYERS.index(layer) * len(TENSORS) + TENSORS.index(tensor)
        place += self.block * len(LAYERS) * len(TENSORS)
        return Site(scales.scale, scales.amax, scales.first, place, tensor)


class Fp8Scales(nn.Module):
    """The factors of all blocks, and the largest values that they follow from.

    All are buffers that no file of weights holds. They change by operations of the device alone, so that a CUDA graph
    replays them.

    Args:
        blocks: how many blocks compute in fp8.
    """

    scale: Tensor
    amax: Tensor
    first: Tensor
    history: Tensor
    room: Tensor

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = blocks
        sites = blocks * len(LAYERS) * len(TENSORS)
        for name in ("scale", "amax", "first"):
            self.register_buffer(name, torch.zeros(sites), persistent=False)
        self.register_buffer("history", torch.zeros(HISTORY, sites), persistent=False)
        room = [torch.finfo(TYPES[tensor]).max / HEADROOM[tensor] for tensor in TENSORS]
        self.register_buffer("room", torch.tensor(room).repeat(blocks * len(LAYERS)), persistent=False)

    def of_block(self, block: int) -> BlockScales:
        """Return the factors of a block."""
        return BlockScales(self, block)

    @torch.no_grad()
    def advance(self) -> None:
        """Begin a forward pass: what the last one saw joins the history, and the factors follow it."""
        self.history.copy_(torch.cat([self._seen()[None], self.history[:-1]]))
        largest = self.history.amax(0)
        factor = (self.room / largest).clamp(max=LARGEST_FACTOR)
        self.scale.copy_(torch.where(largest > 0, factor, 0.0))
        self.amax.zero_()
        self.first.zero_()

    def _seen(self) -> Tensor:
        """Largest values of this pass; what is not finite goes on in the tensors themselves, not in their factors."""
        return torch.where(self.amax.isfinite(), self.amax, 0.0)

    def state(self) -> dict[str, Tensor]:
        """Return what a resumed run goes on with, on the host."""
        return {"history": self.history.cpu(), "amax": self._seen().cpu()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        self.history.copy_(state["history"])
        self.amax.copy_(state["amax"])
