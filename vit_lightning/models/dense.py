"""Linear layers that own their initialisation, as the official code draws it.

Tensors without storage are left alone: torch would import for a second to find out that there is nothing to draw.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

Initialise = Callable[[Tensor], object]


def xavier_(weight: Tensor, parts: int = 1) -> Tensor:
    """Fills a weight with Xavier-uniform values; `parts` matrices of equal size stacked in it count one by one."""
    outputs, inputs = weight.shape
    bound = math.sqrt(6 / (inputs + outputs // parts))
    return nn.init.uniform_(weight, -bound, bound)


@torch.no_grad()
def lecun_normal_(weight: Tensor) -> Tensor:
    """Fills a weight with normal values cut at two deviations, whose deviation after the cut is 1 / sqrt(fan-in)."""
    if weight.is_meta:
        return weight
    cut = math.erf(math.sqrt(2))
    std = 1 / math.sqrt(weight[0].numel()) / 0.87962566103423978
    return weight.uniform_(-cut, cut).erfinv_().mul_(math.sqrt(2) * std)


def normal_(tensor: Tensor, std: float) -> Tensor:
    """Fills a tensor with normal values around 0."""
    return tensor if tensor.is_meta else nn.init.normal_(tensor, std=std)


class Dense(nn.Linear):
    """Linear layer that owns its initialisation, so that a net built without storage can be filled layer by layer.

    Its kernel may have an update, `lora`, which makes another kernel of it.
    """

    def __init__(
        self, inputs: int, outputs: int, weight: Initialise = xavier_, bias: Initialise = nn.init.zeros_
    ) -> None:
        self.initialise_weight, self.initialise_bias = weight, bias
        super().__init__(inputs, outputs)
        self.lora: nn.Module | None = None

    def reset_parameters(self) -> None:
        self.initialise_weight(self.weight)
        self.initialise_bias(self.bias)

    @property
    def kernel(self) -> Tensor:
        """What multiplies the inputs, `out in`."""
        return self.weight if self.lora is None else self.lora(self.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        return linear(tokens, self.kernel, self.bias)
