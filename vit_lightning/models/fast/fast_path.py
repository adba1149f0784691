"""Where the fast path of `fused` can be taken, asked without importing it."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from vit_lightning.models.config import ResolvedConfig


def fusible(config: ResolvedConfig, tokens: Tensor) -> bool:
    """Whether the blocks can take these tokens on the fast path: half precision on a GPU, and no rarer part."""
    return fusible_net(config) and half_on_gpu(tokens) is not None


def fusible_net(config: ResolvedConfig) -> bool:
    """Whether the blocks have no part that the fast path lacks."""
    usual = config.attention == "global" and config.position != "relative" and config.position_at == "stem"
    width = config.width // config.heads
    return usual and not config.swiglu and width % 8 == 0 and 16 <= width <= 128


def half_on_gpu(tensor: Tensor) -> torch.dtype | None:
    """Returns the half-precision type that this tensor's consumers compute in if our kernels can serve them.

    They cannot without Triton, and the compiler gets the plain path, which it fuses by itself.
    """
    if not tensor.is_cuda or torch.compiler.is_compiling() or not _has_triton():
        return None
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else tensor.dtype
    return dtype if dtype in (torch.bfloat16, torch.float16) else None


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None and torch.cuda.get_device_capability() >= (8, 0)
