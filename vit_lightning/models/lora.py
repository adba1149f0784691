"""Low-rank updates of a transformer's kernels (LoRA; Hu et al., arXiv 2106.09685)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vit_lightning.errors import InputError
from vit_lightning.models.blocks import Block
from vit_lightning.models.dense import Dense
from vit_lightning.models.vit import ViT

PART = ".lora."
"""What the names of the factors have in them, and no other parameter's name has."""


@dataclass
class Lora:
    """Low-rank updates of the blocks' kernels, trained beside the head in place of the net (arXiv 2106.09685)."""

    rank: int = 0
    """Rank of low-rank updates, such as 8 (0: no LoRA). The kernels of queries, keys and values, and of the MLP, become
    W + B A alpha / rank, of which A and B are trained. Export, convert and Predictor merge them."""
    alpha: float = 8.0
    """Factor of the updates, divided by their rank."""

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise InputError(f"--model.lora.rank is {self.rank}; it must be positive, such as 8, or 0 for no LoRA")
        if not 0 < self.alpha < math.inf:
            raise InputError(f"--model.lora.alpha is {self.alpha}; it must be positive and finite, such as 8")


class LowRank(nn.Module):
    """The update `B A alpha / rank` of a kernel, zero at first.

    Args:
        weight: the kernel `out in`.
        lora: its rank and alpha.
    """

    def __init__(self, weight: Tensor, lora: Lora) -> None:
        super().__init__()
        outputs, inputs = weight.shape
        self.scale = lora.alpha / lora.rank
        self.a = nn.Parameter(weight.new_empty(lora.rank, inputs))
        self.b = nn.Parameter(weight.new_empty(outputs, lora.rank))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        nn.init.zeros_(self.b)

    def forward(self, weight: Tensor) -> Tensor:
        """Returns the updated kernel."""
        with torch.autocast(weight.device.type, enabled=False):  # half precision would round the update away
            return merged(weight, self.a, self.b, self.scale)


def merged(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Returns a kernel `out in` with its update, of factors `rank in` and `out rank`."""
    return torch.addmm(weight, b, a, alpha=scale)


def add_lora(net: nn.Module, lora: Lora) -> None:
    """Gives the kernels of a ViT's blocks low-rank updates.

    Raises:
        InputError: the net has no such blocks, or kernels of a smaller rank.
    """
    if not isinstance(net, ViT):
        raise InputError(
            f"--model.lora.rank {lora.rank} is for the blocks of a ViT, and this net has none; train its biases by "
            "--model.bias_only true, its head by --model.freeze_trunk true, or all of it"
        )
    if lora.rank > (most := min(net.config.width, net.config.mlp)):
        raise InputError(f"--model.lora.rank is {lora.rank}, but the kernels of this net have at most rank {most}")
    for block in net.blocks:
        assert isinstance(block, Block)
        for dense in (block.attention.qkv, block.mlp.up, block.mlp.down):
            dense.lora = LowRank(dense.weight, lora)


def drop_lora(net: nn.Module) -> None:
    """Takes away the updates of a net that is to be filled with kernels into which they are merged."""
    for module in net.modules():
        if isinstance(module, Dense):
            module.lora = None


def check_precise(net: nn.Module) -> None:
    """Refuses weights in half precision, which would round small updates away.

    Raises:
        InputError: the net has low-rank updates and such weights.
    """
    if any(isinstance(module, LowRank) and module.a.dtype.itemsize < 4 for module in net.modules()):
        raise InputError(
            "--model.lora.rank needs weights in fp32, since half precision rounds small updates away; give "
            "--trainer.precision bf16-mixed or 32-true"
        )
